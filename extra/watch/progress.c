/* progress.c - the file `progress` of the run folder: where each rank is, as a text that dtrain
 * status prints. It is written in place by one call, in lines of one length. */
#include <time.h>

#include "monitor.h"

#define HEAD "progress of a dtrain run: "
#define GOING "going on"
enum { LINE = 240, FIRST_LINES = 2, MOST_BYTES = 64 << 20 };

/* ---- The text -------------------------------------------------------------------------------- */

static const char *const activity_text[DT_ACTIVITY_COUNT] = {DT_ACTIVITY_LIST(DT_TEXT_OF)};

void dt_progress_place(const dt_watch *w, int rank, char *out, size_t room)
{
    const dt_activity *p = &w->board->row[rank].place;
    const int phase = dt_seen(p->phase), layer = dt_seen(p->layer);
    const long long step = (long long)dt_seen(p->step);
    const char *text = phase >= 0 && phase < DT_ACTIVITY_COUNT ? activity_text[phase] : "?";

    if (w->o.library)
        snprintf(out, room, "%s call %lld",
                 layer >= 0 ? w->o.name(w->o.plan, layer) : "the program after", step);
    else if (layer >= 0 && layer < w->o.names && phase != DT_AT_test) /* its plan has others */
        snprintf(out, room, "%s, %s of step %lld", text, w->o.name(w->o.plan, layer), step);
    else if (step == 0 || phase == DT_AT_begin)
        snprintf(out, room, "%s", text);
    else if (phase == DT_AT_exchange)
        snprintf(out, room, "%s of step %lld, bucket %lld", text, step,
                 (long long)dt_seen(p->slice) + 1);
    else
        snprintf(out, room, "%s %s step %lld", text,
                 phase == DT_AT_save || phase == DT_AT_test || phase == DT_AT_between ? "after"
                                                                                      : "of",
                 step);
}

static void describe_run(const dt_watch *w, char *out, size_t room)
{
    const dt_activity *p = &w->board->row[0].place;
    const int code = dt_seen(w->board->ended) - 1;
    const double step_s = 1e-9 * (double)dt_seen(p->step_ns);
    char manner[64] = GOING, speed[64] = "";

    if (code == dt_status_exit_code(DT_STALLED))
        snprintf(manner, sizeof manner, "ended by --stall-abort");
    else if (code >= 0)
        snprintf(manner, sizeof manner, code == 0 ? "over" : "%s (exit code %d)",
                 code == dt_status_exit_code(DT_PREEMPTED) ? "stopped" : "ended by an error", code);
    if (step_s > 0)
        snprintf(speed, sizeof speed, ", %.1f images/s in the last", (double)w->o.batch / step_s);
    snprintf(out, room, HEAD "%s: step %lld of %lld%s", manner, (long long)dt_seen(p->step),
             (long long)w->o.total_steps, speed);
}

static void describe_rank(const dt_watch *w, int r, int64_t now, char *out, size_t room)
{
    const dt_row *row = &w->board->row[r];
    const int64_t waits = dt_seen(row->place.waits_ns), changed = dt_seen(row->place.changed_ns);
    const bool runs = dt_seen(w->board->ended) ||
                      now - dt_seen(row->heard_ns) < DT_WATCH_HEARD_S * INT64_C(1000000000);
    const char *manner = !runs ? "does not run: " : waits ? "waits in " : "";
    char place[128], where[160];

    dt_progress_place(w, r, place, sizeof place);
    snprintf(where, sizeof where, "%s%.100s, %.1f s", manner, place,
             1e-9 * (double)(now - (waits ? waits : changed)));
    snprintf(out, room, "%5d  %-16.40s %8lld %8.1f  %s", r, w->who[r].host,
             (long long)w->who[r].pid, 1e-6 * (double)dt_seen(row->place.sent_bytes),
             dt_seen(w->board->ended) == 1 ? "done" : where); /* exit code 0 */
}

static void describe_all(const dt_watch *w, int64_t now)
{
    char line[LINE];

    for (int i = 0; i < w->world + FIRST_LINES; i++) {
        if (i == 0)
            describe_run(w, line, LINE);
        else if (i == 1)
            snprintf(line, LINE,
                     " rank  host                  pid  MB sent  where, and for how long");
        else
            describe_rank(w, i - FIRST_LINES, now, line, LINE);
        snprintf(w->text + (size_t)i * LINE, LINE + 1, "%-*s\n", LINE - 1, line);
    }
}

/* ---- Writing --------------------------------------------------------------------------------- */

void dt_progress_write(const dt_watch *w)
{
    if (w->file < 0)
        return;
    describe_all(w, dt_activity_clock());
    if (pwrite(w->file, w->text, w->text_bytes, 0) == (ssize_t)w->text_bytes)
        (void)!ftruncate(w->file, (off_t)w->text_bytes); /* the next one mends all */
}

/* A new file each time: the older run's may have other names. */
static void make_file(dt_watch *w)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/progress", w->o.folder);
    unlink(path);
    w->file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (w->file < 0)
        dt_warn("cannot make %s: %s; dtrain status cannot look at this run", path, strerror(errno));
    else
        (void)dt_lend(w->file, &w->board->file);
}

dt_status dt_progress_open(dt_watch *w, dt_comm *c)
{
    dt_status st = DT_OK;

    if (w->rank == 0)
        w->board->file.fd = -1;
    if (w->rank == 0 && w->o.folder)
        make_file(w);
    DT_TRY(dt_comm_barrier(c));
    if (w->node_first == 0 && w->rank != 0 && w->board->file.fd >= 0)
        (void)dt_borrow(&w->board->file, &w->file); /* else rank 0 alone writes it */
    w->text_bytes = (size_t)(w->world + FIRST_LINES) * LINE;
    if (w->file >= 0)
        st = dt_calloc(&w->text, w->text_bytes + 1, 1, "the text of the run's progress");
    DT_TRY(dt_comm_agree(c, st));
    if (w->rank == 0)
        dt_progress_write(w);
    return DT_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static const char running[] = HEAD GOING;

/* The hour: of a hundred runs that were killed last year none is waited for. */
bool dt_watch_writes(const char *run)
{
    enum { LOOK = 4096, RECENT_S = 3600 };
    char path[PATH_MAX], text[2][LOOK + 1] = {"", ""};
    struct stat info;

    snprintf(path, sizeof path, "%s/progress", run);
    for (int i = 0; i < 2; i++) {
        nanosleep(&(struct timespec){.tv_sec = i, .tv_nsec = 200000000 * i}, NULL);
        const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        const bool done = fd >= 0 && fstat(fd, &info) == 0 && read(fd, text[i], LOOK) > 0;
        close(fd);
        if (!done || difftime(time(NULL), info.st_mtime) > RECENT_S ||
            strncmp(text[i], running, sizeof running - 1) != 0)
            return false;
    }
    return strcmp(text[0], text[1]) != 0;
}

dt_status dt_watch_status(const char *run, bool going, FILE *f)
{
    char path[PATH_MAX], *text = NULL, *rest = NULL;

    snprintf(path, sizeof path, "%s/progress", run);
    const dt_status st = dt_file_read(AT_FDCWD, path, MOST_BYTES, &text, NULL);
    if (st == DT_NOINPUT)
        return dt_fail_place(st, "%s is no run folder, or its first step has not begun: ", run);
    DT_TRY(st);
    if (strncmp(text, HEAD, sizeof HEAD - 1) != 0) {
        free(text);
        return dt_fail(DT_FORMAT, "%s is no text of a run's progress", path);
    }
    const bool killed = !going && strncmp(text, running, sizeof running - 1) == 0;
    char *at = text + (killed ? sizeof running : sizeof HEAD) - 1;
    fprintf(f, "run %s is %s", DT_SHOWN(run),
            killed ? "killed, or its machine was: it did not end by itself" : "");
    for (char *line = strtok_r(at, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        for (size_t length = strlen(line); length > 0 && line[length - 1] == ' '; length--)
            line[length - 1] = '\0';
        dt_log_shown(line);
        fprintf(f, "%s\n", line);
    }
    free(text);
    return DT_OK;
}

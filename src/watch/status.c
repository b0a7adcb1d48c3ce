/* status.c - dtrain status: the table of a run, live or dead, for a reader. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "table.h"

/* ---- The file -------------------------------------------------------------------------------- */

static dt_status check_head(const char *path, const dt_table_head *h, size_t bytes)
{
    if (bytes < sizeof *h || memcmp(h->magic, DT_TABLE_MAGIC, sizeof DT_TABLE_MAGIC) != 0)
        return dt_fail(DT_FORMAT, "%s is no table of a run's progress", path);
    if (h->version != DT_TABLE_VERSION || h->row_bytes != (int32_t)sizeof(dt_table_row))
        return dt_fail(DT_UNSUPPORTED, "%s is of another version of dtrain: take that one", path);
    if (h->world < 1 || h->names < 0 || (size_t)h->world > bytes / sizeof(dt_table_row) ||
        (size_t)h->names > bytes / DT_TABLE_NAME || dt_table_bytes(h->world, h->names) > bytes)
        return dt_fail(DT_FORMAT, "%s has %zu bytes: too few for its %d ranks", path, bytes,
                       (int)h->world);
    return DT_OK;
}

/* Every run has its options there before its first step. */
static dt_status no_table(const char *path)
{
    char options[PATH_MAX + 16];
    const char *why = dt_open_error();
    const int folder = (int)(strrchr(path, '/') - path);

    snprintf(options, sizeof options, "%.*s/options.yaml", folder, path);
    if (access(options, F_OK) != 0)
        return dt_fail(DT_NOINPUT,
                       "cannot read %s: %s; %.*s is no run folder: name the one that was "
                       "given as --out",
                       path, why, folder, path);
    return dt_fail(DT_NOINPUT,
                   "cannot read %s: %s; a run has none that was started by an older version, that "
                   "has not begun its first step, or whose folder was removed since",
                   path, why);
}

/* A copy, so that nothing changes while it is looked at. *memory: to be freed by free(). */
static dt_status read_table(const char *path, void **memory, dt_table *t)
{
    enum { MOST = 64 << 20 };
    struct stat info;
    dt_status st = DT_OK;

    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return no_table(path);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > MOST)
        st = dt_fail(DT_FORMAT, "%s is no table of a run's progress", path);
    if (st == DT_OK)
        st = dt_calloc(memory, (size_t)info.st_size + _Alignof(dt_table_row), 1, path);
    const int64_t have = st == DT_OK ? dt_read_until(fd, *memory, (size_t)info.st_size) : 0;
    close(fd);
    if (st == DT_OK)
        st = check_head(path, *memory, (size_t)DT_MAX(have, 0));
    if (st == DT_OK)
        *t = dt_table_of(*memory, ((dt_table_head *)*memory)->world);
    return st;
}

/* ---- What it says ------------------------------------------------------------------------- */

static bool is_this_boot(const dt_table *t)
{
    char boot[DT_TABLE_BOOT];

    dt_table_boot(boot);
    return boot[0] && strncmp(boot, t->head->boot, sizeof boot) == 0;
}

/* Now, or of a run that is over, when it was heard of last. */
static int64_t clock_of(const dt_table *t, bool going)
{
    int64_t last = 0;

    if (going && is_this_boot(t))
        return dt_place_clock();
    for (int r = 0; r < t->head->world; r++) {
        const dt_place *p = &t->row[r].place;
        last = DT_MAX(last, dt_seen(p->changed_ns));
        last = DT_MAX(last, dt_seen(p->waits_ns));
        last = DT_MAX(last, dt_seen(t->row[r].heard_ns));
    }
    return last;
}

static void print_manner(const dt_table *t, bool going, FILE *f)
{
    const int code = dt_seen(t->head->ended) - 1;

    if (dt_seen(t->head->stalled))
        fputs("ended by --stall-abort", f);
    else if (code > 0)
        fprintf(f, "%s (exit code %d)",
                code == dt_status_exit_code(DT_PREEMPTED) ? "stopped" : "ended by an error", code);
    else if (code == 0)
        fputs("over", f);
    else
        fputs(going ? "going on" : "killed, or its machine was: it did not end by itself", f);
}

/* Where all have ended, nobody is heard. */
static const char *state_of(const dt_table_row *row, int64_t now, bool going)
{
    if (going && now - dt_seen(row->heard_ns) > DT_WATCH_HEARD_S * INT64_C(1000000000))
        return "does not run: ";
    return dt_seen(row->place.waits_ns) ? "waits in " : "";
}

static void print_rank(const dt_table *t, int r, int64_t now, bool going, FILE *f)
{
    const dt_table_row *row = &t->row[r];
    const dt_place *p = &row->place;
    const int64_t waits = dt_seen(p->waits_ns), changed = dt_seen(p->changed_ns);
    char place[160], host[DT_HOST_CHARS + 1];

    dt_table_place(t, r, place, sizeof place);
    dt_log_shown(place, sizeof place);
    snprintf(host, sizeof host, "%.*s", DT_HOST_CHARS - 1, row->host);
    dt_log_shown(host, sizeof host);
    fprintf(f, "%5d  %-16s %8lld %8.1f  %s%s, %.1f s\n", r, host, (long long)row->pid,
            1e-6 * (double)dt_seen(p->sent_bytes), state_of(row, now, going), place,
            1e-9 * (double)(now - (waits ? waits : changed)));
}

dt_status dt_watch_status(const char *run, bool going, FILE *f)
{
    char path[PATH_MAX];
    void *memory = NULL;
    dt_table t;

    if (snprintf(path, sizeof path, "%s/progress", run) >= PATH_MAX)
        return dt_fail(DT_NOINPUT, "%.200s...: the path is too long", run);
    const dt_status st = read_table(path, &memory, &t);
    if (st == DT_OK) {
        const int64_t now = clock_of(&t, going);
        const double step_s = 1e-9 * (double)dt_seen(t.row[0].place.step_ns);
        fprintf(f, "run %s is ", run);
        print_manner(&t, going, f);
        fprintf(f, ": step %lld of %lld", (long long)dt_seen(t.row[0].place.step),
                (long long)t.head->total_steps);
        if (step_s > 0)
            fprintf(f, ", %.1f images/s in the last", (double)t.head->batch / step_s);
        fprintf(f, "\n rank  host                  pid  MB sent  where, and for how long\n");
        for (int r = 0; r < t.head->world; r++)
            print_rank(&t, r, now, going, f);
    }
    free(memory);
    return st;
}

/* eyes.c - what the thread of a rank sees, says and does. */
#include "eyes.h"

#include <fcntl.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

/* ---- Looking ------------------------------------------------------------------------------ */

static double seconds_since(const dt_watch *w, int64_t ns, int64_t now)
{
    return 1e-9 * (double)(now - DT_MAX(ns, w->since_ns));
}

/* Whether its host was heard of, if not its process. */
static bool told(const dt_watch *w, int r, int64_t now)
{
    const bool here = r >= w->node_first && r < w->node_end;

    return here || seconds_since(w, dt_seen(w->table.row[r].told_ns), now) < DT_WATCH_HEARD_S;
}

static void look(dt_watch *w, int64_t now)
{
    for (int r = 0; r < w->world; r++) {
        const dt_place *p = &w->table.row[r].place;
        const int64_t heard = dt_seen(w->table.row[r].heard_ns), waits = dt_seen(p->waits_ns);
        const int64_t longest = dt_seen(p->longest_ns), before = dt_seen(p->before_ns);
        const bool known = heard != 0; /* no firewall kept it from being heard */
        const bool runs = !known || seconds_since(w, heard, now) < DT_WATCH_HEARD_S;
        const int64_t still = !runs ? heard : waits ? waits : dt_seen(p->changed_ns);
        const int64_t allowed = waits ? dt_seen(p->step_ns) : DT_MAX(longest, before);
        /* who speaks for another node may have changed meanwhile */
        const double silent_s = told(w, r, now) ? 0 : DT_WATCH_HEARD_S;

        w->view[r] = (dt_watch_view){.runs = runs,
                                     .waits = !known || waits != 0,
                                     .still_s = seconds_since(w, still, now),
                                     .allowed_s = runs ? 1e-9 * (double)allowed : silent_s};
    }
}

/* Of the process, by the kernel's letter. */
static char process_state(int64_t pid)
{
    char path[64], text[512];

    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')'); /* the name may hold anything */
    return name_end && name_end[1] ? name_end[2] : DT_STATE_GONE;
}

/* For all who may speak of them. */
static void look_closer(const dt_watch *w)
{
    for (int r = w->node_first; r < w->node_end; r++)
        if (!w->view[r].runs)
            dt_tell(w->table.row[r].state, process_state(w->table.row[r].pid));
}

/* Whether this rank speaks for all from `first` on: none of them before it runs. */
static bool speaks(const dt_watch *w, int first)
{
    for (int r = first; r < w->rank; r++)
        if (w->view[r].runs && dt_seen(w->table.row[r].heard_ns))
            return false;
    return true;
}

/* ---- Saying --------------------------------------------------------------------------------- */

/* A rank of a host that was heard of before, and is no more. */
static bool host_is_silent(const dt_watch *w, int r, int64_t now)
{
    return !w->view[r].runs && !told(w, r, now);
}

static const char *manner(const dt_watch *w, int r, int64_t now)
{
    const dt_table_row *row = &w->table.row[r];

    if (w->view[r].runs)
        return "is in";
    if (host_is_silent(w, r, now))
        return "has not been heard of, and was in";
    switch (dt_seen(row->state)) {
    case 'T':
    case 't':
        return "is stopped (SIGSTOP) in";
    case DT_STATE_GONE:
    case 'Z':
        return "is gone; it was in";
    default:
        return "does not run, in";
    }
}

static void say(const char *what)
{
    char line[1024 + 16];

    snprintf(line, sizeof line, "dtrain: %s", what);
    dt_log_line(line);
}

static void describe_all(const dt_watch *w, const dt_watch_verdict *v, char *out, size_t room)
{
    const dt_table_row *row = &w->table.row[v->rank];
    char place[160];

    dt_table_place(&w->table, v->rank, place, sizeof place);
    if (!dt_seen(row->heard_ns))
        snprintf(out, room,
                 "all ranks here wait for %.1f s, and rank %d (host %s, pid %lld) was never heard "
                 "of: is UDP let through between the hosts?",
                 v->still_s, row->rank, row->host, (long long)row->pid);
    else
        snprintf(out, room,
                 "all %d ranks wait, rank %d (host %s, pid %lld) in %s, for %.1f s: a message "
                 "between them is lost or very late",
                 w->world, row->rank, row->host, (long long)row->pid, place, v->still_s);
}

static void describe(const dt_watch *w, const dt_watch_verdict *v, char *out, size_t room)
{
    const dt_table_row *row = &w->table.row[v->rank];
    char place[160], others[64] = "";

    if (v->kind == DT_WATCH_ALL_WAIT) {
        describe_all(w, v, out, room);
        return;
    }
    dt_table_place(&w->table, v->rank, place, sizeof place);
    if (v->ranks > 1)
        snprintf(others, sizeof others, ", and %d more stand%s still", v->ranks - 1,
                 v->ranks == 2 ? "s" : "");
    snprintf(out, room, "rank %d (host %s, pid %lld) %s %s for %.1f s%s", row->rank, row->host,
             (long long)row->pid, manner(w, v->rank, dt_place_clock()), place, v->still_s, others);
    const size_t used = strlen(out);
    if (v->waits > 0)
        snprintf(out + used, room - used, "; %d rank%s for it", v->waits,
                 v->waits == 1 ? " waits" : "s wait");
}

/* Again when it has lasted twice as long. */
static void tell(dt_watch *w, const dt_watch_verdict *v)
{
    char line[768];
    const bool same = w->last.kind == v->kind && w->last.rank == v->rank;

    if (v->kind == DT_WATCH_FINE) {
        if (w->last.kind == DT_WATCH_LATE) {
            snprintf(line, sizeof line, "rank %d goes on", w->table.row[w->last.rank].rank);
            say(line);
        } else if (w->last.kind == DT_WATCH_ALL_WAIT) {
            say("the ranks go on");
        }
    } else if (!same || v->still_s >= w->next_s) {
        describe(w, v, line, sizeof line);
        say(line);
        w->next_s = 2 * v->still_s;
    }
    w->last = *v;
}

/* ---- Ending --------------------------------------------------------------------------------- */

/* No rank can be asked to come to an end together with one that does not move. */
static void give_up(dt_watch *w, const dt_watch_verdict *v, double limit)
{
    char line[1024], what[768];

    describe(w, v, what, sizeof what);
    snprintf(line, sizeof line,
             "%s: ended after %s %g s; checkpoints are whole: start it again with --resume auto",
             what, limit < w->abort_s ? "silence of the host for" : "--stall-abort", limit);
    say(line);
    dt_tell(w->table.head->stalled, 1);
    dt_copy_ask(w);
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000000L}, NULL); /* for the copy, no longer */
}

void dt_watch_obey(const dt_watch *w)
{
    if (dt_seen(w->table.head->stalled))
        _exit(dt_status_exit_code(DT_STALLED));
}

/* Whether a rank has waited for so long: else messages of MPI still come, if no others. */
static bool waits_since(const dt_watch *w, double seconds)
{
    for (int r = 0; r < w->world; r++)
        if (w->view[r].runs && w->view[r].waits && w->view[r].still_s >= seconds)
            return true;
    return false;
}

/* One whose host is silent for so long, or -1, whoever else is late. */
static int silent_rank(const dt_watch *w, double seconds, int64_t now)
{
    for (int r = 0; r < w->world; r++)
        if (host_is_silent(w, r, now) && w->view[r].still_s >= seconds)
            return r;
    return -1;
}

static void judge(dt_watch *w, bool leads, int64_t now)
{
    enum { TURN_S = 2 }; /* for who speaks for all to end the run first, and say so */
    const bool first = speaks(w, 0);
    const double least = DT_MIN(w->warn_s, w->silent_s);

    if (!isfinite(least))
        return;
    dt_watch_verdict v = dt_watch_judge(w->view, w->world, least);
    /* Who has said that a rank stands still also says that it goes on. */
    if (v.kind == DT_WATCH_FINE || (first && v.still_s >= w->warn_s))
        tell(w, &v);
    if (!leads || v.kind == DT_WATCH_FINE)
        return;
    const double turn_s = first ? 0 : TURN_S;
    const int lost = silent_rank(w, w->silent_s + turn_s, now);
    if (lost >= 0 && waits_since(w, w->silent_s)) {
        v.rank = lost;
        v.still_s = w->view[lost].still_s;
        give_up(w, &v, w->silent_s);
    } else if (v.still_s >= w->abort_s + turn_s) {
        give_up(w, &v, w->abort_s);
    }
}

void dt_watch_look(dt_watch *w, int64_t now)
{
    look(w, now);
    const bool leads = speaks(w, w->node_first);
    if (leads) {
        look_closer(w);
        dt_channel_send(w->channel, &w->table, w->node_first, w->node_end, now);
        dt_copy_ask(w);
    }
    if (leads || w->last.kind != DT_WATCH_FINE)
        judge(w, leads, now);
}

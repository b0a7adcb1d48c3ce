/* monitor.c - what the monitor of a rank sees, says and does: one look at the board. */
#include "monitor.h"

#include <fcntl.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

/* ---- Looking --------------------------------------------------------------------------------- */

static double seconds_since(const dt_watch *w, int64_t ns, int64_t now)
{
    return 1e-9 * (double)(now - DT_MAX(ns, w->since_ns));
}

/* Whether its host was heard of, if not its process. */
static bool host_is_heard(const dt_watch *w, int r, int64_t now)
{
    const bool here = r >= w->node_first && r < w->node_end;

    return here || seconds_since(w, dt_seen(w->board->row[r].told_ns), now) < DT_WATCH_HEARD_S;
}

static void look(dt_watch *w, int64_t now)
{
    for (int r = 0; r < w->world; r++) {
        const dt_place *p = &w->board->row[r].place;
        const int64_t heard = dt_seen(w->board->row[r].heard_ns), waits = dt_seen(p->waits_ns);
        const int64_t longest = dt_seen(p->longest_ns), before = dt_seen(p->before_ns);
        const bool known = heard != 0; /* no firewall kept it from being heard */
        const bool runs = !known || seconds_since(w, heard, now) < DT_WATCH_HEARD_S;
        const int64_t still = !runs ? heard : waits ? waits : dt_seen(p->changed_ns);
        const int64_t allowed = waits ? dt_seen(p->step_ns) : DT_MAX(longest, before);
        /* another rank may have become its node's leader meanwhile */
        const double silent_s = host_is_heard(w, r, now) ? 0 : DT_WATCH_HEARD_S;

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

/* Whether this rank leads all from `first` on: none of them before it runs. */
static bool leads_from(const dt_watch *w, int first)
{
    for (int r = first; r < w->rank; r++)
        if (w->view[r].runs && dt_seen(w->board->row[r].heard_ns))
            return false;
    return true;
}

/* A rank of a host that was heard of before, and is no more. */
static bool host_is_silent(const dt_watch *w, int r, int64_t now)
{
    return !w->view[r].runs && !host_is_heard(w, r, now);
}

/* ---- Saying ---------------------------------------------------------------------------------- */

static const char *manner(const dt_watch *w, int r, int64_t now)
{
    const int state = dt_seen(w->board->row[r].state);

    if (w->view[r].runs)
        return "is in";
    if (host_is_silent(w, r, now))
        return "has not been heard of, and was in";
    if (state == 'T' || state == 't')
        return "is stopped (SIGSTOP) in";
    return state == DT_STATE_GONE || state == 'Z' ? "is gone; it was in" : "does not run, in";
}

static void describe(const dt_watch *w, const dt_watch_verdict *v, char *out, size_t room)
{
    const int r = v->rank;
    char rank[128], place[160], others[64] = "", waits[64] = "";

    snprintf(rank, sizeof rank, "rank %d (host %s, pid %lld)", r, w->who[r].host,
             (long long)w->who[r].pid);
    dt_progress_place(w, r, place, sizeof place);
    if (v->ranks > 1)
        snprintf(others, sizeof others, ", and %d more stand%s still", v->ranks - 1,
                 v->ranks == 2 ? "s" : "");
    if (v->waits > 0)
        snprintf(waits, sizeof waits, "; %d rank%s for it", v->waits,
                 v->waits == 1 ? " waits" : "s wait");
    if (v->kind != DT_WATCH_ALL_WAIT)
        snprintf(out, room, "dtrain: %s %s %s for %.1f s%s%s", rank, manner(w, r, dt_place_clock()),
                 place, v->still_s, others, waits);
    else
        snprintf(out, room,
                 "dtrain: all %d ranks wait, %s in %s, for %.1f s: a message between them is lost "
                 "or very "
                 "late, or no UDP passes between the hosts, which would tell who is late",
                 w->world, rank, place, v->still_s);
}

/* Again when it has lasted twice as long. */
static void tell(dt_watch *w, const dt_watch_verdict *v)
{
    char line[768];
    const bool same = w->last.kind == v->kind && w->last.rank == v->rank;

    if (v->kind != DT_WATCH_FINE && (!same || v->still_s >= w->next_s)) {
        describe(w, v, line, sizeof line);
        dt_log_line(line);
        w->next_s = 2 * v->still_s;
    } else if (v->kind == DT_WATCH_FINE && w->last.kind != DT_WATCH_FINE) {
        snprintf(line, sizeof line, "dtrain: rank %d goes on", w->last.rank);
        dt_log_line(line);
    }
    w->last = *v;
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* No rank can be asked to come to an end together with one that does not move. */
static void give_up(dt_watch *w, const dt_watch_verdict *v, double limit)
{
    enum { TRIES = 20 }; /* a disk has two seconds for the last text */
    const struct timespec pause = {.tv_nsec = 100 * 1000000L};
    const int before = w->written;
    char line[1024], what[768];

    describe(w, v, what, sizeof what);
    snprintf(line, sizeof line,
             "%s: ended after %s %g s; checkpoints are whole: start it again with --resume auto",
             what, limit < w->abort_s ? "silence of the host for" : "--stall-abort", limit);
    dt_log_line(line);
    dt_tell(w->board->ended, 1 + dt_status_exit_code(DT_STALLED));
    for (int i = 0; i < TRIES && w->file >= 0 && w->written < before + 2; i++) {
        sem_post(&w->due); /* the one under way may be of before */
        nanosleep(&pause, NULL);
    }
    dt_tell(w->board->stalled, 1);
}

void dt_monitor_obey(const dt_watch *w)
{
    if (dt_seen(w->board->stalled))
        _exit(dt_status_exit_code(DT_STALLED));
}

/* leads: this rank does, its node. A host counts as lost only while a rank waits for as long: else
 * messages of MPI still come, if no others. */
static void judge(dt_watch *w, bool leads, int64_t now)
{
    enum { TURN_S = 2 }; /* for the leader of all to end the run first, and say so */
    const bool first = leads_from(w, 0);
    const double least = DT_MIN(w->warn_s, w->silent_s), turn_s = first ? 0 : TURN_S;

    if (!isfinite(least))
        return;
    const dt_watch_verdict v = dt_watch_judge(w->view, w->world, least);
    /* A rank that has said that one stands still also says that it goes on. */
    if (v.kind == DT_WATCH_FINE || (first && v.still_s >= w->warn_s))
        tell(w, &v);
    if (!leads || v.kind == DT_WATCH_FINE)
        return;
    const bool lost = host_is_silent(w, v.rank, now) && v.waits_s >= w->silent_s;
    const double limit = lost ? w->silent_s : w->abort_s;
    if (v.still_s >= limit + turn_s)
        give_up(w, &v, limit);
}

void dt_monitor_look(dt_watch *w, int64_t now)
{
    look(w, now);
    const bool leads = leads_from(w, w->node_first);
    if (leads) {
        for (int r = w->node_first; r < w->node_end; r++)
            if (!w->view[r].runs)
                dt_tell(w->board->row[r].state, process_state(w->who[r].pid));
        dt_channel_send(w, now);
        sem_post(&w->due);
    }
    if (leads || w->last.kind != DT_WATCH_FINE)
        judge(w, leads, now);
}

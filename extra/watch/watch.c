/* watch.c - the monitor says which rank stands still, and ends the run; it allocates nothing. */
#include "monitor.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

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
        const dt_activity *p = &w->board->row[r].place;
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
                                     .allowed_s = !runs          ? silent_s
                                                  : w->o.library ? 0
                                                                 : 1e-9 * (double)allowed};
    }
}

/* Of the process, by the kernel's letter. */
static char process_state(int64_t pid)
{
    char path[64], text[512], state = DT_STATE_GONE;

    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[DT_MAX(n, 0)] = '\0';
    (void)sscanf(text, "%*d (%*[^)]) %c", &state); /* behind its name */
    return state;
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

dt_watch_verdict dt_watch_judge(const dt_watch_view *view, int count, double warn_s)
{
    dt_watch_verdict of[] = {{.kind = DT_WATCH_LATE}, {.kind = DT_WATCH_ALL_WAIT}};

    for (int r = 0; r < count; r++) {
        const dt_watch_view *v = &view[r];
        const bool waits = v->runs && v->waits;
        dt_watch_verdict *w = &of[waits];
        if (waits && v->still_s > warn_s / 2)
            of->waits++;
        if (waits)
            of->waits_s = DT_MAX(of->waits_s, v->still_s);
        if (v->still_s <= warn_s + v->allowed_s + (waits ? DT_WATCH_HEARD_S : 0))
            continue;
        w->ranks++;
        if (v->still_s > w->still_s) {
            w->rank = r;
            w->still_s = v->still_s;
        }
    }
    if (of[0].ranks > 0 && (of->waits > 0 || count == 1))
        return of[0];
    of[1].waits = of[0].waits;
    of[1].waits_s = of[0].waits_s;
    return of[1].ranks == count ? of[1] : (dt_watch_verdict){.kind = DT_WATCH_FINE};
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
    char rank[128], place[160], waits[64] = "";

    snprintf(rank, sizeof rank, "rank %d (host %s, pid %lld)", r, w->who[r].host,
             (long long)w->who[r].pid);
    dt_progress_place(w, r, place, sizeof place);
    if (v->waits > 0)
        snprintf(waits, sizeof waits, "; %d rank%s for it", v->waits,
                 v->waits == 1 ? " waits" : "s wait");
    if (v->kind != DT_WATCH_ALL_WAIT)
        snprintf(out, room, "dtrain: %s %s %s for %.1f s%s", rank,
                 manner(w, r, dt_activity_clock()), place, v->still_s, waits);
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
    const char *name = w->o.library ? w->o.library : "--stall-abort";
    char line[1024], what[768];

    describe(w, v, what, sizeof what);
    snprintf(line, sizeof line, "%s: ended after %s %g s%s", what,
             limit < w->o.abort_s ? "silence of the host for" : name, limit,
             w->o.library ? "" : "; checkpoints are whole: start it again with --resume auto");
    dt_log_line(line);
    dt_tell(w->board->ended, 1 + dt_status_exit_code(DT_STALLED));
    for (int i = 0; i < TRIES && w->file >= 0 && w->written < before + 2; i++) {
        sem_post(&w->due); /* the one under way may be of before */
        nanosleep(&pause, NULL);
    }
    dt_tell(w->board->stalled, 1);
}

/* A host counts as lost only while a rank waits for as long: else messages of MPI still come, if no
 * others. */
static void act(dt_watch *w, int64_t now)
{
    enum {
        TURN_S = 2,    /* for the leader of all to end the run first, and say so */
        SILENT_S = 45, /* a host that is silent for so long, while others wait, is lost */
    };
    const bool leads = leads_from(w, w->node_first), first = leads_from(w, 0);
    const double silent_s = isfinite(w->o.abort_s) ? DT_MIN(w->o.abort_s, SILENT_S) : HUGE_VAL;
    const double least = DT_MIN(w->o.warn_s, silent_s);

    if (leads) {
        for (int r = w->node_first; r < w->node_end; r++)
            if (!w->view[r].runs)
                dt_tell(w->board->row[r].state, process_state(w->who[r].pid));
        dt_channel_send(w, now);
        sem_post(&w->due);
    }
    if (!isfinite(least) || (!leads && w->last.kind == DT_WATCH_FINE))
        return;
    const dt_watch_verdict v = dt_watch_judge(w->view, w->world, least);
    /* A rank that has said that one stands still also says that it goes on. */
    if (v.kind == DT_WATCH_FINE || (first && v.still_s >= w->o.warn_s))
        tell(w, &v);
    if (!leads || v.kind == DT_WATCH_FINE)
        return;
    const bool lost = host_is_silent(w, v.rank, now) && v.waits_s >= silent_s;
    const double limit = lost ? silent_s : w->o.abort_s;
    if (v.still_s >= limit + (first ? 0 : TURN_S) && (!w->o.library || v.waits_s >= limit))
        give_up(w, &v, limit);
}

/* ---- The threads ----------------------------------------------------------------------------- */

/* PAUSE_MS: what the tick itself may be late before everything was stopped. */
enum { TICK_MS = 500, PAUSE_MS = 1000 };

/* Whether the tick came: else it is time to stop. A semaphore's time is the wall clock's, which
 * may be set, in the C library before 2.30. */
static bool next_tick(dt_watch *w)
{
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};

    syscall(SYS_futex, &w->stop, FUTEX_WAIT_PRIVATE, 0, &tick, NULL, 0);
    return !w->stop;
}

static void *monitor_main(void *context)
{
    dt_watch *w = context;

    for (int64_t last = dt_activity_clock(); next_tick(w);) {
        const int64_t now = dt_activity_clock();
        if ((now - last) / 1000000 > TICK_MS + PAUSE_MS)
            w->since_ns = now; /* the whole run may have been stopped, and no rank is late */
        last = now;
        dt_tell(w->board->row[w->rank].heard_ns, now);
        dt_channel_receive(w, now);
        if (dt_seen(w->board->stalled))
            _exit(dt_status_exit_code(DT_STALLED));
        look(w, now);
        act(w, now);
    }
    return NULL;
}

static void *writer_main(void *context)
{
    dt_watch *w = context;

    for (;;) {
        sem_wait(&w->due);
        while (sem_trywait(&w->due) == 0)
            ; /* once for all that a slow disk has left */
        if (w->stop)
            return NULL; /* rank 0 writes the last one */
        dt_progress_write(w);
        w->written++;
    }
}

static dt_status threads_start(dt_watch *w)
{
    void *(*const body[])(void *) = {monitor_main, writer_main};
    const int count = w->file >= 0 ? 2 : 1;

    for (; w->threads < count; w->threads++)
        DT_TRY(dt_thread_start(&w->thread[w->threads], body[w->threads], w, "watch the ranks"));
    return DT_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* This rank's own part of what all know of each other. */
static dt_status take(dt_watch *w, dt_comm *c)
{
    sem_init(&w->due, 0, 0);
    DT_TRY(dt_calloc(&w->who, (size_t)w->world, sizeof *w->who, "the watch"));
    DT_TRY(dt_calloc(&w->view, (size_t)w->world, sizeof *w->view, "the watch"));
    w->who[w->rank].pid = getpid();
    w->who[w->rank].first = w->node_first;
    dt_host_name(w->who[w->rank].host);
    return dt_channel_open(w, c);
}

/* It is put together by sums: the others' are zero. */
static dt_status share(dt_watch *w, dt_comm *c)
{
    const size_t words = (size_t)w->world * sizeof *w->who / sizeof(int64_t);
    const size_t bytes = sizeof *w->board + (size_t)w->world * sizeof *w->board->row;

    DT_TRY(dt_comm_sum_i64(c, (int64_t *)(void *)w->who, words));
    DT_TRY(dt_node_slab_create(&w->memory, c, bytes, "the ranks' progress"));
    w->board = w->memory.mem;
    DT_TRY(dt_progress_open(w, c));
    dt_tell(w->board->row[w->rank].heard_ns, dt_activity_clock());
    dt_activity_use(&w->board->row[w->rank].place);
    return dt_comm_barrier(c);
}

void dt_watch_close(dt_watch *w, int code)
{
    if (!w)
        return;
    const bool ran = w->threads > 0;
    w->stop = 1;
    syscall(SYS_futex, &w->stop, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    sem_post(&w->due);
    while (w->threads > 0)
        pthread_join(w->thread[--w->threads], NULL);
    if (ran)
        dt_tell(w->board->ended, 1 + code);
    if (ran && w->rank == 0)
        dt_progress_write(w);
    dt_activity_use(NULL);
    close(w->socket);
    close(w->file);
    dt_slab_destroy(&w->memory);
    DT_FREE(w->sent, w->leader, w->text, w->view, w->who, w);
}

dt_status dt_watch_open(dt_watch **out, dt_comm *c, const dt_watch_opts *o)
{
    const int rank = c->rank, first = rank - c->node_rank;
    dt_watch *w = NULL;
    dt_status st;

    *out = NULL;
    DT_TRY(dt_comm_agree(c, dt_calloc(&w, 1, sizeof *w, "the watch")));
    *w = (dt_watch){.rank = rank,
                    .world = c->world,
                    .node_first = first,
                    .node_end = first + c->node_ranks,
                    .o = *o,
                    .since_ns = dt_activity_clock(),
                    .named = -1,
                    .socket = -1,
                    .file = -1};
    w->o.warn_s = o->warn_s > 0 ? o->warn_s : HUGE_VAL;
    w->o.abort_s = o->abort_s > 0 ? o->abort_s : HUGE_VAL;
    DT_GO(st, dt_comm_agree(c, take(w, c)), failed);
    DT_GO(st, share(w, c), failed);
    DT_GO(st, dt_comm_agree(c, threads_start(w)), failed);
    *out = w;
    return DT_OK;

failed:
    dt_watch_close(w, dt_status_exit_code(st));
    return st;
}

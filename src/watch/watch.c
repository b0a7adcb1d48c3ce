/* watch.c - a thread of each rank, the monitor, that looks at the board twice a second. It
 * allocates nothing and calls no MPI. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "monitor.h"

enum { PAUSE_MS = 1000 }; /* what the tick itself may be late before everything was stopped */

/* ---- The threads ----------------------------------------------------------------------------- */

/* Whether the tick came: else it is time to stop. */
static bool next_tick(dt_watch *w)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += DT_TICK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (sem_clockwait(&w->wake, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
        ;
    return !w->stop;
}

static void *monitor_main(void *context)
{
    dt_watch *w = context;

    for (int64_t last = dt_place_clock(); next_tick(w);) {
        const int64_t now = dt_place_clock();
        if ((now - last) / 1000000 > DT_TICK_MS + PAUSE_MS)
            w->since_ns = now; /* the whole run may have been stopped, and no rank is late */
        last = now;
        dt_tell(w->board->row[w->rank].heard_ns, now);
        dt_channel_receive(w, now);
        dt_monitor_obey(w);
        dt_monitor_look(w, now);
        dt_monitor_obey(w);
    }
    return NULL;
}

static void *writer_main(void *context)
{
    dt_watch *w = context;

    for (;;) {
        while (sem_wait(&w->due) != 0)
            ;
        while (sem_trywait(&w->due) == 0)
            ; /* once for all that a slow disk has left */
        if (w->stop)
            return NULL; /* rank 0 writes the last one */
        dt_progress_write(w);
        w->written++;
    }
}

/* Without signals: those are for threads that handle them. */
static dt_status threads_start(dt_watch *w)
{
    void *(*const body[])(void *) = {monitor_main, writer_main};
    const int count = w->file >= 0 ? 2 : 1;
    sigset_t all, before;
    int error = 0;

    if (sigfillset(&all) != 0 || pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return dt_fail(DT_BUG, "the monitor's signals: %s", strerror(errno));
    while (error == 0 && w->threads < count) {
        error = pthread_create(&w->thread[w->threads], NULL, body[w->threads], w);
        w->threads += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? DT_OK
                      : dt_fail(DT_NOMEM,
                                "no thread to watch the ranks: %s; lower --threads, or raise the "
                                "limit of processes (ulimit -u) or of memory (ulimit -v)",
                                strerror(error));
}

static void threads_stop(dt_watch *w, int code)
{
    const bool ran = w->threads > 0;

    w->stop = true;
    sem_post(&w->wake);
    sem_post(&w->due);
    while (w->threads > 0)
        pthread_join(w->thread[--w->threads], NULL);
    if (ran)
        dt_tell(w->board->ended, 1 + code);
    if (ran && w->rank == 0)
        dt_progress_write(w);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static dt_status take(dt_watch *w, dt_comm *c, const dt_watch_opts *o)
{
    dt_who *own;

    if (sem_init(&w->wake, 0, 0) != 0 || sem_init(&w->due, 0, 0) != 0)
        return dt_fail(DT_BUG, "a semaphore of the watch: %s", strerror(errno));
    DT_TRY(dt_calloc(&w->who, (size_t)w->world, sizeof *w->who, "the watch"));
    DT_TRY(dt_calloc(&w->view, (size_t)w->world, sizeof *w->view, "the watch"));
    DT_TRY(dt_calloc(&w->name, (size_t)o->names + 1, sizeof *w->name, "the watch"));
    for (w->names = 0; w->names < o->names; w->names++)
        snprintf(w->name[w->names], DT_WATCH_NAME, "%s", o->name[w->names]);
    own = &w->who[w->rank];
    own->pid = getpid();
    own->first = w->node_first;
    dt_host_name(own->host);
    return dt_channel_open(w, c);
}

/* What the ranks know of each other, put together by sums: the others' are zero. */
static dt_status share(dt_watch *w, dt_comm *c, const dt_watch_opts *o)
{
    const size_t words = (size_t)w->world * sizeof *w->who / sizeof(int64_t);
    const size_t bytes = sizeof *w->board + (size_t)w->world * sizeof *w->board->row;
    void *memory = NULL;

    DT_TRY(dt_comm_sum_i64(c, (int64_t *)(void *)w->who, words));
    DT_TRY(dt_node_mem_create(&w->memory, c, bytes, "the ranks' progress", &memory));
    w->board = memory;
    DT_TRY(dt_progress_open(w, c, o->folder));
    dt_tell(w->board->row[w->rank].heard_ns, dt_place_clock());
    dt_place_use(&w->board->row[w->rank].place);
    return dt_comm_barrier(c);
}

static void watch_free(dt_watch *w, int code)
{
    threads_stop(w, code);
    dt_place_use(NULL);
    if (w->socket >= 0)
        close(w->socket);
    if (w->file >= 0)
        close(w->file);
    dt_node_mem_destroy(w->memory);
    free(w->sent);
    free(w->leader);
    free(w->text);
    free(w->name);
    free(w->view);
    free(w->who);
    free(w);
}

dt_status dt_watch_open(dt_watch **out, dt_comm *c, const dt_watch_opts *o)
{
    const double abort_s = o->abort_s > 0 ? o->abort_s : HUGE_VAL;
    const int rank = dt_comm_rank(c), first = rank - dt_comm_node_rank(c);
    dt_watch *w = NULL;
    dt_status st;

    *out = NULL;
    DT_TRY(dt_comm_agree(c, dt_calloc(&w, 1, sizeof *w, "the watch")));
    *w = (dt_watch){.rank = rank,
                    .world = dt_comm_world(c),
                    .node_first = first,
                    .node_end = first + dt_comm_node_ranks(c),
                    .warn_s = o->warn_s > 0 ? o->warn_s : HUGE_VAL,
                    .abort_s = abort_s,
                    .silent_s = o->abort_s > 0 ? DT_MIN(abort_s, DT_WATCH_SILENT_S) : HUGE_VAL,
                    .total_steps = o->total_steps,
                    .batch = o->batch,
                    .since_ns = dt_place_clock(),
                    .socket = -1,
                    .file = -1};
    DT_GO(st, dt_comm_agree(c, take(w, c, o)), failed);
    DT_GO(st, share(w, c, o), failed);
    DT_GO(st, dt_comm_agree(c, threads_start(w)), failed);
    *out = w;
    return DT_OK;

failed:
    watch_free(w, dt_status_exit_code(st));
    return st;
}

void dt_watch_close(dt_watch *w, int code)
{
    if (w)
        watch_free(w, code);
}

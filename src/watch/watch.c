/* watch.c - a thread that looks at the table twice a second. It allocates nothing and calls no
 * MPI; lines go to stderr, whole. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "backtrace.h"
#include "eyes.h"

enum {
    TICK_MS = 500,
    PAUSE_MS = 1000, /* what the tick itself may be late before everything was stopped */
};

static sem_t wake; /* also by SIGQUIT's handler */
static volatile sig_atomic_t asked;

/* ---- The thread ----------------------------------------------------------------------------- */

/* Whether the tick came: else it is time to stop. */
static bool next_tick(dt_watch *w)
{
    bool stop;

    (void)dt_wait_ms(&wake, TICK_MS);
    __atomic_load(&w->stop, &stop, __ATOMIC_ACQUIRE);
    return !stop;
}

static void *watch_main(void *context)
{
    dt_watch *w = context;
    dt_table_row *mine = &w->table.row[w->rank];

    for (int64_t last = dt_place_clock(); next_tick(w);) {
        const int64_t now = dt_place_clock();
        if ((now - last) / 1000000 > TICK_MS + PAUSE_MS)
            w->since_ns = now; /* the whole run may have been stopped, and nobody is late */
        last = now;
        dt_tell(mine->heard_ns, now);
        dt_channel_receive(w->channel, &w->table, now);
        dt_watch_obey(w);
        if (asked) {
            char place[160];
            asked = 0;
            dt_table_place(&w->table, w->rank, place, sizeof place);
            dt_backtraces(w->rank, place);
        }
        dt_watch_look(w, now);
        dt_watch_obey(w);
    }
    return NULL;
}

static void note_quit(int number)
{
    (void)number;
    asked = 1;
    sem_post(&wake);
}

/* Signals go to the threads that know what to do with them. */
static dt_status thread_start(pthread_t *thread, void *(*body)(void *), dt_watch *w, bool *started)
{
    sigset_t all, before;

    if (sigfillset(&all) != 0 || pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return dt_fail(DT_BUG, "the watcher's signals: %s", strerror(errno));
    const int error = pthread_create(thread, NULL, body, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *started = error == 0;
    if (error == 0)
        return DT_OK;
    return dt_fail(DT_NOMEM,
                   "no thread to watch the ranks: %s; lower --threads, or raise the limit of "
                   "processes (ulimit -u) or of memory (ulimit -v)",
                   strerror(error));
}

static dt_status threads_start(dt_watch *w)
{
    struct sigaction quit = {.sa_flags = SA_RESTART};

    quit.sa_handler = note_quit;
    if (sem_init(&wake, 0, 0) != 0 || sem_init(&w->copy_due, 0, 0) != 0)
        return dt_fail(DT_BUG, "the watcher's semaphores: %s", strerror(errno));
    if (w->copy >= 0)
        DT_TRY(thread_start(&w->copier, dt_copy_main, w, &w->copies));
    DT_TRY(thread_start(&w->thread, watch_main, w, &w->watches));
    dt_backtraces_prepare();
    if (sigaction(SIGQUIT, &quit, NULL) != 0)
        return dt_fail(DT_BUG, "cannot catch SIGQUIT: %s", strerror(errno));
    return DT_OK;
}

/* The watch first, which may still ask for a copy. */
static void threads_stop(dt_watch *w, int code)
{
    const bool stop = true;

    signal(SIGQUIT, SIG_DFL);
    __atomic_store(&w->stop, &stop, __ATOMIC_RELEASE);
    if (w->watches) {
        sem_post(&wake);
        pthread_join(w->thread, NULL);
        dt_tell(w->table.head->ended, 1 + code);
    }
    if (w->copies) {
        sem_post(&w->copy_due);
        pthread_join(w->copier, NULL);
    }
    w->watches = w->copies = false;
}

/* ---- Opening ---------------------------------------------------------------------------- */

static void fill_head(const dt_watch *w, const dt_watch_opts *o)
{
    dt_table_head *h = w->table.head;

    memcpy(h->magic, DT_TABLE_MAGIC, sizeof DT_TABLE_MAGIC);
    h->version = DT_TABLE_VERSION;
    h->row_bytes = sizeof(dt_table_row);
    h->world = w->world;
    h->names = o->names;
    h->total_steps = o->total_steps;
    h->batch = o->batch;
    dt_table_boot(h->boot);
    for (int i = 0; i < o->names; i++)
        snprintf(w->table.name + (size_t)i * DT_TABLE_NAME, DT_TABLE_NAME, "%s", o->name[i]);
}

/* Who the ranks are, put together by sums: the others' are zero. */
static dt_status fill_rows(const dt_watch *w, dt_comm *c)
{
    enum { WORDS = 1 + DT_HOST_CHARS / 8 };
    const size_t count = (size_t)w->world * WORDS;
    char host[DT_HOST_CHARS] = "";
    int64_t *all = NULL;

    DT_TRY(dt_comm_agree(c, dt_calloc(&all, count, sizeof *all, "who the ranks are")));
    dt_host_name(host);
    all[(size_t)w->rank * WORDS] = getpid();
    memcpy(&all[(size_t)w->rank * WORDS + 1], host, sizeof host);
    const dt_status st = dt_comm_sum_i64(c, all, count);
    for (int r = 0; r < w->world && st == DT_OK && dt_comm_node_rank(c) == 0; r++) {
        dt_table_row *row = &w->table.row[r];
        row->rank = r;
        row->pid = all[(size_t)r * WORDS];
        memcpy(row->host, &all[(size_t)r * WORDS + 1], sizeof row->host);
    }
    free(all);
    return st;
}

static dt_status watch_table(dt_watch *w, dt_comm *c, const dt_watch_opts *o, const char **why)
{
    void *memory = NULL;

    w->bytes = dt_table_bytes(w->world, o->names);
    DT_TRY(dt_node_mem_create(&w->memory, c, w->bytes, "the table of the ranks' progress", &memory,
                              why));
    if (!memory)
        return DT_OK;
    w->table = dt_table_of(memory, w->world);
    if (dt_comm_node_rank(c) == 0)
        fill_head(w, o);
    DT_TRY(fill_rows(w, c));
    if (w->rank == 0) {
        w->copy = dt_copy_make(o->folder, w->bytes);
        w->table.head->copy.fd = -1;
        if (w->copy >= 0)
            (void)dt_lend(w->copy, &w->table.head->copy);
        dt_copy_write(w);
    }
    DT_TRY(dt_comm_barrier(c));
    if (w->node_first == 0 && w->rank != 0 && w->table.head->copy.fd >= 0)
        (void)dt_borrow(&w->table.head->copy, &w->copy); /* else rank 0 alone writes it */
    dt_tell(w->table.row[w->rank].heard_ns, dt_place_clock());
    dt_place_use(&w->table.row[w->rank].place);
    return dt_comm_barrier(c);
}

static void watch_free(dt_watch *w, int code)
{
    threads_stop(w, code);
    dt_place_use(NULL);
    dt_channel_close(w->channel);
    if (w->copy >= 0)
        close(w->copy);
    dt_node_mem_destroy(w->memory);
    free(w->view);
    free(w);
}

dt_status dt_watch_open(dt_watch **out, dt_comm *c, const dt_watch_opts *o)
{
    const char *why = NULL;
    dt_watch *w = NULL;
    dt_status st;

    *out = NULL;
    DT_TRY(dt_comm_agree(c, dt_calloc(&w, 1, sizeof *w, "the watch")));
    w->rank = dt_comm_rank(c);
    w->world = dt_comm_world(c);
    w->node_first = w->rank - dt_comm_node_rank(c);
    w->node_end = w->node_first + dt_comm_node_ranks(c);
    w->warn_s = o->warn_s > 0 ? o->warn_s : HUGE_VAL;
    w->abort_s = o->abort_s > 0 ? o->abort_s : HUGE_VAL;
    w->silent_s = o->abort_s > 0 ? DT_MIN(o->abort_s, DT_WATCH_SILENT_S) : HUGE_VAL;
    w->since_ns = dt_place_clock();
    w->copy = -1;
    DT_GO(st, dt_comm_agree(c, dt_calloc(&w->view, (size_t)w->world, sizeof *w->view, "the watch")),
          failed);
    DT_GO(st, watch_table(w, c, o, &why), failed);
    if (why) {
        dt_warn("nobody watches the ranks: %s", why);
        goto failed;
    }
    DT_GO(st, dt_channel_open(&w->channel, c), failed);
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

void dt_watch_waited(const dt_watch *w, double *waited_s)
{
    for (int r = 0; r < w->world; r++)
        waited_s[r] = 1e-9 * (double)dt_seen(w->table.row[r].place.waited_ns);
}

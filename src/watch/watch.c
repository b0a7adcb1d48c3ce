/* watch.c - a thread that looks at the table twice a second. It allocates nothing and calls no
 * MPI; lines go to stderr, whole. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "backtrace.h"
#include "table.h"

enum {
    TICK_MS = 500,
    HEARD_MS = 3000, /* a watcher that is silent for so long does not run */
    PAUSE_MS = 3000, /* what the tick itself may be late before everything was stopped */
};

struct dt_watch {
    dt_table table;
    dt_node_mem *memory;
    int rank, world, node_first, node_end; /* ranks of this node */
    double warn_s, abort_s;
    dt_watch_view *view; /* [world] */
    pthread_t thread;
    bool stop;             /* under wake */
    int64_t since_ns;      /* nothing counts from before: the start, or the end of a pause */
    dt_watch_verdict last; /* what was said; FINE: nothing */
    double next_s;         /* of stillness, when it is said again */
};

static sem_t wake; /* also by SIGQUIT's handler */
static volatile sig_atomic_t asked;

/* ---- Looking ------------------------------------------------------------------------------ */

static double seconds_since(const dt_watch *w, int64_t ns, int64_t now)
{
    return 1e-9 * (double)(now - DT_MAX(ns, w->since_ns));
}

static void look(dt_watch *w, int64_t now)
{
    for (int r = 0; r < w->world; r++) {
        const dt_place *p = &w->table.row[r].place;
        const int64_t heard = dt_seen(w->table.row[r].heard_ns), waits = dt_seen(p->waits_ns);
        const int64_t longest = dt_seen(p->longest_ns), before = dt_seen(p->before_ns);
        const bool runs = seconds_since(w, heard, now) * 1e3 < HEARD_MS;
        const int64_t still = !runs ? heard : waits ? waits : dt_seen(p->changed_ns);
        const int64_t allowed = waits ? dt_seen(p->step_ns) : DT_MAX(longest, before);

        w->view[r] = (dt_watch_view){.runs = runs,
                                     .waits = waits != 0,
                                     .still_s = seconds_since(w, still, now),
                                     .allowed_s = 1e-9 * (double)allowed};
    }
}

/* Whether this rank speaks for its node: no rank before it runs. */
static bool speaks(const dt_watch *w)
{
    for (int r = w->node_first; r < w->rank; r++)
        if (w->view[r].runs)
            return false;
    return true;
}

/* ---- Saying --------------------------------------------------------------------------------- */

/* Of the process, by the kernel's letter: 0 where there is none. */
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
    return name_end && name_end[1] ? name_end[2] : 0;
}

static const char *manner(const dt_watch *w, int r)
{
    const bool here = r >= w->node_first && r < w->node_end;

    if (w->view[r].runs)
        return "is in";
    if (!here)
        return "has not been heard of, and was in";
    switch (process_state(w->table.row[r].pid)) {
    case 'T':
    case 't':
        return "is stopped (SIGSTOP) in";
    case 0:
    case 'Z':
        return "is gone; it was in";
    default:
        return "does not run, in";
    }
}

static void say(const char *line)
{
    char text[1024];
    const int n = snprintf(text, sizeof text, "dtrain: %s\n", line);
    const size_t length = (size_t)DT_MIN(n, (int)sizeof text - 1);

    if (write(STDERR_FILENO, text, length) < (ssize_t)length)
        return; /* nobody listens */
}

static void describe(const dt_watch *w, const dt_watch_verdict *v, char *out, size_t room)
{
    const dt_table_row *row = &w->table.row[v->rank];
    char place[160], others[64] = "";

    dt_table_place(&w->table, v->rank, place, sizeof place);
    if (v->kind == DT_WATCH_ALL_WAIT) {
        snprintf(out, room,
                 "all %d ranks wait, rank %d (host %s, pid %lld) in %s, for %.1f s: a message "
                 "between them is lost or very late",
                 w->world, row->rank, row->host, (long long)row->pid, place, v->still_s);
        return;
    }
    if (v->ranks > 1)
        snprintf(others, sizeof others, ", and %d more ranks stand still", v->ranks - 1);
    snprintf(out, room, "rank %d (host %s, pid %lld) %s %s for %.1f s%s", row->rank, row->host,
             (long long)row->pid, manner(w, v->rank), place, v->still_s, others);
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
static void give_up(dt_watch *w, const dt_watch_verdict *v)
{
    char line[1024], what[768];

    describe(w, v, what, sizeof what);
    snprintf(line, sizeof line,
             "%s: ended after --stall-abort %g s; checkpoints are whole: start it again with "
             "--resume auto",
             what, w->abort_s);
    say(line);
    dt_tell(w->table.head->stalled, 1);
}

static void obey(const dt_watch *w)
{
    if (dt_seen(w->table.head->stalled))
        _exit(dt_status_exit_code(DT_STALLED));
}

/* ---- The thread ----------------------------------------------------------------------------- */

/* Whether the tick came: else it is time to stop. */
static bool next_tick(dt_watch *w)
{
    struct timespec until;
    bool stop;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (sem_timedwait(&wake, &until) != 0 && errno == EINTR)
        ;
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
        obey(w);
        if (asked) {
            char place[160];
            asked = 0;
            dt_table_place(&w->table, w->rank, place, sizeof place);
            dt_backtraces(w->rank, place);
        }
        look(w, now);
        if (!speaks(w) || w->warn_s <= 0)
            continue;
        const dt_watch_verdict v = dt_watch_judge(w->view, w->world, w->warn_s);
        tell(w, &v);
        if (v.kind != DT_WATCH_FINE && w->abort_s > 0 && v.still_s >= w->abort_s)
            give_up(w, &v);
        obey(w);
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
static dt_status thread_start(dt_watch *w)
{
    sigset_t all, before;
    struct sigaction quit = {.sa_flags = SA_RESTART};

    quit.sa_handler = note_quit;
    if (sem_init(&wake, 0, 0) != 0 || sigfillset(&all) != 0 ||
        pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return dt_fail(DT_BUG, "the watcher's signals: %s", strerror(errno));
    const int error = pthread_create(&w->thread, NULL, watch_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return dt_fail(DT_NOMEM, "the system gives no thread to watch the ranks: %s",
                       strerror(error));
    dt_backtraces_prepare();
    if (sigaction(SIGQUIT, &quit, NULL) != 0)
        return dt_fail(DT_BUG, "cannot catch SIGQUIT: %s", strerror(errno));
    return DT_OK;
}

/* ---- Opening ---------------------------------------------------------------------------- */

/* Whether a file there may go: an older run's. */
static bool is_table(const char *path)
{
    char magic[sizeof DT_TABLE_MAGIC] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const ssize_t n = fd < 0 ? 0 : pread(fd, magic, sizeof magic, 0);

    if (fd >= 0)
        close(fd);
    return n == (ssize_t)sizeof magic && memcmp(magic, DT_TABLE_MAGIC, sizeof magic) == 0;
}

/* A new file each time: an older run's may still be mapped by somebody who looks at it. */
static int make_file(const dt_watch_opts *o)
{
    char path[PATH_MAX];

    if (!o->folder || snprintf(path, sizeof path, "%s/progress", o->folder) >= PATH_MAX)
        return -1;
    if (is_table(path))
        unlink(path);
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        dt_warn("cannot make %s: %s; dtrain status cannot look at this run", path, strerror(errno));
    return fd;
}

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

static void fill_row(const dt_watch *w)
{
    dt_table_row *row = &w->table.row[w->rank];

    row->rank = w->rank;
    row->pid = getpid();
    dt_host_name(row->host);
    dt_tell(row->heard_ns, dt_place_clock());
    dt_place_use(&row->place);
}

static dt_status watch_table(dt_watch *w, dt_comm *c, const dt_watch_opts *o, const char **why)
{
    const int file = dt_comm_rank(c) == 0 ? make_file(o) : -1;
    void *memory = NULL;

    DT_TRY(dt_node_mem_map(&w->memory, c, file, dt_table_bytes(w->world, o->names),
                           "the table of the ranks' progress", &memory, why));
    if (!memory)
        return DT_OK;
    w->table = dt_table_of(memory, w->world);
    if (dt_comm_node_rank(c) == 0)
        fill_head(w, o);
    DT_TRY(dt_comm_barrier(c));
    fill_row(w);
    return dt_comm_barrier(c);
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
    w->warn_s = o->warn_s;
    w->abort_s = o->abort_s;
    w->since_ns = dt_place_clock();
    DT_GO(st, dt_comm_agree(c, dt_calloc(&w->view, (size_t)w->world, sizeof *w->view, "the watch")),
          failed);
    DT_GO(st, watch_table(w, c, o, &why), failed);
    if (why) {
        dt_warn("nobody watches the ranks: %s", why);
        goto failed;
    }
    DT_GO(st, dt_comm_agree(c, thread_start(w)), failed);
    *out = w;
    return DT_OK;

failed:
    free(w->view);
    free(w);
    return st;
}

void dt_watch_close(dt_watch *w)
{
    const bool stop = true;

    if (!w)
        return;
    signal(SIGQUIT, SIG_DFL);
    __atomic_store(&w->stop, &stop, __ATOMIC_RELEASE);
    sem_post(&wake);
    pthread_join(w->thread, NULL);
    dt_tell(w->table.head->ended, 1);
    dt_place_use(NULL);
    dt_node_mem_destroy(w->memory);
    free(w->view);
    free(w);
}

void dt_watch_waited(const dt_watch *w, double *waited_s)
{
    for (int r = 0; r < w->world; r++)
        waited_s[r] = 1e-9 * (double)dt_seen(w->table.row[r].place.waited_ns);
}

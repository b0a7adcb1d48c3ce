/* watched.c - what the watch is told of a run, and the rank that the others wait for. */
#include "watched.h"

#include <stdlib.h>

dt_status dt_watched_setup(dt_watch **w, dt_comm *c, const dt_options *o)
{
    const dt_watch_opts opts = {.warn_s = o->stall_warn}; /* how long it may take is not known */

    return dt_watch_open(w, c, &opts);
}

dt_status dt_watched_open(dt_watch **w, const dt_run *r, const char *folder)
{
    const dt_plan *plan = r->contexts.plan[0]; /* plans of all batch sizes have the same steps */
    const size_t count = dt_plan_row_count(plan);
    const char **name = NULL;

    *w = NULL;
    DT_TRY(dt_comm_agree(r->comm, dt_calloc(&name, count, sizeof *name, "names of layers")));
    for (size_t i = 0; i < count; i++) {
        dt_plan_row row;
        dt_plan_row_get(plan, i, &row);
        name[i] = row.name;
    }
    const dt_watch_opts opts = {.folder = folder,
                                .name = name,
                                .names = (int)count,
                                .total_steps = r->total_steps,
                                .batch = r->global_batch,
                                .warn_s = r->o.stall_warn,
                                .abort_s = r->o.stall_abort};
    const dt_status st = dt_watch_open(w, r->comm, &opts);
    free(name);
    return st;
}

/* ---- Stragglers ---------------------------------------------------------------------------- */

enum { STRETCH_S = 2, LEAST_STRETCHES = 5 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int dt_late_rank(const double *waited, double *sorted, int world, double seconds, double *cost)
{
    int least = 0;

    memcpy(sorted, waited, (size_t)world * sizeof *sorted);
    qsort(sorted, (size_t)world, sizeof *sorted, by_size);
    for (int r = 1; r < world; r++)
        if (waited[r] < waited[least])
            least = r;
    *cost = sorted[world / 2] - waited[least];
    return *cost < 0.1 * seconds ? -1 : least;
}

static void count_late(dt_straggler *s, int world, double seconds)
{
    double *waited = s->seconds + world, cost;
    const int late = dt_late_rank(waited, waited + world, world, seconds, &cost);

    s->stretches++;
    if (late < 0)
        return;
    s->late[late]++;
    s->cost += cost;
}

static bool begin_stretches(dt_straggler *s, int world)
{
    if (s->seconds)
        return true;
    if (dt_calloc(&s->seconds, 3 * (size_t)world, sizeof *s->seconds, "times of waiting") ||
        dt_calloc(&s->late, (size_t)world, sizeof *s->late, "times of waiting")) {
        dt_fail_clear(); /* a line less */
        dt_straggler_release(s);
    }
    return s->seconds != NULL;
}

void dt_watched_step(dt_straggler *s, const dt_watch *w, const dt_run *r)
{
    const int world = dt_comm_world(r->comm);
    const double now = dt_seconds(), seconds = now - s->since;

    if (!w || dt_comm_rank(r->comm) != 0 || world < 2 || seconds < STRETCH_S ||
        !begin_stretches(s, world))
        return;
    double *before = s->seconds, *waited = before + world;
    dt_watch_waited(w, waited);
    for (int k = 0; k < world; k++) {
        const double all = waited[k];
        waited[k] = all - before[k];
        before[k] = all;
    }
    if (s->since > 0)
        count_late(s, world, seconds);
    s->since = now;
}

void dt_watched_epoch(dt_straggler *s, const dt_run *r)
{
    const int world = dt_comm_world(r->comm);

    for (int k = 0; s->late && k < world; k++) {
        if (s->stretches >= LEAST_STRETCHES && 2 * s->late[k] > s->stretches)
            dt_warn("rank %d is slower than the others: half of them have waited for it, %.1f s in "
                    "this epoch",
                    k, s->cost);
        s->late[k] = 0;
    }
    s->stretches = 0;
    s->cost = s->since = 0; /* the test is not a step */
}

void dt_straggler_release(dt_straggler *s)
{
    free(s->seconds);
    free(s->late);
    *s = (dt_straggler){.seconds = NULL};
}

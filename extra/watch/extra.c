/* extra.c - the watch observes a run: what it is told of it, and the rank that the others wait for.
 * libdtrain-dist is without this file. */
#include "model/plan.h"
#include "monitor.h"
#include "train/run.h"

/* The layer that a move is for is the next step, or the last one. */
static const char *step_name(const void *plan, int step)
{
    static _Thread_local char text[80];
    const dt_node *n = &((const dt_plan *)plan)->node[step];

    if (!n->op->moves)
        return n->name;
    const bool before = strcmp(n->name, n[1].name) == 0;
    snprintf(text, sizeof text, "in the move %s %s", before ? "to" : "from", n->name);
    return text;
}

/* How long the set-up may take is not known: a rank that is late is named, and not ended. */
static dt_status set_up(void **state, dt_comm *c, const dt_options *o, const dt_run *r,
                        const char *folder)
{
    dt_watch_opts opts = {.folder = folder, .warn_s = DT_MIN(10, o->stall_abort / 30)};
    dt_watch *w;

    if (r) {
        opts.name = step_name;
        opts.plan = r->contexts.plan[0]; /* plans of all batch sizes have the same steps */
        opts.names = r->contexts.plan[0]->steps;
        opts.total_steps = r->total_steps;
        opts.batch = r->o.global_batch;
        opts.abort_s = o->stall_abort;
    }
    dt_watch_close(*state, 0); /* all ranks at once: after an agreement */
    const dt_status st = dt_watch_open(&w, c, &opts);
    *state = w;
    return st;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

dt_status dt_watch_late(dt_comm *c, double waited, double seconds, int *late, double *cost)
{
    const int world = c->world;
    int64_t *ns = NULL;

    *late = 0;
    DT_TRY(dt_comm_agree(c, dt_calloc(&ns, (size_t)world, sizeof *ns, "times of waiting")));
    ns[c->rank] = (int64_t)(1e9 * waited);
    const dt_status st = dt_comm_sum_i64(c, ns, (size_t)world);
    for (int r = 1; r < world; r++)
        if (ns[r] < ns[*late])
            *late = r;
    const int64_t least = ns[*late];
    qsort(ns, (size_t)world, sizeof *ns, by_size);
    *cost = 1e-9 * (double)(ns[world / 2] - least);
    if (world == 1 || *cost < 0.1 * seconds)
        *late = -1;
    free(ns);
    return st;
}

/* One line where a rank was late, once for each. */
static dt_status epoch(void *state, dt_comm *c, double waited, double seconds)
{
    enum { LEAST_S = 10 }; /* of shorter ones chance decides */
    dt_watch *w = state;
    double cost = 0;
    int late = -1;

    DT_TRY(dt_watch_late(c, waited, seconds, &late, &cost));
    if (late < 0 || late == w->named || seconds < LEAST_S)
        return DT_OK;
    w->named = late;
    dt_warn("rank %d is slower than the others: half of them have waited for it, %.1f s in "
            "this epoch",
            late, cost);
    return DT_OK;
}

static void over(void *state, int code)
{
    dt_watch_close(state, code);
}

void dt_extra_watch(void)
{
    static const dt_run_observer watch = {
        .options = " stall_abort", .set_up = set_up, .epoch = epoch, .close = over};

    dt_observer_add(&watch);
}

/* watched.c - what the watch is told of a run, and the rank that the others wait for. */
#include "watched.h"

#include <stdio.h>
#include <stdlib.h>

/* The layer that a move is for is the next step, or the last one. */
static const char *step_name(const void *plan, int step)
{
    static _Thread_local char text[80];
    dt_plan_row row, next;

    dt_plan_row_get(plan, (size_t)step, &row);
    if (strcmp(row.op, "move") != 0)
        return row.name;
    dt_plan_row_get(plan, (size_t)step + 1, &next);
    const bool before = strcmp(row.name, next.name) == 0;
    snprintf(text, sizeof text, "in the move %s %s", before ? "to" : "from", row.name);
    return text;
}

double dt_watched_warn_s(const dt_options *o)
{
    return DT_MIN(10, o->stall_abort / 30);
}

dt_status dt_watched_open(dt_watch **w, const dt_run *r, const char *folder)
{
    const dt_plan *plan = r->contexts.plan[0]; /* plans of all batch sizes have the same steps */
    const dt_watch_opts opts = {.folder = folder,
                                .name = step_name,
                                .plan = plan,
                                .names = (int)dt_plan_row_count(plan),
                                .total_steps = r->total_steps,
                                .batch = r->global_batch,
                                .warn_s = dt_watched_warn_s(&r->o),
                                .abort_s = r->o.stall_abort};

    return dt_watch_open(w, r->comm, &opts);
}

/* ---- The rank that the others wait for ------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

dt_status dt_watched_late(dt_comm *c, double waited, double seconds, int *late, double *cost)
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

dt_status dt_watched_epoch(const dt_run *r, double waited, double seconds, int *named)
{
    enum { LEAST_S = 10 }; /* of shorter ones chance decides */
    double cost = 0;
    int late = -1;

    DT_TRY(dt_watched_late(r->comm, waited, seconds, &late, &cost));
    if (late < 0 || late == *named || seconds < LEAST_S)
        return DT_OK;
    *named = late;
    dt_warn("rank %d is slower than the others: half of them have waited for it, %.1f s in "
            "this epoch",
            late, cost);
    return DT_OK;
}

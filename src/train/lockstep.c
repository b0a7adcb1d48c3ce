/* lockstep.c - one step of a rank's shards whose batch-norm statistics are those of a group.
 *
 * Each shard has a context of its own; all take a step of the network before any takes the
 * next, and at a batch norm the ranks complete the groups' trees (dt_reduce). */
#include "lockstep.h"

#include <stdio.h>
#include <stdlib.h>

#include "checks.h"

struct dt_lockstep {
    int count;           /* own shards */
    dt_exec **exec;      /* [count][DT_MAX_COMPILED], owned, as are they */
    dt_exec **now;       /* [count] of this step; NULL: a shard without images; owned */
    dt_moment **moments; /* [count] in r->arena; the array is owned */
    float **grad;        /* [count] of the exchange; the array is owned */
    dt_result *result;   /* [count], owned */
    dt_reduce *tree[DT_SYNC_KINDS];
    int first; /* own shard */
    unsigned meetings; /* of groups, so far; the same number on all ranks */
    dt_norm_sync sync;
};

/* ---- The option ------------------------------------------------------------------------ */

/* Ranks are numbered node by node, so a node's shards are neighbours. */
static int64_t node_shards(const dt_run *r)
{
    const int world = dt_comm_world(r->comm);
    const int lowest = dt_comm_rank(r->comm) - dt_comm_node_rank(r->comm);
    const int highest = lowest + dt_comm_node_ranks(r->comm) - 1;
    int first, end, unused;

    dt_shards_of((int)r->o.shards, world, lowest, &first, &unused);
    dt_shards_of((int)r->o.shards, world, highest, &unused, &end);
    return end - first;
}

dt_status dt_lockstep_resolve(dt_run *r)
{
    int64_t group = 0;

    DT_TRY(dt_comm_agree(r->comm, dt_bn_parse(r->o.bn, r->o.shards, &group)));
    if (group < 0) {
        group = node_shards(r);
        int64_t range[2] = {group, -group};
        DT_TRY(dt_comm_max_i64(r->comm, range, 2));
        if (range[0] != -range[1])
            return dt_comm_agree(r->comm, dt_fail(DT_CONFIG, "--bn node: the nodes hold from %lld "
                                 "to %lld shards; start as many ranks on each node with a "
                                 "--shards that they divide, or give --bn group:N",
                                 (long long)-range[1], (long long)range[0]));
        snprintf(r->bn, sizeof r->bn, "group:%lld", (long long)group);
        r->o.bn = r->bn;
    }
    r->bn_group = (int)group;
    return DT_OK;
}

/* ---- Memory ------------------------------------------------------------------------------ */

size_t dt_lockstep_contexts(const dt_run *r)
{
    return r->bn_group > 0 ? (size_t)(r->end_shard - r->first_shard) : 1;
}

static size_t moment_bytes(const dt_run *r)
{
    return dt_align(dt_net_norm_channels(r->net) * sizeof(dt_moment), 64);
}

size_t dt_lockstep_bytes(const dt_run *r, size_t arena)
{
    return dt_align(arena, 64) + (r->bn_group > 0 ? moment_bytes(r) : 0);
}

static dt_status open_contexts(dt_run *r, dt_lockstep *t)
{
    size_t arena = 0;

    for (int i = 0; i < DT_MAX_COMPILED; i++)
        if (r->train[i].plan && dt_plan_arena_bytes(r->train[i].plan) > arena)
            arena = dt_plan_arena_bytes(r->train[i].plan);
    for (int k = 0; k < t->count; k++) {
        char *at = (char *)r->arena.mem + (size_t)k * dt_lockstep_bytes(r, arena);
        t->moments[k] = (dt_moment *)(at + dt_align(arena, 64));
        for (int i = 0; i < DT_MAX_COMPILED; i++)
            if (r->train[i].plan)
                DT_TRY(dt_exec_create(&t->exec[k * DT_MAX_COMPILED + i], r->train[i].plan, at,
                                      r->scratch.mem));
    }
    return DT_OK;
}

static dt_status open_arrays(dt_lockstep *t)
{
    const size_t count = (size_t)t->count;
    static const char what[] = "shards that run together";

    DT_TRY(dt_calloc(&t->exec, count * DT_MAX_COMPILED, sizeof(dt_exec *), what));
    DT_TRY(dt_calloc(&t->now, count, sizeof(dt_exec *), what));
    DT_TRY(dt_calloc(&t->moments, count, sizeof(dt_moment *), what));
    DT_TRY(dt_calloc(&t->grad, count, sizeof(float *), what));
    return dt_calloc(&t->result, count, sizeof *t->result, what);
}

static dt_status open_trees(dt_run *r, dt_lockstep *t)
{
    const int shards = (int)r->o.shards;
    size_t channels = 0;

    for (size_t i = 0; i < dt_net_norm_count(r->net); i++)
        if (dt_net_norm(r->net, i)->channels > channels)
            channels = dt_net_norm(r->net, i)->channels;
    DT_TRY(dt_reduce_create(&t->tree[DT_SYNC_MOMENTS], r->comm, shards, channels,
                          sizeof(dt_moment), dt_merge_moments, r->bn_group));
    return dt_reduce_create(&t->tree[DT_SYNC_SUMS], r->comm, shards, 2 * channels,
                          sizeof(double), dt_merge_f64, r->bn_group);
}

void dt_lockstep_close(dt_lockstep *t)
{
    if (!t)
        return;
    for (int i = 0; t->exec && i < t->count * DT_MAX_COMPILED; i++)
        dt_exec_destroy(t->exec[i]);
    for (int kind = 0; kind < DT_SYNC_KINDS; kind++)
        dt_reduce_destroy(t->tree[kind]);
    free(t->exec);
    free(t->now);
    free(t->moments);
    free(t->grad);
    free(t->result);
    free(t);
}

/* ---- The groups' trees -------------------------------------------------------------------- */

static void *sync_leaf(void *context, dt_norm_kind kind, size_t channels, int k)
{
    dt_lockstep *t = ((dt_run *)context)->lockstep;

    if (k == 0)
        dt_reduce_resize(t->tree[kind], kind == DT_SYNC_SUMS ? 2 * channels : channels);
    else
        dt_reduce_push(t->tree[kind]);
    return dt_reduce_leaf(t->tree[kind]);
}

/* No rank may leave off alone, as the others would wait for it here. So all ask one another,
 * every few times, whether to leave off. */
static dt_status sync_combine(void *context, dt_norm_kind kind)
{
    enum { ASKS_EVERY = 4 };
    dt_run *r = context;
    dt_lockstep *t = r->lockstep;
    const void *unused;

    dt_reduce_push(t->tree[kind]);
    DT_TRY(dt_reduce_finish(t->tree[kind], &unused));
    return ++t->meetings % ASKS_EVERY == 0 ? dt_stop_agree(r) : DT_OK;
}

static const void *sync_result(void *context, dt_norm_kind kind, int k)
{
    const dt_lockstep *t = ((const dt_run *)context)->lockstep;
    return dt_reduce_result(t->tree[kind], t->first + k);
}

dt_status dt_lockstep_open(dt_run *r)
{
    dt_lockstep *t = NULL;

    if (r->bn_group == 0)
        return DT_OK;
    DT_TRY(dt_calloc(&t, 1, sizeof *t, "shards that run together"));
    r->lockstep = t; /* dt_run_close releases it, whatever comes */
    t->first = r->first_shard;
    t->count = r->end_shard - r->first_shard;
    t->sync = (dt_norm_sync){r, sync_leaf, sync_combine, sync_result};
    DT_TRY(open_arrays(t));
    DT_TRY(open_contexts(r, t));
    return open_trees(r, t);
}

/* ---- A step --------------------------------------------------------------------------------- */

static dt_status gradients_ready(void *context, size_t floats_done)
{
    dt_run *r = context;
    dt_checks_gradient(r, floats_done);
    return dt_exchange_ready(r->exchange, floats_done);
}

/* The context for a shard of this size; NULL for a shard of no images. */
static dt_status context_for(const dt_run *r, int k, int64_t size, dt_exec **e)
{
    *e = NULL;
    for (int i = 0; i < DT_MAX_COMPILED; i++)
        if (size > 0 && r->train[i].plan && dt_plan_batch(r->train[i].plan) == size)
            *e = r->lockstep->exec[k * DT_MAX_COMPILED + i];
    if (size > 0 && !*e)
        return dt_fail(DT_BUG, "no plan for a shard of %lld images", (long long)size);
    return DT_OK;
}

static dt_status load_shards(dt_run *r, int64_t epoch, int64_t step)
{
    const int64_t n = dt_loader_batch(r->loader, step);
    dt_lockstep *t = r->lockstep;

    for (int k = 0; k < t->count; k++) {
        const int shard = t->first + k;
        const int64_t size = dt_shard_size(n, (int)r->o.shards, shard, NULL);
        DT_TRY(context_for(r, k, size, &t->now[k]));
        t->grad[k] = dt_exchange_leaf(r->exchange);
        if (t->now[k]) {
            dt_loader_train(r->loader, epoch, step, shard, dt_exec_input(t->now[k]),
                            dt_exec_labels(t->now[k]));
            dt_checks_shard(r, shard, t->now[k], t->grad[k]);
        } else { /* its leaves are +0.0 */
            memset(t->grad[k], 0, dt_net_slab_floats(r->net) * sizeof(float));
            memset(t->moments[k], 0, dt_net_norm_channels(r->net) * sizeof(dt_moment));
        }
    }
    return DT_OK;
}

static dt_status run_images(dt_run *r, int64_t epoch, int64_t step)
{
    const double n = (double)dt_loader_batch(r->loader, step);
    const dt_observer observer = {gradients_ready, r};
    dt_lockstep *t = r->lockstep;
    /* Plans of all batch sizes have the same steps. */
    const dt_team team = {r->train[0].plan, t->now, t->count, &t->sync};
    double mark = dt_seconds();

    DT_TRY(load_shards(r, epoch, step));
    dt_phase_charge(r, DT_PHASE_data, &mark);
    DT_TRY(dt_team_forward(&team, t->moments, t->result));
    dt_phase_charge(r, DT_PHASE_forward, &mark);
    DT_TRY(dt_team_backward(&team, n / r->sample_weight, t->grad, &observer));
    dt_phase_charge(r, DT_PHASE_backward, &mark);
    return DT_OK;
}

/* Shards that were left off still take their place in the sums, as in run_shard. */
dt_status dt_run_shards_together(dt_run *r, int64_t epoch, int64_t step, bool save)
{
    dt_lockstep *t = r->lockstep;

    dt_status st = run_images(r, epoch, step);
    if (st == DT_PREEMPTED) {
        r->stop.left = true;
        st = dt_exchange_ready(r->exchange, dt_net_slab_floats(r->net));
    }
    DT_TRY(st);
    for (int k = 0; k < t->count; k++) {
        memcpy(dt_reduce_leaf(r->moment_tree), t->moments[k],
               dt_net_norm_channels(r->net) * sizeof(dt_moment));
        DT_TRY(dt_run_push(r, &t->result[k], save, k == t->count - 1));
    }
    return DT_OK;
}

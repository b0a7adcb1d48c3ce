/* lockstep.c - batch-norm statistics of groups of shards.
 *
 * A rank's shards are one wave then: all take a step of the network before any takes the next
 * (src/model/exec.c). At a batch norm (src/model/op_batchnorm.c) each shard leaves a leaf here,
 * moments going forward and the sums of dy and dy (x - mean) going backward; the ranks complete
 * the groups' trees (dt_reduce); then each shard continues with its group's result. */
#include "run.h"

typedef struct lockstep {
    dt_norm_sync sync; /* its context is all this */
    dt_reduce *tree[DT_WAYS];
    int first, end; /* own shards */
} lockstep;

/* Ranks are numbered node by node, so a node's shards are neighbours. */
static int64_t node_shards(const dt_run *r)
{
    const int world = r->comm->world;
    const int lowest = r->comm->rank - r->comm->node_rank;
    const int highest = lowest + r->comm->node_ranks - 1;
    int first, end, unused;

    dt_shards_of((int)r->o.shards, world, lowest, &first, &unused);
    dt_shards_of((int)r->o.shards, world, highest, &unused, &end);
    return end - first;
}

dt_status dt_lockstep_resolve(dt_run *r)
{
    int64_t group = DT_MIN(dt_option_meaning(&dt_bn_syntax, r->o.bn).bn, r->o.shards);

    if (group < 0) {
        group = node_shards(r);
        int64_t range[2] = {group, -group};
        DT_TRY(dt_comm_max_i64(r->comm, range, 2));
        if (range[0] != -range[1])
            return dt_comm_agree(r->comm,
                                 dt_fail(DT_CONFIG,
                                         "--bn node: the nodes hold from %lld "
                                         "to %lld shards; start as many ranks on each node with a "
                                         "--shards that they divide, or give --bn group:N",
                                         (long long)-range[1], (long long)range[0]));
        snprintf(r->bn, sizeof r->bn, "group:%lld", (long long)group);
        r->o.bn = r->bn;
    }
    r->bn_group = (int)group;
    return DT_OK;
}

static void sync_resize(const lockstep *t, dt_way way, size_t channels)
{
    dt_reduce_resize(t->tree[way], way == DT_BACKWARD ? 2 * channels : channels);
}

static void *sync_leaf(void *context, dt_way way, size_t channels, int k)
{
    lockstep *t = context;

    if (k == 0)
        sync_resize(t, way, channels);
    else
        dt_reduce_push(t->tree[way]);
    return dt_reduce_leaf(t->tree[way]);
}

static dt_status sync_combine(void *context, dt_way way, size_t channels)
{
    const lockstep *t = context;

    if (t->first < t->end)
        dt_reduce_push(t->tree[way]);
    else
        sync_resize(t, way, channels);
    return dt_reduce_finish(t->tree[way]);
}

static const void *sync_result(void *context, dt_way way, int k)
{
    const lockstep *t = context;
    return dt_reduce_result(t->tree[way], t->first + k);
}

dt_status dt_lockstep_open(dt_norm_sync **sync, dt_comm *c, int shards, int group, size_t channels)
{
    lockstep *t = NULL;

    *sync = NULL;
    if (group == 0)
        return DT_OK;
    DT_TRY(dt_calloc(&t, 1, sizeof *t, "shards that run together"));
    *sync = &t->sync;
    t->sync = (dt_norm_sync){t, sync_leaf, sync_combine, sync_result};
    dt_shards_of(shards, c->world, c->rank, &t->first, &t->end);
    DT_TRY(dt_reduce_create(&t->tree[DT_FORWARD], c, shards, channels, &dt_fold_moments, group));
    return dt_reduce_create(&t->tree[DT_BACKWARD], c, shards, 2 * channels, &dt_fold_f64, group);
}

void dt_lockstep_close(dt_norm_sync *sync)
{
    lockstep *t = sync ? sync->context : NULL;

    for (int way = 0; t && way < DT_WAYS; way++)
        dt_reduce_destroy(t->tree[way]);
    free(t);
}

/* train_syncbn.c - batch norm over all shards of all ranks equals one process with the whole batch:
 * eight shards of four images on these ranks, against PyTorch's numbers for the batch of 32. */
#include "golden_sync.h"
#include "ranks.h"

#include "train/run.h"

/* The sum of a value that each shard here has, over all shards of all ranks. */
static void sum_shards(const wave *t, const void *(*value)(const wave *t, int k), size_t count,
                       const dt_fold_type *type, void *to)
{
    dt_reduce *tree = NULL;

    assert_ok(dt_reduce_create(&tree, comm, SYNC_SHARDS, count, type, SYNC_SHARDS));
    for (int k = 0; k < t->count; k++) {
        memcpy(dt_reduce_leaf(tree), value(t, k), count * type->bytes);
        dt_reduce_push(tree);
    }
    assert_ok(dt_reduce_finish(tree));
    memcpy(to, dt_reduce_result(tree, 0), count * type->bytes);
    dt_reduce_destroy(tree);
}

static const void *grad_of(const wave *t, int k)
{
    return t->grad[k].mem;
}
static const void *moments_of(const wave *t, int k)
{
    return t->moments[k];
}

static void whole_batch(void **state)
{
    golden_sync s;
    dt_norm_sync *sync = NULL;
    int first, end;

    dt_shards_of(SYNC_SHARDS, comm->world, comm->rank, &first, &end);
    assert_ok(dt_lockstep_open(&sync, comm, SYNC_SHARDS, SYNC_SHARDS, WAVE_CHANNELS));
    golden_sync_open(&s, *state, first, end);
    golden_sync_input(&s);
    wave_step_with(&s.t, sync, (double)s.g.batch);
    sum_shards(&s.t, grad_of, s.g.floats, &dt_fold_f32, s.g.grad.mem);
    sum_shards(&s.t, moments_of, s.g.n.net->norm_channels, &dt_fold_moments, s.g.moments);
    const int beyond = golden_sync_check(&s);
    golden_sync_close(&s);
    dt_lockstep_close(sync);
    assert_int_equal(beyond, 0);
}

int main(int argc, char **argv)
{
    static golden_case narrow = {"resnet50-narrow-sync-decisive", DT_F32};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(whole_batch, &narrow),
    };
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

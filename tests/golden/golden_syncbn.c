/* golden_syncbn.c - eight shards of four images with batch-norm statistics over all of them,
 * against one process of PyTorch with the whole batch. tests/mpi/train_syncbn.c does it on
 * several ranks. */
#include "golden_sync.h"

/* The tree over eight shards: pairs, pairs of pairs, halves. */
static void add_shards(golden_sync *s)
{
    wave *t = &s->t;

    for (int gap = 1; gap < SYNC_SHARDS; gap *= 2)
        for (int k = 0; k < SYNC_SHARDS; k += 2 * gap) {
            float *left = t->grad[k].mem;
            const float *right = t->grad[k + gap].mem;
            for (size_t i = 0; i < s->g.floats; i++)
                left[i] += right[i];
            for (size_t c = 0; c < s->g.n.net->norm_channels; c++)
                t->moments[k][c] = dt_moment_merge(t->moments[k][c], t->moments[k + gap][c]);
        }
    memcpy(s->g.grad.mem, t->grad[0].mem, s->g.floats * sizeof(float));
    memcpy(s->g.moments, t->moments[0], s->g.n.net->norm_channels * sizeof(dt_moment));
}

static void whole_batch(void **state)
{
    golden_sync s;

    golden_sync_open(&s, *state, 0, SYNC_SHARDS);
    golden_sync_input(&s);
    const double loss = wave_step(&s.t, SYNC_SHARDS, (double)s.g.batch),
                 exact = json_number_value(golden_get(&s.g, "loss"));
    int beyond =
        golden_beyond(&s.g, "loss", "of the batch", fabs(loss - exact), GOLDEN_LOSS_FLOOR * exact);
    add_shards(&s);
    beyond += golden_sync_check(&s);
    golden_sync_close(&s);
    assert_int_equal(beyond, 0);
}

/* The file can tell: with statistics of each shard alone nearly every tensor is beyond. */
static void shards_alone_differ(void **state)
{
    golden_sync s;

    golden_sync_open(&s, *state, 0, SYNC_SHARDS);
    golden_sync_input(&s);
    wave_step(&s.t, 1, (double)s.g.batch);
    add_shards(&s);
    const json_t *tensors = golden_get(&s.g, "tensors");
    size_t far = 0;
    for (size_t i = 0; i < s.g.n.net->params; i++) {
        const dt_param *p = &s.g.n.net->param[i];
        const json_t *record = json_array_get(tensors, i);
        dt_param_to_file(p, (const float *)s.g.grad.mem + p->offset, s.g.file);
        far += golden_projected(&s.g, json_object_get(record, "projections"), i, p->count) >
               0.01 * json_number_value(json_object_get(record, "norm"));
    }
    assert_true(far > s.g.n.net->params / 2);
    golden_sync_close(&s);
}

int main(void)
{
    static golden_case cases[] = {
        {"vgg11-sync-decisive", DT_F32},
        {"resnet50-narrow-sync-decisive", DT_F32},
    };
    const int bad = golden_tests(cases, DT_COUNT_OF(cases), whole_batch);

    return golden_tests(&cases[1], 1, shards_alone_differ) || bad;
}

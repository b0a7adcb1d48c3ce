/* wave.h - shards of one batch in one process: contexts, gradients and a dt_norm_sync that
 * combines by the recursive definition of the tree. */
#ifndef DT_TEST_WAVE_H
#define DT_TEST_WAVE_H
#include "model/plan.h"
#include "test.h"

enum { WAVE_MOST = 8, WAVE_CHANNELS = 2048 };

/* ---- Combining by the definition ------------------------------------------------- */

typedef struct wave_sync {
    int shards, group;
    size_t channels;
    dt_moment moment[WAVE_MOST][WAVE_CHANNELS], moment_group[WAVE_MOST][WAVE_CHANNELS];
    double sum[WAVE_MOST][2 * WAVE_CHANNELS], sum_group[WAVE_MOST][2 * WAVE_CHANNELS];
    int rounds[DT_WAYS];
} wave_sync;

static inline void *wave_leaf_of(void *context, dt_way way, size_t channels, int k)
{
    wave_sync *s = context;

    assert_true(channels <= WAVE_CHANNELS && k < s->shards);
    s->channels = channels;
    return way == DT_FORWARD ? (void *)s->moment[k] : (void *)s->sum[k];
}

static inline int wave_half(int n)
{
    int half = 1;
    while (2 * half < n)
        half *= 2;
    return half;
}

static inline dt_moment wave_moment(const wave_sync *s, int a, int b, size_t c)
{
    if (b - a == 1)
        return s->moment[a][c];
    const int m = a + wave_half(b - a);
    return dt_moment_merge(wave_moment(s, a, m, c), wave_moment(s, m, b, c));
}

static inline double wave_sum(const wave_sync *s, int a, int b, size_t c)
{
    if (b - a == 1)
        return s->sum[a][c];
    const int m = a + wave_half(b - a);
    return wave_sum(s, a, m, c) + wave_sum(s, m, b, c);
}

static inline dt_status wave_combine(void *context, dt_way way, size_t channels)
{
    wave_sync *s = context;
    (void)channels;

    s->rounds[way]++;
    for (int k = 0; k < s->shards; k++) {
        const int a = k / s->group * s->group;
        const int b = a + s->group < s->shards ? a + s->group : s->shards;
        for (size_t c = 0; way == DT_FORWARD && c < s->channels; c++)
            s->moment_group[k][c] = wave_moment(s, a, b, c);
        for (size_t c = 0; way == DT_BACKWARD && c < 2 * s->channels; c++)
            s->sum_group[k][c] = wave_sum(s, a, b, c);
    }
    return DT_OK;
}

static inline const void *wave_result(void *context, dt_way way, int k)
{
    const wave_sync *s = context;
    return way == DT_FORWARD ? (const void *)s->moment_group[k] : (const void *)s->sum_group[k];
}

static inline dt_norm_sync wave_sync_of(wave_sync *s)
{
    return (dt_norm_sync){s, wave_leaf_of, wave_combine, wave_result};
}

/* ---- Contexts -------------------------------------------------------------------- */

/* Shards of sizes [count] on a model that is bound when wave_bind is called. */
typedef struct wave {
    const dt_net *net;
    int count;
    int64_t size[WAVE_MOST], images;
    dt_plan *plan[WAVE_MOST];
    dt_exec *exec[WAVE_MOST];
    dt_slab arena[WAVE_MOST], grad[WAVE_MOST], scratch;
    dt_moment *moments[WAVE_MOST];
    dt_result result[WAVE_MOST];
    wave_sync *sync;
} wave;

/* Sizes and plans; before the model is bound. */
static inline void wave_plan(wave *t, dt_model *m, const int64_t *size, int count)
{
    *t = (wave){.net = m->net, .count = count};
    for (int k = 0; k < count; k++) {
        t->size[k] = size[k];
        t->images += size[k];
        if (size[k] > 0)
            assert_ok(dt_plan_create(&t->plan[k], m, size[k], DT_TRAIN, false));
    }
}

static inline void wave_bind(wave *t)
{
    const size_t floats = t->net->slab_floats;
    size_t scratch = 0;

    for (int k = 0; k < t->count; k++)
        if (t->plan[k] && dt_plan_ask(t->plan[k]).scratch_bytes > scratch)
            scratch = dt_plan_ask(t->plan[k]).scratch_bytes;
    assert_ok(dt_slab_create(&t->scratch, scratch, "scratch"));
    assert_ok(dt_calloc(&t->sync, 1, sizeof *t->sync, "sums"));
    t->sync->shards = t->count;
    for (int k = 0; k < t->count; k++) {
        assert_ok(dt_slab_create(&t->grad[k], floats * sizeof(float), "gradients"));
        assert_ok(dt_calloc(&t->moments[k], t->net->norm_channels, sizeof(dt_moment), "moments"));
        if (!t->plan[k])
            continue;
        assert_ok(dt_slab_create(&t->arena[k], dt_plan_ask(t->plan[k]).arena_bytes, "activations"));
        assert_ok(dt_exec_create(&t->exec[k], t->plan[k], t->arena[k].mem, t->scratch.mem));
    }
}

/* Forward and backward with this sync; the sum of the losses over `divisor`. */
static inline double wave_step_with(wave *t, const dt_norm_sync *sync, double divisor)
{
    float *grad[WAVE_MOST] = {NULL};
    const dt_plan *walk = NULL;
    double loss = 0;

    for (int k = 0; k < t->count; k++) {
        grad[k] = t->grad[k].mem;
        walk = t->plan[k] ? t->plan[k] : walk;
    }
    const dt_wave run = {.plan = walk, .exec = t->exec, .count = t->count, .sync = sync};
    assert_ok(dt_exec_forward(&run, t->moments, t->result));
    assert_ok(dt_exec_backward(&run, divisor, grad, NULL));
    for (int k = 0; k < t->count; k++)
        loss += t->result[k].loss_sum;
    return loss / divisor;
}

static inline double wave_step(wave *t, int group, double divisor)
{
    const dt_norm_sync sync = wave_sync_of(t->sync);

    t->sync->group = group;
    return wave_step_with(t, &sync, divisor);
}

/* Images and labels of one batch, dealt to the shards in order; call before each step. */
static inline void wave_input(wave *t, const void *images, const int32_t *labels,
                              size_t image_bytes)
{
    const char *from = images;
    for (int k = 0; k < t->count; k++) {
        const size_t n = (size_t)t->size[k];
        if (n == 0)
            continue;
        memcpy(t->exec[k]->input, from, n * image_bytes);
        memcpy(t->exec[k]->labels, labels, n * sizeof *labels);
        from += n * image_bytes;
        labels += n;
    }
}

static inline void wave_close(wave *t)
{
    for (int k = 0; k < t->count; k++) {
        dt_exec_destroy(t->exec[k]);
        dt_plan_destroy(t->plan[k]);
        dt_slab_destroy(&t->arena[k]);
        dt_slab_destroy(&t->grad[k]);
        free(t->moments[k]);
    }
    dt_slab_destroy(&t->scratch);
    free(t->sync);
}
#endif

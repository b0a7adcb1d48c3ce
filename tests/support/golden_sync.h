/* golden_sync.h - shards of a batch, on one rank or several, that share their batch-norm
 * statistics, against what PyTorch computes for the whole batch in one process. */
#ifndef DT_TEST_GOLDEN_SYNC_H
#define DT_TEST_GOLDEN_SYNC_H
#include "golden_check.h"
#include "wave.h"

enum { SYNC_SHARDS = 8 };

typedef struct golden_sync {
    golden g;
    wave t;
    int first, end; /* of the shards here */
} golden_sync;

/* The golden batch, dealt evenly; this process has shards [first, end). */
static inline void golden_sync_open(golden_sync *s, const golden_case *spec, int first, int end)
{
    golden *g = &s->g;
    int64_t size[SYNC_SHARDS];

    *s = (golden_sync){.g = {.spec = spec}, .first = first, .end = end};
    golden_load(g);
    golden_net(g);
    assert_true(g->batch % SYNC_SHARDS == 0);
    for (int k = 0; k < SYNC_SHARDS; k++)
        size[k] = g->batch / SYNC_SHARDS;
    wave_plan(&s->t, g->n.model, size, end - first);
    assert_ok(dt_plan_create(&g->eval_plan, g->n.model, g->batch, DT_EVAL, false));
    golden_bind_model(g);
    wave_bind(&s->t);
    assert_ok(dt_slab_create(&g->arena, dt_plan_ask(g->eval_plan).arena_bytes, "evaluation"));
    assert_ok(dt_slab_create(&g->scratch, dt_plan_ask(g->eval_plan).scratch_bytes, "scratch"));
    assert_ok(dt_exec_create(&g->eval_exec, g->eval_plan, g->arena.mem, g->scratch.mem));
    golden_weights(g);
}

static inline size_t golden_sync_first_image(const golden_sync *s, int k)
{
    return (size_t)(s->first + k) * (size_t)(s->g.batch / SYNC_SHARDS);
}

static inline void golden_sync_input(golden_sync *s)
{
    const golden *g = &s->g;
    const size_t side = (size_t)g->n.net->spec.image_size;
    const size_t image = side * side * 3 * dt_dtype_bytes(g->spec->precision);
    const size_t first = golden_sync_first_image(s, 0);

    golden_batch(&s->g, g->eval_exec);
    const char *images = g->eval_exec->input;
    wave_input(&s->t, images + first * image, g->eval_exec->labels + first, image);
}

/* The logits of the shards here, after a step; then, with the gradients in g->grad and the
 * moments in g->moments summed over all shards, the gradients and an evaluation. Returns
 * how many quantities are beyond their limits. */
static inline int golden_sync_check(golden_sync *s)
{
    golden *g = &s->g;
    const double own = golden_largest(golden_get(g, "logits_fp32"));
    int beyond = 0;

    for (int k = 0; k < s->t.count; k++)
        beyond += golden_some_logits(g, s->t.exec[k]->logits, golden_sync_first_image(s, k),
                                     (size_t)s->t.size[k], "logits", own);
    return beyond + golden_gradients(g) + golden_evaluation(g);
}

static inline void golden_sync_close(golden_sync *s)
{
    wave_close(&s->t);
    golden_close(&s->g);
}
#endif

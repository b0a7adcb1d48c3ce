/* net.h - a network with its model and, once plans are made, the memory of its weights. */
#ifndef DT_TEST_NET_H
#define DT_TEST_NET_H
#include "model/plan.h"
#include "numbers.h"

typedef struct test_net {
    dt_net *net;
    dt_model *model;
    dt_slab master, statistics, packed;
} test_net;

static inline void test_net_create(test_net *t, const dt_net_spec *spec, const dt_model_opts *opts)
{
    *t = (test_net){.net = NULL};
    assert_ok(dt_net_create(&t->net, spec));
    assert_ok(dt_model_create(&t->model, t->net, opts));
}

/* After the last plan. */
static inline void test_net_bind(test_net *t)
{
    const size_t channels = t->net->norm_channels, floats = t->net->slab_floats;

    assert_ok(dt_slab_create(&t->master, floats * sizeof(float), "weights"));
    assert_ok(dt_slab_create(&t->statistics, 2 * channels * sizeof(float), "statistics"));
    assert_ok(dt_slab_create(&t->packed, dt_model_packed_bytes(t->model), "packed"));
    float *running = t->statistics.mem;
    const dt_weights weights = {t->net, t->master.mem, running, running + channels};
    dt_model_bind(t->model, &weights, t->packed.mem);
}

/* The network's own weights; decisive: but for gamma 1 and beta 4, so that no ReLU is near its
 * edge. Packing is the caller's, after what else it writes. */
static inline void test_net_init(test_net *t, uint32_t seed, bool decisive)
{
    float *master = t->master.mem;

    assert_ok(dt_model_init(t->model, seed));
    for (size_t i = 0; decisive && i < t->net->params; i++) {
        const dt_param *p = &t->net->param[i];
        for (size_t e = 0; p->kind >= DT_GAMMA && e < p->count; e++)
            master[p->offset + e] = p->kind == DT_GAMMA ? 1.0f : 4.0f;
    }
}

/* All its plans must be destroyed before. */
static inline void test_net_close(test_net *t)
{
    dt_model_destroy(t->model);
    dt_net_destroy(t->net);
    dt_slab_destroy(&t->master);
    dt_slab_destroy(&t->statistics);
    dt_slab_destroy(&t->packed);
}

/* A network and a plan of it, without memory. */
typedef struct test_plan {
    test_net n;
    dt_plan *plan;
} test_plan;

static inline test_plan test_plan_create(const dt_net_spec *spec, const dt_model_opts *opts,
                                         int64_t batch, dt_mode mode)
{
    test_plan p;

    test_net_create(&p.n, spec, opts);
    assert_ok(dt_plan_create(&p.plan, p.n.model, batch, mode, false));
    return p;
}

static inline void test_plan_close(test_plan *p)
{
    dt_plan_destroy(p->plan);
    test_net_close(&p->n);
}
#endif

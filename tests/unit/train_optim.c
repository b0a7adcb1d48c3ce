/* train_optim.c - SGD against torch.optim.SGD, PyTorch 2.13.0, after 5 steps on 8 weights:
 *
 *     i = torch.arange(8); p = torch.nn.Parameter(((i * 5) % 11 - 5).float() / 8)
 *     o = torch.optim.SGD([p], lr=LR, momentum=MU, weight_decay=WD, nesterov=N)
 *     for t in range(5): p.grad = ((i * 7 + t * 13) % 17 - 8).float() / 16; o.step()
 *     print of p and of o.state[p]['momentum_buffer'] as float32 bits */
#include "test.h"

#include <math.h>

#include "train/optim.h"

enum { N = 8, STEPS = 5 };

typedef struct torch_case {
    float lr, mu, decay;
    bool nesterov;
    uint32_t weight[N], momentum[N];
} torch_case;

/* Powers of two: every product and sum is exact in 24 bits, so that PyTorch's fused
 * multiply-adds round nothing and all bits must be equal. */
static const torch_case exact[] = {
    {0.25f,
     0.5f,
     0,
     false,
     {0xbec10000, 0xbe0b0000, 0x3ef10000, 0x3df00000, 0x3ea68000, 0xbe030000, 0x3f140000,
      0xbf27c000},
     {0xbf020000, 0x3e540000, 0x3e840000, 0xbe200000, 0x3eda0000, 0xbec60000, 0x3d800000,
      0x3ec20000}},
    {0.25f,
     0.5f,
     0,
     true,
     {0xbea08000, 0xbe258000, 0x3ee08000, 0x3e0c0000, 0x3e8b4000, 0xbda30000, 0x3f120000,
      0xbf33e000},
     {0xbf020000, 0x3e540000, 0x3e840000, 0xbe200000, 0x3eda0000, 0xbec60000, 0x3d800000,
      0x3ec20000}},
    {0.25f,
     0.5f,
     0.25f,
     false,
     {0xbe1297d8, 0xbe1322f0, 0x3e7c6af8, 0x3de4f190, 0x3df60d60, 0xbd238a00, 0x3ec05134,
      0xbedad0ec},
     {0xbf3006a8, 0x3e43e7c0, 0x3edda310, 0xbdf48a40, 0x3f164650, 0xbeee6b00, 0x3e8d7630,
      0x3e2a8d60}},
    {0.5f,
     0.5f,
     0.25f,
     true,
     {0x3e9f8c7c, 0xbea1ffe8, 0xbd0abe60, 0x3e6266d8, 0xbe8da478, 0x3e5a8680, 0x3e858edc,
      0xbeee9984},
     {0xbf15b2a8, 0x3e06f7c0, 0x3eb95710, 0xbd845a40, 0x3efec4a0, 0xbee38f00, 0x3e9a3230,
      0x3e464560}},
};

/* Usual numbers. A step has three products that PyTorch fuses and we round, each by at
 * most half a unit in the last place of a value below 1 (2^-25); momentum keeps the
 * errors of earlier steps: 3 * 5 * 2^-25. */
static const double fused = 15 * 0x1p-25;
static const torch_case usual[] = {
    {0.1f,
     0.9f,
     0,
     false,
     {0xbeee38b1, 0xbd4c8a9c, 0x3efac9db, 0x3d927676, 0x3ed19ca1, 0xbe3090ac, 0x3f07e5c9,
      0xbf17a2e5},
     {0xbf27e69a, 0x3eb8ecbf, 0x3eabfcb8, 0xbed0346e, 0x3f063a92, 0xbeccc226, 0xbe795812,
      0x3f1783e3}},
    {0.1f,
     0.9f,
     5e-4f,
     false,
     {0xbeee069b, 0xbd4c93c2, 0x3efa986a, 0x3d928db3, 0x3ed172db, 0xbe306a8f, 0x3f07d460,
      0xbf178fea},
     {0xbf28326c, 0x3eb8effb, 0x3eac90df, 0xbed03da0, 0x3f067af3, 0xbeccfc33, 0xbe786f70,
      0x3f174449}},
    {0.1f,
     0.9f,
     5e-4f,
     true,
     {0xbecfc1f2, 0xbda8de6e, 0x3eeb12b1, 0x3ddd799a, 0x3eb93ead, 0xbe0b86c0, 0x3f0d6a58,
      0xbf252b8f},
     {0xbf283022, 0x3eb8eebf, 0x3eac8c28, 0xbed035d8, 0x3f0679f6, 0xbeccfaa3, 0xbe78615a,
      0x3f174070}},
};

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void run_case(const torch_case *c, float w[N], float m[N])
{
    dt_optim_tensor tensor = {{0, N}, c->decay};
    const dt_optim x = {.master = w,
                        .momentum = m,
                        .tensor = &tensor,
                        .tensors = 1,
                        .mu = c->mu,
                        .nesterov = c->nesterov,
                        .threads = 1};
    float g[N];

    for (int i = 0; i < N; i++) {
        w[i] = (float)((i * 5) % 11 - 5) / 8;
        m[i] = 0;
    }
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < N; i++)
            g[i] = (float)((i * 7 + t * 13) % 17 - 8) / 16;
        dt_optim_step(&x, (dt_span){0, N}, g, (double)c->lr);
    }
}

static void steps_are_those_of_torch(void **state)
{
    (void)state;
    float w[N], m[N];

    for (size_t k = 0; k < sizeof exact / sizeof *exact; k++) {
        run_case(&exact[k], w, m);
        assert_memory_equal(w, exact[k].weight, sizeof w);
        assert_memory_equal(m, exact[k].momentum, sizeof m);
    }
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++) {
        run_case(&usual[k], w, m);
        for (int i = 0; i < N; i++) {
            const double dw = fabs((double)w[i] - (double)float_of(usual[k].weight[i]));
            const double dm = fabs((double)m[i] - (double)float_of(usual[k].momentum[i]));
            if (!(dw <= fused && dm <= fused))
                fail_msg("case %zu element %d: off by %g and %g", k, i, dw, dm);
        }
    }
}

/* A product that a fused multiply-add would round otherwise: g + decay * w with
 * w * decay = 1 + 2^-11 + 2^-24, which float32 rounds to 1 + 2^-11 first. */
static void products_are_rounded_before_sums(void **state)
{
    (void)state;
    float w = 1 + 0x1p-12f, m = 0;
    const float g = -1;
    dt_optim_tensor tensor = {{0, 1}, 1 + 0x1p-12f};
    const dt_optim x = {
        .master = &w, .momentum = &m, .tensor = &tensor, .tensors = 1, .threads = 1};
    dt_optim_step(&x, (dt_span){0, 1}, &g, 0);
    assert_true(m == 0x1p-11f);
}

/* ---- A network's slab ------------------------------------------------------------ */

typedef struct slab_test {
    dt_net *net;
    size_t floats;
    float *grad;
} slab_test;

/* VGG11 at a quarter of its width: several chunks, all four kinds of parameters, and
 * padding (its last bias has 10 elements). */
static int make_slab(void **state)
{
    const dt_net_spec spec = {.net = "vgg11", .classes = 10, .width_divisor = 4};
    slab_test *t = calloc(1, sizeof *t);
    uint32_t bits[4];

    assert_non_null(t);
    assert_ok(dt_net_create(&t->net, &spec));
    t->floats = dt_net_slab_floats(t->net);
    t->grad = calloc(t->floats, sizeof *t->grad);
    assert_non_null(t->grad);
    for (size_t i = 0; i < t->floats; i++) {
        dt_random(7, DT_STREAM_TEST, 0, i, 0, bits);
        t->grad[i] = dt_uniform(bits[0]) - 0.5f;
    }
    *state = t;
    return 0;
}

static int free_slab(void **state)
{
    slab_test *t = *state;
    dt_net_destroy(t->net);
    free(t->grad);
    free(t);
    return 0;
}

typedef struct run_result {
    float *master, *momentum;
} run_result;

/* Three steps, the slab cut in two at `cut`. */
static run_result run_slab(const slab_test *t, const dt_options *o, int threads, size_t cut)
{
    run_result r = {calloc(t->floats, sizeof(float)), calloc(t->floats, sizeof(float))};
    dt_optim x;

    assert_non_null(r.master);
    assert_non_null(r.momentum);
    for (size_t i = 0; i < t->floats; i++)
        r.master[i] = 2 * t->grad[t->floats - 1 - i];
    assert_ok(dt_optim_open(&x, t->net, o, r.master, r.momentum, threads));
    for (int step = 0; step < 3; step++) {
        dt_optim_step(&x, (dt_span){0, cut}, t->grad, 0.1);
        dt_optim_step(&x, (dt_span){cut, t->floats - cut}, t->grad, 0.1);
    }
    dt_optim_close(&x);
    return r;
}

static void release(run_result r)
{
    free(r.master);
    free(r.momentum);
}

static void threads_and_slices_change_no_bit(void **state)
{
    const slab_test *t = *state;
    static const size_t cuts[] = {1, 16 * 1024, 123456, 577000};
    dt_options o;

    dt_options_init(&o);
    o.weight_decay = 5e-4;
    o.nesterov = true;
    const run_result whole = run_slab(t, &o, 1, 0);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const run_result r = run_slab(t, &o, 1 + (int)i, cuts[i]);
        assert_memory_equal(r.master, whole.master, t->floats * sizeof(float));
        assert_memory_equal(r.momentum, whole.momentum, t->floats * sizeof(float));
        release(r);
    }
    release(whole);
}

/* Element by element: decayed where it should be, and padding never touched. */
static void decay_reaches_what_it_is_told(void **state)
{
    const slab_test *t = *state;
    dt_options o;

    dt_options_init(&o);
    o.momentum = 0;
    o.weight_decay = 0.25;
    for (int weights_only = 0; weights_only < 2; weights_only++) {
        o.decay = weights_only ? "weights" : "all";
        float *w = calloc(t->floats, sizeof *w), *m = calloc(t->floats, sizeof *m);
        unsigned char *inside = calloc(t->floats, 1);
        dt_optim x;
        assert_true(w && m && inside);
        for (size_t i = 0; i < t->floats; i++)
            w[i] = 1;
        assert_ok(dt_optim_open(&x, t->net, &o, w, m, 2));
        dt_optim_step(&x, (dt_span){0, t->floats}, t->grad, 1);
        for (size_t i = 0; i < dt_net_param_count(t->net); i++) {
            const dt_param *p = dt_net_param(t->net, i);
            const float decay = !weights_only || p->kind == DT_WEIGHT ? 0.25f : 0;
            for (size_t k = p->offset; k < p->offset + p->count; k++) {
                inside[k] = 1;
                assert_true(m[k] == t->grad[k] + decay && w[k] == 1 - m[k]);
            }
        }
        size_t padding = 0;
        for (size_t k = 0; k < t->floats; k++)
            if (!inside[k]) {
                padding++;
                assert_true(w[k] == 1 && m[k] == 0);
            }
        assert_true(padding > 0);
        dt_optim_close(&x);
        free(w);
        free(m);
        free(inside);
    }
}

static void an_unknown_word_is_refused(void **state)
{
    const slab_test *t = *state;
    dt_options o;
    dt_optim x;

    dt_options_init(&o);
    o.decay = "some";
    assert_fails(dt_optim_open(&x, t->net, &o, NULL, NULL, 1), DT_CONFIG, "'some'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_torch),
        cmocka_unit_test(products_are_rounded_before_sums),
        cmocka_unit_test(threads_and_slices_change_no_bit),
        cmocka_unit_test(decay_reaches_what_it_is_told),
        cmocka_unit_test(an_unknown_word_is_refused),
    };
    return cmocka_run_group_tests(tests, make_slab, free_slab);
}

/* train_optim.c - SGD against torch.optim.SGD, PyTorch 2.13.0, after 5 steps on 8 weights:
 *
 *     i = torch.arange(8); p = torch.nn.Parameter(((i * 5) % 11 - 5).float() / 8)
 *     o = torch.optim.SGD([p], lr=LR, momentum=MU, weight_decay=WD, nesterov=N)
 *     for t in range(5): p.grad = ((i * 7 + t * 13) % 17 - 8).float() / 16; o.step()
 *     print of p and of o.state[p]['momentum_buffer'] as float32 bits */
#include "test.h"

#include "train/optim.h"

enum { N = 8, STEPS = 5 };

typedef struct torch_case {
    float lr, mu, decay;
    bool nesterov;
    const char *weight, *momentum; /* the bits of [N] floats */
} torch_case;

/* Powers of two: every product and sum is exact in 24 bits, so that PyTorch's fused
 * multiply-adds round nothing and all bits must be equal. */
static const torch_case exact[] = {
    {0.25f, 0.5f, 0, false,
     "bec10000 be0b0000 3ef10000 3df00000 3ea68000 be030000 3f140000 bf27c000",
     "bf020000 3e540000 3e840000 be200000 3eda0000 bec60000 3d800000 3ec20000"},
    {0.25f, 0.5f, 0, true,
     "bea08000 be258000 3ee08000 3e0c0000 3e8b4000 bda30000 3f120000 bf33e000",
     "bf020000 3e540000 3e840000 be200000 3eda0000 bec60000 3d800000 3ec20000"},
    {0.25f, 0.5f, 0.25f, false,
     "be1297d8 be1322f0 3e7c6af8 3de4f190 3df60d60 bd238a00 3ec05134 bedad0ec",
     "bf3006a8 3e43e7c0 3edda310 bdf48a40 3f164650 beee6b00 3e8d7630 3e2a8d60"},
    {0.5f, 0.5f, 0.25f, true,
     "3e9f8c7c bea1ffe8 bd0abe60 3e6266d8 be8da478 3e5a8680 3e858edc beee9984",
     "bf15b2a8 3e06f7c0 3eb95710 bd845a40 3efec4a0 bee38f00 3e9a3230 3e464560"},
};

/* Usual numbers. A step has three products that PyTorch fuses and we round, each by at
 * most half a unit in the last place of a value below 1 (2^-25); momentum keeps the
 * errors of earlier steps: 3 * 5 * 2^-25. */
static const double fused = 15 * 0x1p-25;
static const torch_case usual[] = {
    {0.1f, 0.9f, 0, false,
     "beee38b1 bd4c8a9c 3efac9db 3d927676 3ed19ca1 be3090ac 3f07e5c9 bf17a2e5",
     "bf27e69a 3eb8ecbf 3eabfcb8 bed0346e 3f063a92 beccc226 be795812 3f1783e3"},
    {0.1f, 0.9f, 5e-4f, false,
     "beee069b bd4c93c2 3efa986a 3d928db3 3ed172db be306a8f 3f07d460 bf178fea",
     "bf28326c 3eb8effb 3eac90df bed03da0 3f067af3 beccfc33 be786f70 3f174449"},
    {0.1f, 0.9f, 5e-4f, true,
     "becfc1f2 bda8de6e 3eeb12b1 3ddd799a 3eb93ead be0b86c0 3f0d6a58 bf252b8f",
     "bf283022 3eb8eebf 3eac8c28 bed035d8 3f0679f6 beccfaa3 be78615a 3f174070"},
};

static void floats_of(const char *bits, float out[N])
{
    char *end = NULL;

    for (int i = 0; i < N; i++, bits = end) {
        const uint32_t word = (uint32_t)strtoul(bits, &end, 16);
        memcpy(&out[i], &word, sizeof word);
    }
}

static void run_case(const torch_case *c, float w[N], float m[N])
{
    dt_optim_tensor tensor = {{0, N}, c->decay, 1, 0};
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
        dt_optim_step(&x, (dt_span){0, N}, g, (double)c->lr, 0);
    }
}

TEST(steps_are_those_of_torch)
{
    float w[N], m[N], weight[N], momentum[N];

    for (size_t k = 0; k < sizeof exact / sizeof *exact; k++) {
        run_case(&exact[k], w, m);
        floats_of(exact[k].weight, weight);
        floats_of(exact[k].momentum, momentum);
        assert_memory_equal(w, weight, sizeof w);
        assert_memory_equal(m, momentum, sizeof m);
    }
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++) {
        run_case(&usual[k], w, m);
        floats_of(usual[k].weight, weight);
        floats_of(usual[k].momentum, momentum);
        for (int i = 0; i < N; i++) {
            const double dw = fabs((double)w[i] - (double)weight[i]);
            const double dm = fabs((double)m[i] - (double)momentum[i]);
            if (!(dw <= fused && dm <= fused))
                fail_msg("case %zu element %d: off by %g and %g", k, i, dw, dm);
        }
    }
}

/* A product that a fused multiply-add would round otherwise: g + decay * w with
 * w * decay = 1 + 2^-11 + 2^-24, which float32 rounds to 1 + 2^-11 first. */
TEST(products_are_rounded_before_sums)
{
    float w = 1 + 0x1p-12f, m = 0;
    const float g = -1;
    dt_optim_tensor tensor = {{0, 1}, 1 + 0x1p-12f, 1, 0};
    const dt_optim x = {
        .master = &w, .momentum = &m, .tensor = &tensor, .tensors = 1, .threads = 1};
    dt_optim_step(&x, (dt_span){0, 1}, &g, 0, 0);
    assert_true(m == 0x1p-11f);
}

/* ---- A network's slab ------------------------------------------------------------ */

/* VGG11 at a quarter of its width: several chunks, all four kinds of parameters, and padding (its
 * last bias has 10 elements). */
enum { FLOATS = 700000 };
static dt_net *net;
static dt_model *model;
static size_t floats;
static float grad[FLOATS], master[2][FLOATS], momentum[2][FLOATS];

static int make_slab(void **state)
{
    const dt_net_spec spec = {.net = "vgg11", .classes = 10, .width_divisor = 4};
    const dt_model_opts opts = {.threads = 1};
    uint32_t bits[4];

    (void)state;
    assert_ok(dt_net_create(&net, &spec));
    assert_ok(dt_model_create(&model, net, &opts));
    floats = net->slab_floats;
    assert_true(floats <= FLOATS);
    for (size_t i = 0; i < floats; i++) {
        dt_random(7, DT_STREAM_TEST, 0, i, 0, bits);
        grad[i] = dt_uniform(bits[0]) - 0.5f;
    }
    return 0;
}

static int free_slab(void **state)
{
    (void)state;
    dt_model_destroy(model);
    dt_net_destroy(net);
    return 0;
}

/* Three steps in master[k] and momentum[k], the slab cut in two at `cut`. */
static void run_slab(const dt_options *o, int threads, size_t cut, int k)
{
    dt_optim x;

    for (size_t i = 0; i < floats; i++) {
        master[k][i] = 2 * grad[floats - 1 - i];
        momentum[k][i] = 0;
    }
    assert_ok(dt_optim_open(&x, model, DT_SLAB_HOME, o, master[k], momentum[k], threads));
    for (int step = 0; step < 3; step++) {
        dt_optim_step(&x, (dt_span){0, cut}, grad, 0.1, 0);
        dt_optim_step(&x, (dt_span){cut, floats - cut}, grad, 0.1, 0);
    }
    dt_optim_close(&x);
}

TEST(threads_and_slices_change_no_bit)
{
    static const size_t cuts[] = {1, 16 * 1024, 123456, 577000};
    dt_options o;

    dt_options_init(&o);
    o.weight_decay = 5e-4;
    o.nesterov = true;
    run_slab(&o, 1, 0, 0);
    for (size_t i = 0; i < DT_COUNT_OF(cuts); i++) {
        run_slab(&o, 1 + (int)i, cuts[i], 1);
        assert_memory_equal(master[0], master[1], floats * sizeof(float));
        assert_memory_equal(momentum[0], momentum[1], floats * sizeof(float));
    }
}

/* Element by element: decayed where it should be, and padding never touched. */
TEST(decay_reaches_its_parameters)
{
    dt_options o;

    dt_options_init(&o);
    o.momentum = 0;
    o.weight_decay = 0.25;
    for (int weights_only = 0; weights_only < 2; weights_only++) {
        float *w = master[0], *m = momentum[0];
        size_t end = 0, padding = 0; /* of the tensors so far */
        dt_optim x;
        o.decay = weights_only ? "weights" : "all";
        for (size_t i = 0; i < floats; i++) {
            w[i] = 1;
            m[i] = 0;
        }
        assert_ok(dt_optim_open(&x, model, DT_SLAB_HOME, &o, w, m, 2));
        dt_optim_step(&x, (dt_span){0, floats}, grad, 1, 0);
        for (size_t i = 0; i < net->params; i++) {
            const dt_param *p = &net->param[net->params - 1 - i];
            const float decay = !weights_only || p->kind == DT_WEIGHT ? 0.25f : 0;
            for (; end < p->offset; end++, padding++)
                assert_true(w[end] == 1 && m[end] == 0);
            for (; end < p->offset + p->count; end++)
                assert_true(m[end] == grad[end] + decay && w[end] == 1 - m[end]);
        }
        for (; end < floats; end++, padding++)
            assert_true(w[end] == 1 && m[end] == 0);
        assert_true(padding > 0);
        dt_optim_close(&x);
    }
}

int main(void)
{
    return tests_run(make_slab, free_slab);
}

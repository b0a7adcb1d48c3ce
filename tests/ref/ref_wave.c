/* ref_wave.c - shards that share batch-norm statistics: each group computes what one batch of its
 * images computes; a group of one shard has the bits of a shard alone. */
#include "net.h"
#include "wave.h"

enum { IMAGES = 8, SIDE = 32, CLASSES = 10, STREAM_IMAGES = 1000 };
enum { PIXELS = SIDE * SIDE * 3 };

typedef struct bench {
    test_net n;
    void *images; /* [IMAGES][SIDE][SIDE][3] in the precision */
    size_t image_bytes;
    int32_t labels[IMAGES];
} bench;

typedef struct bench_case {
    const char *net;
    dt_dtype precision;
} bench_case;

static void bench_create(bench *b, const bench_case *c)
{
    const dt_net_spec spec = {.net = c->net,
                              .variant = "torchvision",
                              .stem = "cifar",
                              .image_size = SIDE,
                              .classes = CLASSES,
                              .width_divisor = 16};
    const dt_model_opts opts = {.precision = c->precision, .threads = 1};

    if (c->precision == DT_BF16)
        test_bf16();
    *b = (bench){.image_bytes = PIXELS * dt_dtype_bytes(c->precision)};
    test_net_create(&b->n, &spec, &opts);
}

static void bench_bind(bench *b, dt_dtype precision)
{
    float *pixels = NULL;

    test_net_bind(&b->n);
    test_net_init(&b->n, 3, true);
    dt_model_pack(b->n.model, 0, 1);
    assert_ok(dt_calloc(&pixels, IMAGES * PIXELS, sizeof *pixels, "images"));
    assert_ok(dt_calloc(&b->images, IMAGES, b->image_bytes, "images"));
    dt_fill_normal(pixels, IMAGES * PIXELS, 1.0, 5, DT_STREAM_TEST, STREAM_IMAGES);
    test_round(b->images, pixels, IMAGES * PIXELS, precision);
    free(pixels);
    for (int i = 0; i < IMAGES; i++)
        b->labels[i] = i * 7 % CLASSES;
}

static void bench_close(bench *b)
{
    test_net_close(&b->n);
    free(b->images);
}

/* ---- Against one batch ------------------------------------------------------------ */

/* Rounding apart the two are the same function: sums are taken in another order, and the
 * statistics differ in their last bits. 2-norms relative to the larger of a tensor's and
 * 1e-3 of the largest tensor's: the limit of the decisive golden sets. Statistics of the
 * shard alone give gradients a thousand times farther away. */
static const double close_enough = 1e-4, far_away = 0.1;

static double gradient_sum(const wave *t, size_t e)
{
    double sum = 0;
    for (int k = 0; k < t->count; k++)
        sum += t->exec[k] ? (double)((const float *)t->grad[k].mem)[e] : 0;
    return sum;
}

/* 2-norms of a tensor's gradient and of its distance from that of the whole. */
static void tensor_norms(const wave *t, const wave *whole, const dt_param *p, double norm[2])
{
    norm[0] = norm[1] = 0;
    for (size_t e = p->offset; e < p->offset + p->count; e++) {
        const double want = gradient_sum(whole, e), off = gradient_sum(t, e) - want;
        norm[0] += want * want;
        norm[1] += off * off;
    }
    norm[0] = sqrt(norm[0]);
    norm[1] = sqrt(norm[1]);
}

static double largest_difference(const wave *t, const wave *whole)
{
    const size_t count = t->net->params;
    double largest = 0, worst = 0, norm[2];

    for (size_t i = 0; i < count; i++) {
        tensor_norms(t, whole, &t->net->param[i], norm);
        largest = fmax(largest, norm[0]);
    }
    assert_true(largest > 0);
    for (size_t i = 0; i < count; i++) {
        tensor_norms(t, whole, &t->net->param[i], norm);
        worst = fmax(worst, norm[1] / fmax(norm[0], 1e-3 * largest));
    }
    return worst;
}

static dt_moment pooled(const wave *t, size_t c)
{
    dt_moment all = {0, 0, 0};
    for (int k = 0; k < t->count; k++)
        if (t->exec[k])
            all = all.count > 0 ? dt_moment_merge(all, t->moments[k][c]) : t->moments[k][c];
    return all;
}

/* A shard's moments stay its own: pooled over shards they are the whole batch's. */
static void same_moments(const wave *t, const wave *whole)
{
    for (size_t c = 0; c < t->net->norm_channels; c++) {
        const dt_moment got = pooled(t, c), want = pooled(whole, c);
        const double deviation = sqrt(want.m2 / want.count);
        assert_true(got.count == want.count);
        assert_true(fabs(got.mean - want.mean) <= 1e-4 * (deviation + 1e-3));
        assert_true(fabs(got.m2 - want.m2) <= 1e-4 * (want.m2 + 1e-6));
    }
}

/* Shards, and batches that are their groups: each alone, with statistics of its own. */
typedef struct split {
    int group;
    int64_t shard[5], batch[5];
} split;

static void check_split(const bench_case *c, const split *s)
{
    wave shards, whole;
    bench b;

    bench_create(&b, c);
    wave_plan(&shards, b.n.model, s->shard, 5);
    wave_plan(&whole, b.n.model, s->batch, 5);
    bench_bind(&b, DT_F32);
    wave_bind(&shards);
    wave_bind(&whole);
    wave_input(&shards, b.images, b.labels, b.image_bytes);
    wave_input(&whole, b.images, b.labels, b.image_bytes);
    const double got = wave_step(&shards, s->group, IMAGES);
    const double want = wave_step_with(&whole, NULL, IMAGES);
    assert_true(fabs(got - want) <= 1e-5 * want);
    const double off = largest_difference(&shards, &whole);
    print_message("largest difference of a gradient: %.2g\n", off);
    assert_true(off <= close_enough);
    same_moments(&shards, &whole);
    wave_input(&shards, b.images, b.labels, b.image_bytes);
    wave_step(&shards, 1, IMAGES);
    assert_true(largest_difference(&shards, &whole) >= far_away);
    wave_close(&shards);
    wave_close(&whole);
    bench_close(&b);
}

TEST(groups_equal_batches)
{
    static const bench_case cases[] = {{"resnet50", DT_F32}, {"vgg11", DT_F32}};
    static const split splits[] = {
        {5, {2, 2, 2, 2, 0}, {8}},       {5, {3, 3, 2, 0, 0}, {8}},    {5, {0, 1, 7, 0, 0}, {8}},
        {2, {2, 2, 1, 0, 3}, {4, 1, 3}}, {3, {2, 2, 1, 0, 3}, {5, 3}},
    };

    for (size_t c = 0; c < DT_COUNT_OF(cases); c++)
        for (size_t s = 0; s < DT_COUNT_OF(splits); s++)
            check_split(&cases[c], &splits[s]);
}

/* ---- A group of one shard has the bits of a shard alone ----------------------------- */

TEST(alone_is_alone)
{
    static const bench_case cases[] = {
        {"resnet50", DT_F32}, {"resnet50", DT_BF16}, {"vgg11", DT_F32}};
    static const int64_t sizes[WAVE_MOST] = {3, 2, 0, 3};

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bench b;
        wave together, alone;
        bench_create(&b, &cases[c]);
        wave_plan(&together, b.n.model, sizes, 4);
        wave_plan(&alone, b.n.model, sizes, 4);
        bench_bind(&b, cases[c].precision);
        wave_bind(&together);
        wave_bind(&alone);
        wave_input(&together, b.images, b.labels, b.image_bytes);
        wave_input(&alone, b.images, b.labels, b.image_bytes);
        wave_step(&together, 1, IMAGES);
        for (int k = 0; k < 4; k++) {
            if (!alone.exec[k])
                continue;
            const dt_wave one = {.exec = &alone.exec[k], .count = 1};
            float *grad = alone.grad[k].mem;
            assert_ok(dt_exec_forward(&one, &alone.moments[k], alone.result + k));
            assert_ok(dt_exec_backward(&one, IMAGES, &grad, NULL));
            assert_memory_equal(alone.grad[k].mem, together.grad[k].mem,
                                b.n.net->slab_floats * sizeof(float));
            assert_memory_equal(alone.moments[k], together.moments[k],
                                b.n.net->norm_channels * sizeof(dt_moment));
            assert_true(alone.result[k].loss_sum == together.result[k].loss_sum);
        }
        wave_close(&together);
        wave_close(&alone);
        bench_close(&b);
    }
}

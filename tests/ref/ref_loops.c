/* ref_loops.c - the loops of loops.h where they do more than their formulas say: every number of
 * bf16 through what takes bits for numbers, tensors that are written past the caches, and pixels of
 * few channels and of many; by every instruction set. */
#include "model/loops.h"
#include "oracle.h"

static const dt_isa isas[] = {DT_ISA_PORTABLE, DT_ISA_AVX2, DT_ISA_AVX512, DT_ISA_AVX512_BF16};
enum { ISAS = sizeof isas / sizeof *isas };

/* A test for each instruction set that this CPU has. */
static void with_each_isa(void (*run)(void *context), void *context)
{
    const dt_isa best = dt_isa_current();

    for (int i = 0; i < ISAS && isas[i] <= best; i++) {
        dt_isa_limit(isas[i]);
        run(context);
    }
    dt_isa_limit(best);
}

static bool same_bf16(dt_bf16 a, dt_bf16 b)
{
    const float x = dt_bf16_to_f32(a), y = dt_bf16_to_f32(b);
    return a == b || (isnan(x) && isnan(y));
}

/* ---- Every number ---------------------------------------------------------------------------- */

enum { NUMBERS = 1 << 16 };

/* Every number is added to what is 0 after batch norm, as its mean: what a batch norm adds gets dy
 * but for numbers <= 0; a NaN lets it through. Backward reads bits that forward left, or (channels
 * that are no whole vectors) the output. */
static void relu_case(void *context)
{
    const int64_t channels = *(const int64_t *)context;
    const test_spec spec = {.op = &dt_op_batchnorm,
                            .in = {{1, 1, 1, channels}, {1, 1, 1, channels}},
                            .attr = {.eps = 1, .relu = true, .add = true},
                            .type = DT_BF16};
    test_step t;

    test_step_create(&t, &spec);
    float *gamma = t.model.weights.master + t.net.param[0].offset;
    const int64_t beta = (int64_t)(t.net.param[1].offset - t.net.param[0].offset);
    dt_bf16 *other = t.in[1], *y = t.out, *dy = t.d_out, *dx = t.d_in[1];
    for (int64_t i = 0; i < channels; i++) {
        ((dt_bf16 *)t.in[0])[i] = 0x3f80; /* 1 */
        gamma[i] = 1;
        gamma[beta + i] = 0;
        other[i] = (dt_bf16)i;
        dy[i] = dt_f32_to_bf16((float)(i % 251) - 125);
    }
    test_step_run(&t, DT_FORWARD);
    test_step_run(&t, DT_BACKWARD);
    for (int64_t i = 0; i < channels; i++) {
        const bool stops = dt_bf16_to_f32(other[i]) <= 0;
        assert_true(stops ? dt_bf16_to_f32(y[i]) == 0 : same_bf16(y[i], other[i]));
        assert_int_equal(dx[i], stops ? 0 : dy[i]);
    }
    test_step_destroy(&t);
}

/* Sums with numbers of other magnitudes round up, down, to even, to denormals, to infinity. */
static void sum_case(void *context)
{
    const dt_bf16 *other = context;
    const test_spec spec = {.op = &dt_op_fork, .in = {{1, 1, 1, NUMBERS}}, .type = DT_BF16};
    test_step t;

    test_step_create(&t, &spec);
    dt_bf16 *a = t.d_out, *b = t.d_out2, *sum = t.d_in[0];
    for (int i = 0; i < NUMBERS; i++) {
        a[i] = (dt_bf16)i;
        b[i] = (dt_bf16)(*other ^ (i * 37 & 0x8000));
    }
    test_step_run(&t, DT_BACKWARD);
    for (int i = 0; i < NUMBERS; i++)
        assert_true(same_bf16(sum[i], dt_f32_to_bf16(dt_bf16_to_f32(a[i]) + dt_bf16_to_f32(b[i]))));
    test_step_destroy(&t);
}

TEST(every_number_is_masked)
{
    for (int64_t channels = NUMBERS; channels <= NUMBERS + 1; channels++)
        with_each_isa(relu_case, &channels);
}

TEST(every_number_is_rounded)
{
    /* the least, a denormal, normal ones, the largest, infinity, NaN */
    static dt_bf16 others[] = {0x0001, 0x0055, 0x0080, 0x2a81, 0x3f80,
                               0x3fab, 0x7f7f, 0x7f80, 0x7fc0};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        with_each_isa(sum_case, &others[i]);
}

/* GELU of every number of bf16 as a float, and its derivative, as near to float64's as
 * src/model/loops_gelu.h says; a NaN stays, and all instruction sets have one result. */
static void gelu_case(void *context)
{
    const test_spec spec = {.op = &dt_op_gelu, .in = {{1, 1, 1, NUMBERS}}, .type = DT_F32};
    dt_digest *first = context;
    test_step t;
    dt_hash h;

    test_step_create(&t, &spec);
    float *in = t.in[0], *out = t.out, *dy = t.d_out, *dx = t.d_in[0];
    for (int i = 0; i < NUMBERS; i++) {
        in[i] = dt_bf16_to_f32((dt_bf16)i);
        dy[i] = 1;
    }
    test_step_run(&t, DT_FORWARD);
    test_step_run(&t, DT_BACKWARD);
    for (int i = 0; i < NUMBERS; i++) {
        const double x = (double)in[i], p = 0.5 * erfc(-x * sqrt(0.5));
        const double slope = p + x * exp(-0.5 * x * x) / sqrt(8 * atan(1));
        if (!isfinite(x))
            assert_true(isnan(x) ? isnan(out[i]) && isnan(dx[i]) : x < 0 || isinf(out[i]));
        else
            assert_true(fabs((double)out[i] - x * p) <= 1.2e-7 * (1 + fabs(x)) &&
                        fabs((double)dx[i] - slope) <= 4e-7);
        out[i] = isnan(out[i]) ? 0 : out[i]; /* of which there are many */
        dx[i] = isnan(dx[i]) ? 0 : dx[i];
    }
    dt_hash_init(&h);
    dt_hash_update(&h, out, NUMBERS * sizeof *out);
    dt_hash_update(&h, dx, NUMBERS * sizeof *dx);
    const dt_digest digest = dt_hash_digest(&h);
    if (!first->low && !first->high)
        *first = digest;
    assert_memory_equal(first, &digest, sizeof digest);
    test_step_destroy(&t);
}

TEST(gelu_is_near_and_alike)
{
    dt_digest first = {0};
    with_each_isa(gelu_case, &first);
}

/* ---- Maximum: whole windows of 64 channels have a loop of their own -------------------------- */

/* The same numbers in the first 63 channels: ties, both zeros, NaN, windows of -inf. */
static void pool_create(test_step *t, const test_spec *like, int64_t channels)
{
    static const float numbers[] = {-INFINITY, -INFINITY, -INFINITY, -1, -0.0f, 0, 1, NAN};
    test_spec spec = *like;

    spec.in[0].c = channels;
    test_step_create(t, &spec);
    for (int64_t i = 0; i < dt_shape_count(&spec.in[0]); i++) {
        const uint32_t at = (uint32_t)(i / channels * 64 + i % channels) * 2654435761u;
        ((dt_bf16 *)t->in[0])[i] = dt_f32_to_bf16(numbers[at >> 29]);
    }
    test_step_run(t, DT_FORWARD);
}

static void pool_case(void *context)
{
    const test_spec *spec = context;
    test_step whole, rest;

    pool_create(&whole, spec, 64);
    pool_create(&rest, spec, 63);
    const dt_bf16 *a = whole.out, *b = rest.out;
    const uint8_t *won_a = whole.call.saved, *won_b = rest.call.saved;
    for (int64_t i = 0; i < dt_shape_count(&rest.step.out_shape); i++) {
        const int64_t k = i / 63 * 64 + i % 63;
        assert_int_equal(a[k], b[i]);
        assert_int_equal(won_a[k], won_b[i]);
    }
    test_step_destroy(&whole);
    test_step_destroy(&rest);
}

TEST(windows_find_the_same)
{
    for (int side = 2; side <= 4; side++) {
        test_spec spec = {.op = &dt_op_maxpool,
                          .in = {{5, 16, 13, 64}},
                          .type = DT_BF16,
                          .attr = {.kernel = {side, side}, .stride = {2, 2}, .pad = {1, 0, 1, 1}}};
        with_each_isa(pool_case, &spec);
    }
}

/* ---- Large tensors, and pixels of all sizes -------------------------------------------------- */

typedef struct shapes_case {
    test_spec spec;
    dt_digest digest;
} shapes_case;

static void shapes_fill(void *to, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        ((dt_bf16 *)to)[i] = dt_f32_to_bf16((float)(int)(seed >> 8) * 0x1p-23f - 1);
    }
}

static void shapes_run(void *context)
{
    shapes_case *x = context;
    const size_t count = test_count(&x->spec.in[0]), bytes = count * sizeof(dt_bf16);
    dt_hash h;
    test_step t;

    test_step_create(&t, &x->spec);
    for (int k = 0; k < DT_MAX_IN; k++)
        if (t.in[k])
            shapes_fill(t.in[k], count, (unsigned)k);
    shapes_fill(t.d_out, count, 7);
    if (t.d_out2)
        shapes_fill(t.d_out2, count, 8);
    for (size_t i = 0; i < t.net.slab_floats; i++)
        t.model.weights.master[i] = 0.5f + 0.001f * (float)(i % 512);
    test_step_run(&t, DT_FORWARD);
    test_step_run(&t, DT_BACKWARD);
    dt_hash_init(&h);
    dt_hash_update(&h, t.out, bytes);
    for (int k = 0; k < t.node.n_in; k++)
        dt_hash_update(&h, t.d_in[k], bytes);
    const dt_digest d = dt_hash_digest(&h);
    test_step_destroy(&t);
    if (dt_isa_current() == DT_ISA_PORTABLE)
        x->digest = d;
    assert_true(d.low == x->digest.low && d.high == x->digest.high);
}

TEST(shapes_change_no_bit)
{
    const dt_attr norm = {.eps = 1e-5f, .relu = true};
    const dt_attr both = {.eps = 1e-5f, .relu = true, .add = true};
    const dt_shape large = {9, 128, 120, 32}, odd = {9, 128, 117, 33};
    const int64_t channels[] = {1, 31, 32, 64, 96, 160, 256, 288, 511, 512, 513, 544, 1024, 1056};
    shapes_case x = {.spec = {.type = DT_BF16, .threads = 2}};

    for (int i = 0; i < 2; i++) {
        x.spec.in[0] = x.spec.in[1] = i ? odd : large;
        x.spec.op = &dt_op_batchnorm, x.spec.attr = both;
        with_each_isa(shapes_run, &x);
        x.spec.second = true;
        with_each_isa(shapes_run, &x);
        x.spec.second = false;
        x.spec.in[1] = (dt_shape){0};
        x.spec.attr = norm;
        with_each_isa(shapes_run, &x);
        x.spec.op = &dt_op_fork, x.spec.attr = (dt_attr){0};
        with_each_isa(shapes_run, &x);
    }
    x.spec.op = &dt_op_batchnorm, x.spec.attr = norm;
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        x.spec.in[0] = (dt_shape){3, 13, 7, channels[i]};
        with_each_isa(shapes_run, &x);
    }
}

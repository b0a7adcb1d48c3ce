/* ref_conv.c - every type and pass against seven naive loops, on odd shapes: the numbers, the same
 * bits for any number of threads, for some channels alone and, but for dw, for an image alone,
 * nothing outside of what a kernel was given. By each backend that this CPU can run. */
#include "conv.h"

#include "model/kernels/tiles/backend.h"
#include "naive.h"

static char now[256]; /* what is tried */

static void describe(const dt_tile_backend *b, const dt_conv *c, int pass)
{
    snprintf(now, sizeof now,
             "%s pass %d: n %d, %dx%dx%d -> %dx%dx%d, kernel %dx%d, stride %dx%d, pad %d %d "
             "%d %d, bias %d",
             b->name, pass, (int)c->n, (int)c->ih, (int)c->iw, (int)c->ic, (int)c->oh, (int)c->ow,
             (int)c->oc, c->kernel[0], c->kernel[1], c->stride[0], c->stride[1], c->pad[0],
             c->pad[1], c->pad[2], c->pad[3], c->bias);
}

/* ---- Against the naive loops ------------------------------------------------------- */

/* An operand as the kernel multiplies it (packing rounds weights), or its magnitudes. */
static double *doubles(const conv_problem *p, int operand, bool magnitudes)
{
    double *u = calloc(p->size[operand] + 1, sizeof *u);

    assert_non_null(u);
    for (size_t i = 0; i < p->size[operand]; i++) {
        u[i] = test_get(p->at[operand].data, i, conv_type(p, operand));
        if (operand == CONV_MASTER && p->c.type == DT_BF16)
            u[i] = (double)dt_bf16_to_f32(dt_f32_to_bf16((float)u[i]));
        u[i] = magnitudes && u[i] < 0 ? -u[i] : u[i];
    }
    return u;
}

/* The pass by the naive loops; of magnitudes, the sums that bound its rounding. */
static double *naive_result(const conv_problem *p, dt_pass pass, bool magnitudes)
{
    double *x = doubles(p, CONV_X, magnitudes), *y = doubles(p, CONV_DY, magnitudes);
    double *w = doubles(p, CONV_MASTER, magnitudes), *bias = doubles(p, CONV_BIAS, magnitudes);
    double *all[] = {y, x, w};

    naive_conv(&p->c, pass, x, w, y);
    if (pass == DT_PASS_FORWARD && p->c.bias)
        naive_bias(&p->c, bias, y);
    for (int i = 0; i < DT_PASS_COUNT; i++)
        if (i != (int)pass)
            free(all[i]);
    free(bias);
    return all[pass];
}

static void check_near(size_t i, double got, double want, double allowed)
{
    if (!(got - want <= allowed && want - got <= allowed))
        fail_msg("%s: [%zu]: %.9g, want %.9g +- %.3g", now, i, got, want, allowed);
}

/* |got - want| <= unit * (terms + 4) * sum |a b|, the bound of a float32 sum in any
 * order (Higham, Accuracy and Stability, 4.2) with unit 2^-24. In bf16 the products are
 * exact; vdpbf16ps and AMX round twice per pair and flush denormals: unit 2^-23. A
 * result kept in bf16 is rounded once more, by 2^-8 of itself. */
static void check_result(const conv_problem *p, const conv_run *r)
{
    const dt_conv *c = &p->c;
    const bool stored = r->bytes == 2 * r->count;
    const double window = c->kernel[0] * c->kernel[1],
                 unit = c->type == DT_BF16 ? 0x1p-23 : 0x1p-24;
    const double terms[] = {window * (double)c->ic + 1, window * (double)c->oc,
                            (double)(c->n * c->oh * c->ow)};
    double *want = naive_result(p, r->pass, false), *size = naive_result(p, r->pass, true);

    for (size_t i = 0; i < r->count; i++)
        check_near(i, test_get(r->at[CONV_RESULT].data, i, stored ? DT_BF16 : DT_F32), want[i],
                   unit * (terms[r->pass] + 4) * size[i] +
                       (stored ? 0x1p-8 * (want[i] < 0 ? -want[i] : want[i]) : 0) + 1e-30);
    free(want);
    free(size);
}

static void check_bias(const conv_problem *p, const conv_run *r)
{
    const dt_conv *c = &p->c;
    double *dy = doubles(p, CONV_DY, false), *want = doubles(p, CONV_BIAS, false);

    naive_bias_gradient(c, dy, want);
    for (size_t i = 0; i < (size_t)c->oc; i++) /* 64 terms of size 1 in float32, then double */
        check_near(i, test_get(r->at[CONV_DBIAS].data, i, DT_F32), want[i],
                   0x1p-24 * (64 + 1) * (double)(c->n * c->oh * c->ow));
    free(dy);
    free(want);
}

/* Makes an operand, rows of `of` channels of `each` bytes, that of q->some: alone in a tensor of
 * their own, or where they lie. */
static void some_take(conv_problem *q, int operand, size_t of, size_t each, bool alone)
{
    const size_t first = (size_t)q->some->first * each, count = (size_t)q->some->count * each;
    const size_t bytes = dt_dtype_bytes(conv_type(q, operand));
    const size_t rows = q->size[operand] * bytes / (of * each);
    const char *from = q->at[operand].data += first;

    if (!alone)
        return;
    q->size[operand] = rows * count / bytes;
    q->at[operand] = conv_room(rows * count);
    for (size_t r = 0; r < rows; r++)
        memcpy(q->at[operand].data + r * count, from + r * of * each, count);
}

/* Channels [first, first + count) have the whole layer's bits. */
static void check_some(const conv_problem *p, const conv_run *whole, dt_cut some, int threads)
{
    const bool data = whole->pass == DT_PASS_DATA;
    const size_t of = (size_t)(data ? p->c.ic : p->c.oc), each = whole->bytes / whole->count;
    const size_t first = (size_t)some.first, count = (size_t)some.count * each;
    conv_problem q = *p;
    conv_run r;

    q.some = &some;
    some_take(&q, data ? CONV_X : CONV_DY, of, dt_dtype_bytes(p->c.type),
              whole->pass != DT_PASS_WEIGHTS);
    some_take(&q, CONV_MASTER, of, sizeof(float) * (size_t)(data ? p->c.oc : 1), true);
    if (!data)
        some_take(&q, CONV_BIAS, of, sizeof(float), true);
    conv_execute(&r, &q, whole->pass, p->c.n, threads);
    for (size_t i = 0; i < whole->count / of; i++)
        if (memcmp(whole->at[CONV_RESULT].data + (i * of + first) * each,
                   r.at[CONV_RESULT].data + i * count, count) != 0)
            fail_msg("%s: other bits in channels from %d on", now, (int)some.first);
    if (whole->pass == DT_PASS_WEIGHTS && p->c.bias)
        assert_memory_equal(whole->at[CONV_DBIAS].data + first * sizeof(float),
                            r.at[CONV_DBIAS].data, (size_t)some.count * sizeof(float));
    for (int i = 0; i < CONV_DRAWN; i++)
        if (q.at[i].map != p->at[i].map)
            conv_unmap(&q.at[i], 1);
    conv_unmap(r.at, CONV_MADE);
}

/* Run again, with n images and so many threads, the pass has the bits of `one`. */
static void check_again(const conv_problem *p, const conv_run *one, int64_t n, int threads)
{
    const bool bias = one->pass == DT_PASS_WEIGHTS && p->c.bias;
    conv_run r;

    conv_execute(&r, p, one->pass, n, threads);
    if (memcmp(one->at[CONV_RESULT].data, r.at[CONV_RESULT].data, r.bytes) != 0 ||
        (bias && memcmp(one->at[CONV_DBIAS].data, r.at[CONV_DBIAS].data,
                        p->size[CONV_BIAS] * sizeof(float)) != 0))
        fail_msg("%s: other bits with %d threads, %d images", now, threads, (int)n);
    conv_unmap(r.at, CONV_MADE);
}

static void check_pass(const dt_tile_backend *b, const conv_problem *p, dt_pass pass, bool pieces)
{
    const int64_t of = pass == DT_PASS_DATA ? p->c.ic : p->c.oc, most = (of + 95) / 96 * 32 % of;
    conv_run one;

    describe(b, &p->c, (int)pass);
    conv_execute(&one, p, pass, p->c.n, 1);
    check_result(p, &one);
    if (pass == DT_PASS_WEIGHTS && p->c.bias)
        check_bias(p, &one);
    check_again(p, &one, p->c.n, 2);
    check_again(p, &one, p->c.n, 3);
    if (pass != DT_PASS_WEIGHTS)
        check_again(p, &one, 1, 1);
    if (pieces) { /* whole blocks; some that begin in the middle of one */
        check_some(p, &one, (dt_cut){most, of - most, of}, 1);
        check_some(p, &one, (dt_cut){of / 5, DT_MIN(of - of / 5, DT_TILE), of}, 3);
    }
    conv_unmap(one.at, CONV_MADE);
}

/* c's type is the backend's. */
static void check(const dt_tile_backend *b, dt_conv c, bool pieces)
{
    conv_problem p;

    c.type = b->type;
    conv_open(&p, c);
    for (int pass = 0; pass < DT_PASS_COUNT; pass++)
        check_pass(b, &p, (dt_pass)pass, pieces);
    conv_unmap(p.at, CONV_DRAWN);
}

/* ---- Shapes ---------------------------------------------------------------------- */

/* Kernel, stride, padding: those of the networks and odd ones. */
static const struct {
    int kernel[2], stride[2], pad[4];
} windows[] = {
    {{1, 1}, {1, 1}, {0, 0, 0, 0}}, {{1, 1}, {2, 2}, {0, 0, 0, 0}}, {{1, 1}, {1, 1}, {0, 1, 1, 0}},
    {{2, 2}, {1, 1}, {0, 0, 0, 0}}, {{2, 2}, {2, 2}, {0, 0, 1, 1}}, {{3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{3, 3}, {2, 2}, {1, 1, 1, 1}}, {{3, 3}, {2, 2}, {0, 0, 1, 1}}, {{3, 2}, {2, 1}, {1, 0, 0, 2}},
    {{5, 5}, {1, 1}, {2, 2, 2, 2}}, {{5, 5}, {2, 2}, {1, 2, 2, 1}}, {{7, 7}, {1, 1}, {3, 3, 3, 3}},
    {{7, 7}, {2, 2}, {2, 2, 3, 3}}, {{1, 7}, {1, 2}, {0, 3, 0, 3}},
};
static const int inputs[] = {1, 3, 16, 17, 32}, outputs[] = {10, 16, 33, 64};
static const int batches[] = {1, 2, 5, 13};

static void check_windows(const dt_tile_backend *b, int each)
{
    int turn = 0; /* batch, bias and the type of y take turns, and half the outputs */
    for (size_t w = 0; w < DT_COUNT_OF(windows); w++)
        for (size_t i = 0; i < DT_COUNT_OF(inputs); i++)
            for (size_t o = (w + i) % 2; o < DT_COUNT_OF(outputs); o += 2, turn++) {
                dt_conv c = {.n = batches[turn % 7 % 4],
                             .ih = 11,
                             .iw = 8,
                             .ic = inputs[i],
                             .oc = outputs[o],
                             .bias = turn % 3 != 1,
                             .out_type = turn % 5 == 0 ? DT_F32 : b->type};
                memcpy(c.kernel, windows[w].kernel, sizeof c.kernel);
                memcpy(c.stride, windows[w].stride, sizeof c.stride);
                memcpy(c.pad, windows[w].pad, sizeof c.pad);
                if (turn % each == 0)
                    check(b, c, false);
            }
}

/* n, height, width, ic, oc, kernel, strides, padding. */
static const int listed[][9] = {
    {7, 7, 9, 20, 24, 3, 1, 1, 1},     /* pixels for 2 parts of a weight gradient, and for 4; */
    {9, 24, 24, 3, 16, 3, 1, 1, 1},    /* batches that do not divide by them */
    {37, 1, 1, 512, 10, 1, 1, 1, 0},   /* a linear layer */
    {2, 3, 752, 3, 17, 3, 1, 1, 1},    /* a wide image */
    {1, 11, 11, 256, 128, 7, 2, 2, 3}, /* many channels under a large kernel */
    {33, 1, 1, 64, 48, 3, 1, 1, 1},    /* taps that lie on padding for all images: the last */
    {22, 1, 1, 32, 32, 3, 2, 2, 1},    /* stages of ResNets on images of 8 to 16 pixels */
    {22, 2, 2, 32, 48, 3, 2, 2, 1},
    {6, 1, 1, 128, 128, 3, 2, 2, 1},
    {6, 2, 2, 64, 128, 3, 1, 1, 1},
    {6, 2, 2, 256, 512, 1, 2, 2, 0},
    {2, 27, 29, 8, 24, 1, 2, 2, 0}, /* half a block of channels, pixels a whole block apart: */
    {3, 9, 9, 16, 24, 1, 2, 2, 0},  /* what lies behind the last one is not read */
    {5, 3, 3, 16, 17, 5, 2, 2, 2},  /* more padding than map */
    {11, 38, 38, 3, 17, 1, 2, 2, 0},
    {11, 40, 40, 7, 13, 1, 2, 2, 0}, /* strides, few channels */
    {11, 38, 28, 8, 16, 1, 1, 2, 0},
    {11, 8, 38, 9, 1, 1, 2, 2, 0},
    {8, 16, 16, 3, 64, 3, 1, 1, 1},
    {8, 14, 14, 64, 64, 3, 1, 1, 1}, /* batches */
    {8, 14, 14, 64, 256, 1, 1, 1, 0},
    {8, 14, 14, 256, 128, 1, 2, 2, 0},
    {8, 4, 4, 128, 128, 3, 1, 1, 1},
    {8, 2, 2, 256, 256, 3, 1, 1, 1},
    {65, 1, 1, 512, 512, 3, 1, 1, 1}, /* fewer channels would have more parts, or others */
    {352, 1, 1, 1, 24576, 1, 1, 1, 0},
    {5, 164, 164, 2, 64, 1, 1, 1, 0} /* y, and 32 channels of it, are stored past the caches */
};

static void check_listed(const dt_tile_backend *b)
{
    for (size_t i = 0; i < DT_COUNT_OF(listed); i++) {
        const int *q = listed[i];
        dt_conv c = conv_square(q[0], q[1], q[3], q[4], q[5], q[6], q[8], b->type);

        c.iw = q[2];
        c.stride[1] = q[7];
        c.bias = i % 2 == 0;
        c.out_type = q[4] == 10 ? DT_F32 : b->type;
        check(b, c, true);
    }
}

/* Sanitizers make a convolution some ten times slower. */
#ifdef __SANITIZE_ADDRESS__
enum { TRIALS = 8, EACH_WINDOW = 24, EACH_OTHER = 88 };
#else
enum { TRIALS = 40, EACH_WINDOW = 1, EACH_OTHER = 11 };
#endif

static void check_random(const dt_tile_backend *b)
{
    static const int channels[] = {1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 64};
    static const int kernels[] = {1, 1, 2, 3, 3, 5, 7};

    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        float u[7];
        dt_fill_uniform(u, 7, 0, 1, trial, DT_STREAM_TEST, 1);
        const int kernel = kernels[(int)(7 * u[4])], pad = (kernel - 1) / 2;
        dt_conv c =
            conv_square(1 + (int)(4 * u[0]), kernel + (int)(16 * u[1]), channels[(int)(16 * u[2])],
                        channels[(int)(16 * u[3])], kernel, 1 + (u[5] > 0.5F), pad, b->type);

        c.iw = kernel + (int)(16 * u[6]);
        c.stride[1] = 1 + (u[5] > 0.3F);
        c.bias = trial % 2;
        check(b, c, true);
    }
}

/* Others have the bits of one that is tried on all shapes (ref_tiles.c), or are slow. */
static bool is_current(const dt_tile_backend *b)
{
    dt_tile_use(NULL);
    return b == dt_tile_current(b->type);
}

static void test_naive(void **state)
{
    const dt_tile_backend *b = *state;
    const bool all = is_current(b);

    dt_tile_use(b);
    check_windows(b, all ? EACH_WINDOW : EACH_OTHER);
    if (all) {
        check_listed(b);
        check_random(b);
    }
    dt_tile_use(NULL);
}

int main(void)
{
    const dt_tile_backend *backends[] = {
        dt_tile_current(DT_BF16),
        &dt_tile_backend_plain,
        &dt_tile_backend_fma_plain,
#if defined(__x86_64__)
        &dt_tile_backend_fma_avx2,
        &dt_tile_backend_fma,
#elif defined(__aarch64__)
        &dt_tile_backend_fma_neon,
#endif
    };
    struct CMUnitTest tests[DT_COUNT_OF(backends)];
    size_t count = 0;

    if (!backends[0])
        test_bf16();
    for (size_t i = 0; i < DT_COUNT_OF(backends); i++)
        if (backends[i] && backends[i]->isa <= dt_isa_current())
            tests[count++] = (struct CMUnitTest){backends[i]->name, test_naive, NULL, NULL,
                                                 (void *)(uintptr_t)backends[i]};
    return _cmocka_run_group_tests("backends", tests, count, NULL, NULL);
}

/* ref_conv.c - every kernel row, type and pass against seven naive loops, on odd shapes; the
 * same bits for any number of threads and, forward and data gradient, for any batch size. */
#include "test.h"

#include "model/kernels/tiles/way.h"
#include "naive.h"

static const dt_kernel *const rows[] = {
#define X(name) &dt_kernel_##name,
    DT_KERNEL_LIST(X)
#undef X
};
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- One problem ----------------------------------------------------------------- */

/* Operands in double (the oracle's) and in the problem's type (the kernel's). */
typedef struct problem {
    dt_conv c;
    double *x, *w, *y, *bias; /* y: what the backward passes read as dy */
    void *kx, *ky;
    float *master, *kbias;
} problem;

static void *must_calloc(size_t count, size_t size)
{
    void *p = calloc(count + 1, size);
    assert_non_null(p);
    return p;
}

/* A typed copy of u; u becomes what the type can hold, so that only arithmetic differs.
 */
static void *typed(double *u, size_t count, dt_dtype type)
{
    void *out = must_calloc(count, sizeof(float));
    for (size_t i = 0; i < count; i++) {
        const float f = (float)u[i];
        if (type == DT_BF16)
            ((dt_bf16 *)out)[i] = dt_f32_to_bf16(f);
        else
            ((float *)out)[i] = f;
        u[i] = (double)(type == DT_BF16 ? dt_bf16_to_f32(dt_f32_to_bf16(f)) : f);
    }
    return out;
}

static double *numbers(size_t count, uint32_t seed)
{
    float *f = must_calloc(count, sizeof *f);
    double *u = must_calloc(count, sizeof *u);
    dt_fill_uniform(f, count, -1, 1, seed, DT_STREAM_TEST, 0);
    for (size_t i = 0; i < count; i++)
        u[i] = (double)f[i];
    free(f);
    return u;
}

static problem problem_make(dt_conv c)
{
    problem p = {.c = c};
    const size_t weights = naive_w_count(&c);

    p.x = numbers(naive_x_count(&c), 1);
    p.y = numbers(naive_y_count(&c), 2);
    p.w = numbers(weights, 3);
    p.bias = numbers((size_t)c.oc, 4);
    p.kx = typed(p.x, naive_x_count(&c), c.type);
    p.ky = typed(p.y, naive_y_count(&c), c.type);
    p.master = typed(p.w, weights, DT_F32);
    p.kbias = typed(p.bias, (size_t)c.oc, DT_F32);
    free(typed(p.w, weights, c.type)); /* packing rounds the master weights */
    return p;
}

static void problem_free(problem *p)
{
    free(p->x);
    free(p->w);
    free(p->y);
    free(p->bias);
    free(p->kx);
    free(p->ky);
    free(p->master);
    free(p->kbias);
}

/* ---- Run one pass of a kernel ---------------------------------------------------- */

typedef struct outcome {
    void *main;   /* y, dx or dw; every byte 0xff (NaN) before the run */
    float *dbias; /* weights pass with bias */
    size_t count, bytes;
} outcome;

static void *poisoned(size_t bytes)
{
    void *p = aligned_alloc(64, dt_align(bytes + 1, 64));
    assert_non_null(p);
    memset(p, 0xff, dt_align(bytes + 1, 64));
    return p;
}

/* Scratch, packed weights and result hold NaN at first: nothing may be read before it
 * is written. Run twice, because a step reuses what the one before left behind. */
static outcome run(const dt_kernel *k, const problem *p, dt_pass pass, int threads,
                   dt_kernel_info *info)
{
    dt_conv c = p->c;
    void *state = NULL;
    outcome o = {.count = pass == DT_PASS_FORWARD ? naive_y_count(&c)
                          : pass == DT_PASS_DATA  ? naive_x_count(&c)
                                                  : naive_w_count(&c)};

    c.threads = threads;
    assert_ok(k->open(&state, &c, pass, info));
    o.bytes = o.count * (pass == DT_PASS_WEIGHTS   ? sizeof(float)
                         : pass == DT_PASS_FORWARD ? dt_dtype_bytes(c.out_type)
                                                   : dt_dtype_bytes(c.type));
    o.main = poisoned(o.bytes);
    o.dbias = poisoned((size_t)c.oc * sizeof(float));
    void *scratch = poisoned(info->scratch_bytes);
    void *packed = poisoned(info->packed_bytes);
    if (info->packed_bytes > 0)
        k->pack(state, p->master, packed);
    const dt_conv_args a = {.x = p->kx,
                            .dy = p->ky,
                            .y = o.main,
                            .dx = o.main,
                            .packed = info->packed_bytes ? packed : NULL,
                            .master = info->packed_bytes ? NULL : p->master,
                            .bias = p->kbias,
                            .dw = o.main,
                            .dbias = o.dbias,
                            .scratch = scratch};
    assert_ok(k->run(state, &a));
    assert_ok(k->run(state, &a));
    k->close(state);
    free(scratch);
    free(packed);
    return o;
}

static void outcome_free(outcome *o)
{
    free(o->main);
    free(o->dbias);
}

static void describe(const char *what, const dt_kernel *k, const dt_conv *c, dt_pass pass,
                     const char *impl)
{
    print_error("%s: %s (%s) %s, %s, n %d, %dx%dx%d -> %dx%dx%d, kernel %dx%d, stride "
                "%dx%d, pad %d %d %d %d, bias %d\n",
                what, k->name, impl, dt_dtype_name(c->type),
                (const char *[]){"forward", "data", "weights"}[pass], (int)c->n, (int)c->ih,
                (int)c->iw, (int)c->ic, (int)c->oh, (int)c->ow, (int)c->oc, c->kernel[0],
                c->kernel[1], c->stride[0], c->stride[1], c->pad[0], c->pad[1], c->pad[2],
                c->pad[3], c->bias);
}

/* ---- Compare --------------------------------------------------------------------- */

/* |got - want| <= unit * (terms + 4) * sum |a b|, the bound of a float32 sum in any
 * order (Higham, Accuracy and Stability, 4.2) with unit 2^-24. In bf16 the products are
 * exact; vdpbf16ps and AMX round twice per pair and flush denormals: unit 2^-23. A
 * result kept in bf16 is rounded once more, by 2^-8 of itself. */
static void compare(const dt_kernel *k, const problem *p, dt_pass pass, const dt_kernel_info *info,
                    const outcome *o, const double *want, const double *size, double terms)
{
    const bool bf16 = p->c.type == DT_BF16;
    const bool stored = o->bytes == 2 * o->count;
    const double unit = bf16 ? 0x1p-23 : 0x1p-24;

    for (size_t i = 0; i < o->count; i++) {
        const double got = stored ? (double)dt_bf16_to_f32(((dt_bf16 *)o->main)[i])
                                  : (double)((float *)o->main)[i];
        const double allowed = unit * (terms + 4) * size[i] +
                               (stored ? 0x1p-8 * (want[i] < 0 ? -want[i] : want[i]) : 0) + 1e-30;
        if (!(got - want[i] <= allowed && want[i] - got <= allowed)) {
            describe("differs", k, &p->c, pass, info->impl);
            fail_msg("[%zu]: %.9g, want %.9g +- %.3g", i, got, want[i], allowed);
        }
    }
}

static double *absolute(const double *u, size_t count)
{
    double *a = must_calloc(count, sizeof *a);
    for (size_t i = 0; i < count; i++)
        a[i] = u[i] < 0 ? -u[i] : u[i];
    return a;
}

/* The oracle's operands of one pass, its result in the right place; absolute values
 * make the sums that bound the rounding. */
typedef struct oracle {
    double *x, *w, *y;
} oracle;
static oracle oracle_make(const problem *p, dt_pass pass, bool magnitudes)
{
    const dt_conv *c = &p->c;
    oracle o = {absolute(p->x, naive_x_count(c)), absolute(p->w, naive_w_count(c)),
                absolute(p->y, naive_y_count(c))};
    double *bias = absolute(p->bias, (size_t)c->oc);

    if (!magnitudes) {
        memcpy(o.x, p->x, naive_x_count(c) * sizeof(double));
        memcpy(o.w, p->w, naive_w_count(c) * sizeof(double));
        memcpy(o.y, p->y, naive_y_count(c) * sizeof(double));
    }
    naive_conv(c, pass, o.x, o.w, o.y);
    if (pass == DT_PASS_FORWARD && c->bias)
        naive_bias(c, magnitudes ? bias : p->bias, o.y);
    free(bias);
    return o;
}

static void oracle_free(oracle *o)
{
    free(o->x);
    free(o->w);
    free(o->y);
}

static void compare_bias(const problem *p, const outcome *o)
{
    const dt_conv *c = &p->c;
    const double terms = (double)(c->n * c->oh * c->ow);
    double *want = must_calloc((size_t)c->oc, sizeof *want);

    naive_bias_gradient(c, p->y, want);
    for (int64_t i = 0; i < c->oc; i++) { /* 64 terms of size 1 in float32, then double */
        const double error = (double)o->dbias[i] - want[i];
        const double allowed = 0x1p-24 * (64 + 1) * terms;
        if (!(error <= allowed && -error <= allowed))
            fail_msg("dbias[%d]: %.9g, want %.9g", (int)i, (double)o->dbias[i], want[i]);
    }
    free(want);
}

static void check_pass(const dt_kernel *k, const problem *p, dt_pass pass)
{
    const dt_conv *c = &p->c;
    const double window = c->kernel[0] * c->kernel[1];
    const double terms = pass == DT_PASS_FORWARD ? window * (double)c->ic + 1
                         : pass == DT_PASS_DATA  ? window * (double)c->oc
                                                 : (double)(c->n * c->oh * c->ow);
    oracle want = oracle_make(p, pass, false), size = oracle_make(p, pass, true);
    const double *w[] = {want.y, want.x, want.w}, *s[] = {size.y, size.x, size.w};
    dt_kernel_info info;
    outcome one = run(k, p, pass, 1, &info);

    compare(k, p, pass, &info, &one, w[pass], s[pass], terms);
    if (pass == DT_PASS_WEIGHTS && c->bias)
        compare_bias(p, &one);
    for (int threads = 2; threads <= 3; threads++) {
        outcome more = run(k, p, pass, threads, &info);
        if (memcmp(one.main, more.main, one.bytes) != 0 ||
            (pass == DT_PASS_WEIGHTS && c->bias &&
             memcmp(one.dbias, more.dbias, (size_t)c->oc * sizeof(float)) != 0)) {
            describe("other bits", k, c, pass, info.impl);
            fail_msg("with %d threads", threads);
        }
        outcome_free(&more);
    }
    outcome_free(&one);
    oracle_free(&want);
    oracle_free(&size);
}

static void check(dt_conv c, const dt_kernel *k)
{
    problem p;

    c.oh = (c.ih + c.pad[0] + c.pad[2] - c.kernel[0]) / c.stride[0] + 1;
    c.ow = (c.iw + c.pad[1] + c.pad[3] - c.kernel[1]) / c.stride[1] + 1;
    p = problem_make(c);
    for (int pass = 0; pass < DT_PASS_COUNT; pass++)
        check_pass(k, &p, (dt_pass)pass);
    problem_free(&p);
}

/* ---- The problems ---------------------------------------------------------------- */

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

static void all_shapes(const dt_kernel *k, dt_dtype type, int each)
{
    int turn = 0; /* batch, bias and the type of y take turns, and half the outputs */
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
            for (size_t o = (w + i) % 2; o < 4; o += 2, turn++) {
                dt_conv c = {.n = batches[turn % 7 % 4],
                             .ih = 11,
                             .iw = 8,
                             .ic = inputs[i],
                             .oc = outputs[o],
                             .bias = turn % 3 != 1,
                             .type = type,
                             .out_type = turn % 5 == 0 ? DT_F32 : type};
                memcpy(c.kernel, windows[w].kernel, sizeof c.kernel);
                memcpy(c.stride, windows[w].stride, sizeof c.stride);
                memcpy(c.pad, windows[w].pad, sizeof c.pad);
                if (turn % each == 0)
                    check(c, k);
            }
}

/* Enough pixels for 2 and for 4 parts of a weight gradient, batches that do not divide
 * by them; a linear layer; a map of one pixel under a 3x3 kernel. */
static void large_shapes(const dt_kernel *k, dt_dtype type)
{
    const dt_conv three = {.n = 7,
                           .ih = 7,
                           .iw = 9,
                           .ic = 20,
                           .oc = 24,
                           .kernel = {3, 3},
                           .stride = {1, 1},
                           .pad = {1, 1, 1, 1},
                           .bias = true,
                           .type = type,
                           .out_type = type};
    dt_conv c = three;
    check(c, k);
    c.n = 9, c.ih = c.iw = 24, c.ic = 3, c.oc = 16;
    check(c, k);
    c = three;
    c.n = 33, c.ih = c.iw = 1, c.ic = 64, c.oc = 48;
    check(c, k);
    c = (dt_conv){.n = 37,
                  .ih = 1,
                  .iw = 1,
                  .ic = 512,
                  .oc = 10,
                  .kernel = {1, 1},
                  .stride = {1, 1},
                  .bias = true,
                  .type = type,
                  .out_type = DT_F32};
    check(c, k);
    /* Wide images, at which the AMX weight gradient of oneDNN 2 never returns. */
    c = three;
    c.n = 2, c.ih = 3, c.iw = 752, c.ic = 3, c.oc = 17;
    check(c, k);
    /* oneDNN's own threading adds in another order on three threads (AVX-512, float32). */
    c = (dt_conv){.n = 1,
                  .ih = 11,
                  .iw = 11,
                  .ic = 256,
                  .oc = 128,
                  .kernel = {7, 7},
                  .stride = {2, 2},
                  .pad = {3, 3, 3, 3},
                  .type = type,
                  .out_type = type};
    check(c, k);
}

/* One test per row and type: state points at it. */
typedef struct subject {
    const dt_kernel *kernel;
    dt_dtype type;
    const dt_tile_way *way; /* NULL: this CPU's */
} subject;

static void skip_unsupported(const subject *s)
{
    const dt_conv c = {.n = 1,
                       .ih = 1,
                       .iw = 1,
                       .ic = 1,
                       .oh = 1,
                       .ow = 1,
                       .oc = 1,
                       .kernel = {1, 1},
                       .stride = {1, 1},
                       .type = s->type,
                       .out_type = s->type,
                       .threads = 1};
    if (s->kernel->supports(&c, DT_PASS_FORWARD))
        return;
    /* A row that has one type only leaves nothing out. */
    if (s->kernel != &dt_kernel_blas && (s->kernel != &dt_kernel_tiles || s->type == DT_BF16))
        test_skips("bf16: %s has none on %s", s->kernel->name, dt_isa_name(dt_isa_current()));
    skip();
}

static void test_naive(void **state)
{
    const subject *s = *state;
    dt_tile_use(s->way);
    skip_unsupported(s);
    all_shapes(s->kernel, s->type, s->way ? 11 : 1); /* plain C is slow */
    if (!s->way)
        large_shapes(s->kernel, s->type);
    dt_tile_use(NULL);
}

/* The result of an image does not depend on how many others are in the batch, even where
 * a library packs the weights otherwise (oneDNN 3 for one image under AMX). The row blas puts
 * small images together up to 128 pixels, and sgemm's bits depend on them (OpenBLAS's Haswell
 * kernels): it is asked where an image is a product of its own. */
static void test_batch(void **state)
{
    const subject *s = *state;
    static const int shape[][5] = {/* size, ic, oc, kernel, stride */
                                   {16, 3, 64, 3, 1},    {14, 64, 64, 3, 1},  {14, 64, 256, 1, 1},
                                   {14, 256, 128, 1, 2}, {4, 128, 128, 3, 1}, {1, 512, 10, 1, 1},
                                   {2, 256, 256, 3, 1}};
    dt_tile_use(s->way);
    skip_unsupported(s);
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int pass = DT_PASS_FORWARD; pass <= DT_PASS_DATA; pass++) {
            const int *q = shape[i], pad = (q[3] - 1) / 2;
            dt_conv c = {.n = 8,
                         .ih = q[0],
                         .iw = q[0],
                         .ic = q[1],
                         .oc = q[2],
                         .kernel = {q[3], q[3]},
                         .stride = {q[4], q[4]},
                         .pad = {pad, pad, pad, pad},
                         .type = s->type,
                         .out_type = s->type,
                         .threads = 1};
            c.oh = c.ow = (q[0] + 2 * pad - q[3]) / q[4] + 1;
            if (strcmp(s->kernel->name, "blas") == 0 && c.oh * c.ow < 128)
                continue;
            problem p = problem_make(c);
            dt_kernel_info info8, info1;
            outcome eight = run(s->kernel, &p, (dt_pass)pass, 1, &info8);
            p.c.n = 1; /* image 0 of the eight */
            outcome one = run(s->kernel, &p, (dt_pass)pass, 1, &info1);
            if (memcmp(eight.main, one.main, one.bytes) != 0) {
                describe("other bits", s->kernel, &p.c, (dt_pass)pass, info1.impl);
                fail_msg("in a batch of 8 (%s)", info8.impl);
            }
            outcome_free(&eight);
            outcome_free(&one);
            problem_free(&p);
        }
    dt_tile_use(NULL);
}

int main(void)
{
    static subject subjects[2 * ROWS + 1];
    static char names[2][2 * ROWS + 1][48];
    struct CMUnitTest tests[2 * (2 * ROWS + 1)];
    size_t count = 0;

    for (int i = 0; i < 2 * ROWS + 1; i++) {
        subjects[i] = (subject){rows[i / 2 % ROWS], i % 2 ? DT_BF16 : DT_F32, NULL};
        if (i == 2 * ROWS) /* everywhere, with the bits of the AMX unit */
            subjects[i] = (subject){&dt_kernel_tiles, DT_BF16, &dt_tile_way_plain};
        const subject *s = &subjects[i];
        for (int k = 0; k < 2; k++) {
            snprintf(names[k][i], sizeof names[k][i], "%s%s %s %s", s->kernel->name,
                     s->way ? " (plain)" : "", dt_dtype_name(s->type),
                     k ? "batch" : "against naive");
            tests[count++] = (struct CMUnitTest){names[k][i], k ? test_batch : test_naive, NULL,
                                                 NULL, &subjects[i]};
        }
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

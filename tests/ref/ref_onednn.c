/* ref_onednn.c - the three passes by our kernels against oneDNN's own convolutions, which share
 * nothing with them: shapes of all networks, and random ones. What oneDNN is known to get wrong is
 * left out and named. */
#include "conv.h"

#ifndef DTRAIN_WITH_ONEDNN
static void test_none(void **state)
{
    (void)state;
    test_skip("no oneDNN here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "onednn.h"

enum { SEED = 51, THREADS = 2 };
#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

/* ---- Known faults of oneDNN, which are not run ------------------------------------------- */

static bool always_padding(int64_t in, int64_t out, int kernel, int stride, int pad)
{
    for (int k = 0; k < kernel; k++) {
        bool meets = false;
        for (int64_t o = 0; o < out; o++)
            meets = meets || (o * stride - pad + k >= 0 && o * stride - pad + k < in);
        if (!meets)
            return true;
    }
    return false;
}

static bool has_idle_taps(const dt_conv *c)
{
    return c->type == DT_BF16 &&
           (always_padding(c->ih, c->oh, c->kernel[0], c->stride[0], c->pad[0]) ||
            always_padding(c->iw, c->ow, c->kernel[1], c->stride[1], c->pad[1]));
}

static bool overruns(const dt_conv *c)
{
    return c->kernel[0] == 1 && c->kernel[1] == 1 && (c->stride[0] > 1 || c->stride[1] > 1) &&
           c->ic < 16;
}

/* 16 channels of a row of x and one of dy, padded, do not fit 48 KiB. */
static bool never_ends(const dt_conv *c)
{
    return c->type == DT_BF16 && c->kernel[0] == 3 && c->stride[0] == 1 &&
           32 * (c->iw + c->ow + 64) > 48 * 1024;
}

static struct {
    const char *what;
    int until; /* major version that no longer has it */
    dt_pass pass;
    bool (*has)(const dt_conv *c);
    int left_out;
} faults[] = {
    {"bf16 weight gradients of taps that lie on padding for every image are not 0 (2.6, 3.7)", 99,
     DT_PASS_WEIGHTS, has_idle_taps, 0},
    {"weight gradients of strided 1x1 kernels write past their scratch below 16 channels", 99,
     DT_PASS_WEIGHTS, overruns, 0},
    {"3x3 bf16 weight gradients of wide images are never planned to the end with AMX (2.6)", 3,
     DT_PASS_WEIGHTS, never_ends, 0},
};

static bool is_faulty(const dt_conv *c, dt_pass pass)
{
    for (size_t i = 0; i < DT_COUNT_OF(faults); i++)
        if (pass == faults[i].pass && dnnl_version()->major < faults[i].until && faults[i].has(c)) {
            faults[i].left_out++;
            return true;
        }
    return false;
}

/* ---- A pass by both ------------------------------------------------------------------------ */

static char now[256]; /* what is tried */

static void done(dnnl_status_t s)
{
    assert_ok(onednn_check(s, now));
}

/* Between a tensor of ours, NHWC or HWIO, and oneDNN's operand. */
static void move(const onednn_pass *o, int operand, void *ours, bool in)
{
    static const dnnl_format_tag_t tag[] = {dnnl_nhwc, dnnl_hwio, dnnl_nhwc, dnnl_x};
    const dnnl_memory_t theirs = o->arg[operand].memory;
    onednn_const_md chosen = NULL;
    onednn_md md = NULL;
    dnnl_memory_t plain = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t reorder = NULL;

    done(dnnl_memory_get_memory_desc(theirs, &chosen));
    done(onednn_md_create(&md, operand == ONEDNN_BIAS ? 1 : 4, o->size[operand], o->type[operand],
                          tag[operand]));
    done(dnnl_memory_create(&plain, md, o->engine, ours));
    done(dnnl_reorder_primitive_desc_create(&pd, in ? md : chosen, o->engine, in ? chosen : md,
                                            o->engine, NULL));
    done(dnnl_primitive_create(&reorder, pd));
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, in ? plain : theirs},
                                    {DNNL_ARG_TO, in ? theirs : plain}};
    done(dnnl_primitive_execute(reorder, o->stream, 2, args));
    done(dnnl_stream_wait(o->stream));
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(pd);
    dnnl_memory_destroy(plain);
    onednn_md_destroy(md);
}

typedef enum how { AS_DRAWN, MAGNITUDES, SPOILED } how;

/* oneDNN's pass on what ours was given. SPOILED: the first number of each operand is another. */
static void run_theirs(const onednn_pass *o, const conv_problem *p, dt_pass pass, how as)
{
    static const int drawn[] = {CONV_X, CONV_MASTER, CONV_DY, CONV_BIAS};
    static const int result[] = {ONEDNN_Y, ONEDNN_X, ONEDNN_W};

    for (int i = 0; i < o->operands; i++) {
        const dt_dtype type = conv_type(p, drawn[i]);
        const size_t bytes = p->size[drawn[i]] * dt_dtype_bytes(type);
        if (i == result[pass] || (i == ONEDNN_BIAS && pass == DT_PASS_WEIGHTS))
            continue;
        void *number = malloc(bytes + 1);
        assert_non_null(number);
        memcpy(number, p->at[drawn[i]].data, bytes);
        for (size_t e = 0; as == MAGNITUDES && e < p->size[drawn[i]]; e++)
            test_put(number, e, fabs(test_get(number, e, type)), type);
        if (as == SPOILED)
            test_put(number, 0, test_get(number, 0, type) + 0x1p-3, type);
        move(o, i, number, true);
        free(number);
    }
    assert_ok(onednn_run(o));
}

static void *result_of(const onednn_pass *o, int operand, size_t bytes)
{
    void *to = malloc(bytes + 1);

    assert_non_null(to);
    move(o, operand, to, false);
    return to;
}

/* The largest |ours - theirs| as a part of what is allowed. Each is a sum in float32 in some order,
 * at most unit * (terms + 4) * sum |a b| from the exact one (ref_conv.c), and the sum of magnitudes
 * is oneDNN's, too. A result kept in bf16 was rounded once more by both, by 2^-8 of itself. */
static double distance(const conv_problem *p, dt_pass pass, how as)
{
    const dt_conv *c = &p->c;
    const double window = c->kernel[0] * c->kernel[1],
                 unit = c->type == DT_BF16 ? 0x1p-23 : 0x1p-24;
    const double terms[] = {window * (double)c->ic + 1, window * (double)c->oc,
                            (double)(c->n * c->oh * c->ow)};
    const int operand[] = {ONEDNN_Y, ONEDNN_X, ONEDNN_W, ONEDNN_BIAS};
    const int results = pass == DT_PASS_WEIGHTS && c->bias ? 2 : 1;
    double worst = 0;
    onednn_pass o;
    conv_run r;

    assert_ok(onednn_open(&o, c, pass));
    conv_execute(&r, p, pass, c->n, THREADS);
    for (int i = 0; i < results; i++) { /* dbias behind dw */
        const int at = operand[(int)pass + i];
        const size_t count = i ? p->size[CONV_BIAS] : r.count;
        const size_t bytes = i ? count * sizeof(float) : r.bytes;
        const dt_dtype type = bytes == 2 * count ? DT_BF16 : DT_F32;
        run_theirs(&o, p, pass, as);
        void *theirs = result_of(&o, at, bytes);
        run_theirs(&o, p, pass, MAGNITUDES);
        void *size = result_of(&o, at, bytes);
        for (size_t e = 0; e < count; e++) {
            const double want = test_get(theirs, e, type);
            const double apart =
                fabs(test_get(r.at[i ? CONV_DBIAS : CONV_RESULT].data, e, type) - want);
            const double allowed = 2 * unit * (terms[pass] + 4) * test_get(size, e, type) +
                                   (type == DT_BF16 ? 0x1p-7 * fabs(want) : 0) + 1e-30;
            if (!isnan(worst) && !(apart <= worst * allowed))
                worst = apart / allowed;
        }
        free(theirs);
        free(size);
    }
    conv_unmap(r.at, CONV_MADE);
    onednn_close(&o);
    return worst;
}

/* ---- Shapes -------------------------------------------------------------------------------- */

enum { MOST_SHAPES = 1024 };
static char tried[MOST_SHAPES][sizeof now];
static int shapes, passes;
static double largest;

static void check(dt_conv c)
{
    conv_problem p;

    snprintf(now, sizeof now,
             "%s: n %d, %dx%dx%d -> %d, kernel %dx%d, stride %dx%d, pad %d %d %d %d, bias %d %d",
             dt_dtype_name(c.type), (int)c.n, (int)c.ih, (int)c.iw, (int)c.ic, (int)c.oc,
             c.kernel[0], c.kernel[1], c.stride[0], c.stride[1], c.pad[0], c.pad[1], c.pad[2],
             c.pad[3], c.bias, c.out_type);
    for (int i = 0; i < shapes; i++)
        if (strcmp(tried[i], now) == 0)
            return;
    assert_true(shapes < MOST_SHAPES);
    memcpy(tried[shapes++], now, sizeof now);
    conv_open(&p, c);
    for (int pass = 0; pass < DT_PASS_COUNT; pass++)
        if (!is_faulty(&p.c, (dt_pass)pass)) {
            const double part = distance(&p, (dt_pass)pass, AS_DRAWN);
            if (!(part <= 1))
                fail_msg("%s, pass %d: %.3g times what is allowed from oneDNN", now, pass, part);
            largest = DT_MAX(largest, part);
            passes++;
        }
    conv_unmap(p.at, CONV_DRAWN);
}

static void check_net(dt_dtype type, const dt_net_spec *spec, int64_t batch)
{
    const dt_model_opts opts = {.precision = type, .threads = THREADS, .parts = 1};
    dt_net *net = NULL;
    dt_model *model = NULL;
    dt_plan *plan = NULL;
    dt_conv c;

    assert_ok(dt_net_create(&net, spec));
    assert_ok(dt_model_create(&model, net, &opts));
    assert_ok(dt_plan_create(&plan, model, batch, DT_TRAIN, false));
    for (int i = 0; i < plan->steps; i++)
        if (onednn_conv_of(plan, i, &c))
            check(c);
    dt_plan_destroy(plan);
    dt_model_destroy(model);
    dt_net_destroy(net);
}

static void check_nets(dt_dtype type)
{
    static const struct {
        dt_net_spec spec;
        int64_t batch;
    } nets[] = {
        {{"vgg11", "", "", 0, 10, 1}, 3},
        {{"vgg11", "wide", "", 0, 10, 1}, 2},
        {{"resnet9", "", "", 0, 10, 1}, 2},
        {{"mlp", "", "", 0, 10, 1}, 5},
        {{"resnet50", "mindspore", "imagenet", 32, 10, 1}, 4},
        {{"resnet50", "torchvision", "imagenet", 16, 10, 1}, 3}, /* maps of 1x1 */
        {{"resnet50", "mindspore", "cifar", 32, 10, 1}, 1},
        {{"resnet50", "torchvision", "imagenet", 224, 10, 1}, 1},
    };

    for (size_t i = 0; i < DT_COUNT_OF(nets); i++)
        check_net(type, &nets[i].spec, nets[i].batch);
}

static dt_conv draw_conv(uint32_t trial, dt_dtype type)
{
    static const int channels[] = {1,  2,  3,  5,  8,  10, 15,  16,  17,
                                   24, 31, 32, 33, 48, 64, 100, 128, 160};
    static const int kernels[] = {1, 1, 2, 3, 3, 3, 4, 5, 7};
    dt_conv c = {.type = type, .out_type = type};
    uint32_t bits[4][4];

    for (uint32_t i = 0; i < 4; i++)
        dt_random(SEED, DT_STREAM_TEST, 0, trial, i, bits[i]);
    c.n = 1 + dt_below(bits[0][0], 6);
    c.ic = channels[dt_below(bits[0][1], DT_COUNT_OF(channels))];
    c.oc = channels[dt_below(bits[0][2], DT_COUNT_OF(channels))];
    c.bias = bits[0][3] & 1;
    if (bits[0][3] & 2 && bits[0][3] & 4)
        c.out_type = DT_F32;
    for (int i = 0; i < 2; i++) {
        const bool square = i && bits[1][3] & 1;
        c.kernel[i] = square ? c.kernel[0] : kernels[dt_below(bits[1][i], DT_COUNT_OF(kernels))];
        c.stride[i] = square ? c.stride[0] : 1 + (int)dt_below(bits[2][i], 5) / 2;
        c.pad[i] = (int)dt_below(bits[3][i], (uint32_t)c.kernel[i]);
        c.pad[i + 2] =
            bits[1][3] & 2 ? c.pad[i] : (int)dt_below(bits[3][i + 2], (uint32_t)c.kernel[i]);
    }
    c.ih = DT_MAX(1 + (int)dt_below(bits[2][2], 20), c.kernel[0] - c.pad[0] - c.pad[2]);
    c.iw = DT_MAX(1 + (int)dt_below(bits[2][3], 20), c.kernel[1] - c.pad[1] - c.pad[3]);
    return c;
}

static void test_shapes(void **state)
{
    const dt_dtype type = *(const dt_dtype *)*state;
    const bool slow = SANITIZED || (type == DT_BF16 && dt_isa_current() < DT_ISA_AVX512_BF16);
    conv_problem p;
    onednn_pass o;

    if (type == DT_BF16)
        test_bf16();
    conv_open(&p, conv_square(1, 8, 16, 16, 3, 1, 1, type));
    const dt_status st = onednn_open(&o, &p.c, DT_PASS_FORWARD);
    onednn_close(&o);
    if (st == DT_UNSUPPORTED)
        test_skip("bf16: oneDNN has none for this CPU");
    assert_ok(st);
    for (int pass = 0; pass < DT_PASS_COUNT; pass++) /* it would be seen */
        assert_true(distance(&p, (dt_pass)pass, SPOILED) > 1);
    conv_unmap(p.at, CONV_DRAWN);

    if (slow)
        test_skips("networks: they are slow under sanitizers, and in plain C's bf16");
    else
        check_nets(type);
    for (uint32_t trial = 0; trial < (slow ? 30 : 300); trial++)
        check(draw_conv(trial, type));
}

/* What was tried, for who reads the log. */
static void say(void)
{
    const dnnl_version_t *v = dnnl_version();

    print_message("oneDNN %d.%d.%d, seed %d: %d passes of %d shapes, at most %.2g of what rounding "
                  "may make\n",
                  v->major, v->minor, v->patch, SEED, passes, shapes, largest);
    for (size_t i = 0; i < DT_COUNT_OF(faults); i++)
        print_message("known fault, %d shapes left out: %s\n", faults[i].left_out, faults[i].what);
}

int main(void)
{
    static const dt_dtype types[] = {DT_F32, DT_BF16};
    const struct CMUnitTest tests[] = {
        {"float32", test_shapes, NULL, NULL, (void *)(uintptr_t)&types[0]},
        {"bf16", test_shapes, NULL, NULL, (void *)(uintptr_t)&types[1]},
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);

    say();
    return failed;
}
#endif

/* costs_work.c - the least that a pass computes and moves, by hand for layers of every
 * kind. */
#include "costs/costs.h"
#include "model/kernels/tiles/backend.h"
#include "net.h"

static test_plan make(const dt_net_spec *spec, int64_t batch, dt_mode mode)
{
    const dt_model_opts opts = {.precision = DT_F32, .threads = 1};
    test_plan m = test_plan_create(spec, &opts, batch, mode);

    for (int i = 0; i < m.plan->steps; i++) /* a packed copy has padding: count without */
        for (int k = 0; k < 2; k++)
            m.plan->step[i].pack[k] = -1;
    return m;
}

static size_t find(const test_plan *m, const char *op, const char *name)
{
    for (size_t i = 0; i < (size_t)m->plan->steps; i++) {
        const dt_plan_row row = dt_plan_row_get(m->plan, i);
        if (strcmp(row.op, op) == 0 && strcmp(row.name, name) == 0)
            return i;
    }
    fail_msg("no step %s %s", op, name);
    return 0;
}

/* All passes of a step: flops of each that there is, bytes. */
static void expect(const test_plan *m, const char *op, const char *name, double flops,
                   const double bytes[DT_PASS_COUNT])
{
    const size_t step = find(m, op, name);

    for (int pass = 0; pass < DT_PASS_COUNT; pass++) {
        const dt_work work = dt_plan_work(m->plan, step, (dt_pass)pass);
        if ((double)work.bytes != bytes[pass] ||
            (double)work.flops != (bytes[pass] > 0 ? flops : 0))
            fail_msg("%s %s, pass %d: %lld flops, %lld bytes; want %.0f and %.0f", op, name, pass,
                     (long long)work.flops, (long long)work.bytes, flops, bytes[pass]);
    }
}

static double saved(const test_plan *m, const char *op, const char *name)
{
    return (double)dt_plan_row_get(m->plan, find(m, op, name)).saved_bytes;
}

/* 64 / 16 channels behind the first convolution; 3 x 3 windows at the edges of 32 pixels leave
 * out one row of the kernel twice. */
TEST(layers_of_vgg11)
{
    const dt_net_spec spec = {.net = "vgg11", .classes = 10, .width_divisor = 16};
    test_plan m = make(&spec, 2, DT_TRAIN);
    const double f = 4, x = 2 * 32 * 32 * 3, y = 2 * 32 * 32 * 4, weights = 27 * 4 + 4;
    const double axis = 3 * 32 - 2;
    const double norm = saved(&m, "batchnorm+relu", "features.1");
    const double half = 2 * 16 * 16 * 4;

    expect(&m, "conv2d", "features.0", 2 * 2 * axis * axis * 3 * 4,
           (double[]){f * (x + y + weights), 0, f * (x + y + weights)});
    expect(&m, "batchnorm+relu", "features.1", 0,
           (double[]){f * (2 * y + 8) + norm, f * (3 * y + 4 + 8) + norm, 0});
    expect(&m, "maxpool", "features.3", 0,
           (double[]){f * (y + half) + half, f * (y + half) + half, 0});
    expect(&m, "linear", "classifier", 2 * 2 * 32 * 10,
           (double[]){f * (64 + 20 + 330), f * (64 + 20 + 320), f * (64 + 20 + 330)});
    expect(&m, "softmax_xent", "loss", 0, (double[]){f * (20 + 2 + 20), f * (20 + 20), 0});
    test_plan_close(&m);
}

/* Maps of one pixel: a ninth of a 3 x 3 kernel meets it, and of the layer before, with a
 * stride of 2 on 2 pixels, four ninths. */
TEST(layers_of_resnet50)
{
    const dt_net_spec spec = {.net = "resnet50",
                              .variant = "torchvision",
                              .stem = "imagenet",
                              .image_size = 32,
                              .classes = 10,
                              .width_divisor = 16};
    test_plan m = make(&spec, 2, DT_TRAIN);
    const double f = 4, x = 2 * 32, weights = 9 * 32 * 32;
    const double wide = 2 * 128;
    const double norm = saved(&m, "batchnorm+add+relu", "layer4.1.bn3");

    expect(&m, "conv2d", "layer4.1.conv2", 2 * 2 * 32 * 32,
           (double[]){f * (2 * x + weights), f * (2 * x + weights), f * (2 * x + weights)});
    expect(&m, "conv2d", "layer4.0.conv2", 4 * 2 * 2 * 32 * 32,
           (double[]){f * (5 * x + weights), f * (5 * x + weights), f * (5 * x + weights)});
    expect(&m, "batchnorm+add+relu", "layer4.1.bn3", 0,
           (double[]){f * (3 * wide + 256) + norm, f * (5 * wide + 128 + 256) + norm, 0});
    for (size_t i = 0; i < (size_t)m.plan->steps; i++)
        if (m.plan->step[i].op == &dt_op_fork) {
            const int64_t bytes = 4 * dt_shape_count(&m.plan->step[i].out_shape);
            assert_int_equal(dt_plan_work(m.plan, i, DT_PASS_FORWARD).bytes, 0);
            assert_int_equal(dt_plan_work(m.plan, i, DT_PASS_DATA).bytes, 3 * bytes);
        }
    test_plan_close(&m);
}

TEST(evaluation_is_forward)
{
    const dt_net_spec spec = {.net = "vgg11", .classes = 10, .width_divisor = 16};
    test_plan m = make(&spec, 2, DT_EVAL);

    for (size_t i = 0; i < (size_t)m.plan->steps; i++) {
        assert_true(dt_plan_work(m.plan, i, DT_PASS_FORWARD).bytes > 0);
        assert_int_equal(dt_plan_work(m.plan, i, DT_PASS_DATA).bytes, 0);
        assert_int_equal(dt_plan_work(m.plan, i, DT_PASS_WEIGHTS).bytes, 0);
    }
    test_plan_close(&m);
}

/* By the kernels that a run takes; bf16 falls back on float32's. */
TEST(peaks_are_numbers)
{
    dt_peaks p;

    for (int low = 0; low < 2; low++) {
        assert_ok(dt_peaks_measure(&p, 2));
        for (int type = 0; type < DT_DTYPES; type++)
            assert_true(isfinite(p.flops[type]) && p.flops[type] > 0 && p.flops_by[type][0]);
        assert_true(isfinite(p.bytes_per_s) && p.bytes_per_s > 0);
        dt_isa_limit(DT_ISA_AVX2);
    }
    assert_true(p.flops[DT_BF16] == p.flops[DT_F32]);
    assert_non_null(strstr(p.flops_by[DT_BF16], dt_tile_own()->name));
}

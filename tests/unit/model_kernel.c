/* model_kernel.c - which kernel and which precision are chosen, what is said when none can, and the
 * shapes of conv2d and linear. */
#include "test.h"

#include <unistd.h>

#include "model/kernels/kernel.h"
#include "model/kernels/onednn_limits.h"

static void test_choice(void **state)
{
    const bool can = dt_isa_current() >= DT_ISA_AVX512_BF16;
    const dt_conv c = {.n = 1,
                       .ih = 1,
                       .iw = 1,
                       .ic = 1,
                       .oh = 1,
                       .ow = 1,
                       .oc = 1,
                       .kernel = {1, 1},
                       .stride = {1, 1},
                       .threads = 1};
    const dt_kernel *k = NULL;
    dt_dtype type = DT_F32;

    (void)state;
    assert_ok(dt_kernel_choose("auto", &c, DT_PASS_DATA, &k));
    assert_string_equal(k->name, dt_isa_current() >= DT_ISA_AVX512 ? "tiles" : "onednn");
    assert_ok(dt_kernel_choose("blas", &c, DT_PASS_WEIGHTS, &k));
    assert_string_equal(k->name, "blas");
    assert_fails(dt_kernel_choose("cudnn", &c, DT_PASS_FORWARD, &k), DT_UNSUPPORTED, "'cudnn'");
    assert_ok(dt_precision_choose("auto", "auto", &type));
    assert_int_equal(type, can ? DT_BF16 : DT_F32);
    assert_ok(dt_precision_choose("fp32", "onednn", &type));
    assert_int_equal(type, DT_F32);
    assert_ok(dt_precision_choose("auto", "blas", &type));
    assert_int_equal(type, DT_F32);
    assert_fails(dt_precision_choose("bf16", "blas", &type), DT_UNSUPPORTED,
                 can ? "'blas' have none for the instruction set" : "--kernels auto --isa amx");
    assert_fails(dt_precision_choose("fp16", "auto", &type), DT_CONFIG, "'fp16'");
    assert_fails(dt_precision_choose("fp32", "cudnn", &type), DT_CONFIG, "'cudnn'");
    dt_isa_limit(DT_ISA_AVX2); /* the last test: it cannot be lifted */
    assert_ok(dt_precision_choose("auto", "auto", &type));
    assert_int_equal(type, DT_F32);
    assert_fails(dt_precision_choose("bf16", "auto", &type), DT_UNSUPPORTED,
                 "take --precision fp32, or --isa amx, which any CPU can");
}

static void test_shapes(void **state)
{
    dt_node n = {.op = &dt_op_conv2d,
                 .name = "conv1",
                 .attr = {.out = 64, .kernel = {7, 7}, .stride = {2, 2}}};
    const dt_shape in = {2, 224, 32, 3}, small = {2, 6, 6, 3};
    dt_shape out;

    (void)state;
    memcpy(n.attr.pad, (int[]){2, 3, 3, 3}, sizeof n.attr.pad);
    assert_ok(dt_op_conv2d.infer(&n, &in, &out));
    assert_true(out.n == 2 && out.h == 112 && out.w == 16 && out.c == 64);
    memset(n.attr.pad, 0, sizeof n.attr.pad);
    assert_ok(dt_op_conv2d.infer(&n, &in, &out));
    assert_true(out.h == 109 && out.w == 13);
    assert_fails(dt_op_conv2d.infer(&n, &small, &out), DT_SHAPE, "7x7");
    n.attr.stride[1] = 0;
    assert_fails(dt_op_conv2d.infer(&n, &in, &out), DT_SHAPE, "stride 2x0");
    assert_ok(dt_op_linear.infer(&n, &in, &out));
    assert_true(out.n == 2 && out.h == 1 && out.w == 1 && out.c == 64);
}

/* A 3x3 convolution of stride 1 as in the networks, on square images. */
static dt_conv three(int64_t n, int64_t size, int64_t ic, int64_t oc)
{
    return (dt_conv){.n = n,
                     .ih = size,
                     .iw = size,
                     .ic = ic,
                     .oh = size,
                     .ow = size,
                     .oc = oc,
                     .kernel = {3, 3},
                     .stride = {1, 1},
                     .pad = {1, 1, 1, 1},
                     .type = DT_BF16,
                     .out_type = DT_BF16,
                     .threads = 1};
}

/* Sizes at which oneDNN 2.6.3 was seen to hang on a CPU with AMX, and not to. */
static void test_limits(void **state)
{
    static const int64_t hangs[] = {738, 752, 768, 1000, 1023, 1024};
    static const int64_t works[] = {32, 224, 512, 736};
    dt_conv c = three(1, 752, 3, 64);

    (void)state;
    for (size_t i = 0; i < sizeof hangs / sizeof *hangs; i++) {
        c = three(1, hangs[i], 3, 64);
        assert_true(onednn_amx_loops(&c));
    }
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        c = three(1, works[i], 3, 64);
        assert_false(onednn_amx_loops(&c));
    }
    c = three(1, 752, 3, 64);
    c.oh = c.ow = 376, c.stride[0] = c.stride[1] = 2;
    assert_false(onednn_amx_loops(&c));
    c = three(1, 752, 3, 64);
    c.type = DT_F32;
    assert_false(onednn_amx_loops(&c));
    c = three(1, 1024, 64, 64);
    assert_true(onednn_fits(&c, 31));
    assert_false(onednn_fits(&c, 32));
    assert_false(onednn_fits(&c, INT64_MAX));
}

/* The weight gradient of a large image opens at once, whatever the CPU: its AMX kernel
 * would never return. */
static void test_large_images(void **state)
{
    const bool can = dt_isa_current() >= DT_ISA_AVX512_BF16;
    dt_conv c = three(1, 752, 3, 64);
    const dt_kernel *k = NULL;
    dt_kernel_info info;
    void *kernel = NULL;

    (void)state;
    c.type = c.out_type = can ? DT_BF16 : DT_F32;
    alarm(60);
    for (int pass = 0; pass < DT_PASS_COUNT; pass++) {
        assert_ok(dt_kernel_choose("auto", &c, (dt_pass)pass, &k));
        assert_ok(k->open(&kernel, &c, (dt_pass)pass, &info));
        print_message("%s\n", info.impl);
        k->close(kernel);
    }
    alarm(0);
    c.n = (int64_t)1 << 40;
    assert_fails(dt_kernel_choose("onednn", &c, DT_PASS_FORWARD, &k), DT_UNSUPPORTED,
                 "1099511627776 images");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_large_images),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

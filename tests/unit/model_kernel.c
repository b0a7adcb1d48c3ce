/* model_kernel.c - which kernel and which precision are chosen, what is said when none can, and the
 * shapes of conv2d and linear. */
#include "conv.h"

static void test_choice(void **state)
{
    const bool can = dt_isa_current() >= DT_ISA_AVX512_BF16;
    dt_conv c = conv_square(1, 1, 1, 1, 1, 1, 0, DT_F32);
    const dt_kernel *k = NULL;
    dt_dtype type = DT_F32;

    (void)state;
    c.oh = c.ow = c.threads = 1;
    assert_ok(dt_kernel_choose("auto", &c, DT_PASS_DATA, &k));
    assert_string_equal(k->name, dt_isa_current() >= DT_ISA_AVX512 ? "tiles" : "onednn");
    assert_ok(dt_kernel_choose("onednn", &c, DT_PASS_WEIGHTS, &k));
    assert_string_equal(k->name, "onednn");
    c.stride[0] = 2; /* with fewer than 16 channels */
    assert_fails(dt_kernel_choose("onednn", &c, DT_PASS_WEIGHTS, &k), DT_UNSUPPORTED,
                 "a lower --width-divisor");
    assert_fails(dt_kernel_choose("cudnn", &c, DT_PASS_FORWARD, &k), DT_UNSUPPORTED, "'cudnn'");
    assert_ok(dt_precision_choose("auto", "auto", &type));
    assert_int_equal(type, can ? DT_BF16 : DT_F32);
    assert_ok(dt_precision_choose("fp32", "onednn", &type));
    assert_int_equal(type, DT_F32);
    assert_ok(dt_precision_choose("auto", "onednn", &type));
    assert_int_equal(type, DT_F32);
    assert_fails(dt_precision_choose("bf16", "onednn", &type), DT_UNSUPPORTED, /* tiles' alone */
                 "or --kernels auto --isa amx");
    dt_isa_limit(DT_ISA_AVX2); /* the last test: it cannot be lifted */
    assert_ok(dt_precision_choose("auto", "auto", &type));
    assert_int_equal(type, DT_F32);
    assert_fails(dt_precision_choose("bf16", "auto", &type), DT_UNSUPPORTED,
                 "take --precision fp32, or --kernels auto --isa amx, which any CPU can");
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
    assert_ok(dt_op_linear.infer(&n, &in, &out));
    assert_true(out.n == 2 && out.h == 1 && out.w == 1 && out.c == 64);
}

/* oneDNN counts elements of a part of the batch with int: 31 images of 2^26 numbers fit, 32 do not;
 * there are at most 16 parts. */
static void test_limits(void **state)
{
    const dt_kernel *k = NULL;
    dt_conv c = conv_square(16 * 31, 1024, 64, 64, 3, 1, 1, DT_F32);

    (void)state;
    c.oh = c.ow = 1024;
    assert_ok(dt_kernel_choose("onednn", &c, DT_PASS_FORWARD, &k));
    c.n = 16 * 32;
    assert_fails(dt_kernel_choose("onednn", &c, DT_PASS_FORWARD, &k), DT_UNSUPPORTED, "512 images");
    c.n = (int64_t)1 << 40;
    assert_fails(dt_kernel_choose("onednn", &c, DT_PASS_FORWARD, &k), DT_UNSUPPORTED,
                 "1099511627776 images");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

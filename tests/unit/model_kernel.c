/* model_kernel.c - which precision and backend are chosen, what is said when there is none, and the
 * shapes of conv2d and linear. */
#include "conv.h"
#include "model/kernels/tiles/backend.h"

static void test_choice(void **state)
{
    const bool can = dt_isa_current() >= DT_ISA_AVX512_BF16;
    dt_dtype type = DT_F32;

    (void)state;
    assert_ok(dt_precision_choose("auto", &type));
    assert_int_equal(type, can ? DT_BF16 : DT_F32);
    assert_ok(dt_precision_choose("fp32", &type));
    assert_int_equal(type, DT_F32);
    dt_isa_limit(DT_ISA_AVX2);
    assert_ok(dt_precision_choose("auto", &type));
    assert_int_equal(type, DT_F32);
    assert_fails(dt_precision_choose("bf16", &type), DT_UNSUPPORTED,
                 "take --precision fp32, or --isa amx, which any CPU can");
    dt_isa_limit(DT_ISA_PORTABLE);
    assert_string_equal(dt_tile_current(DT_F32)->name, "fma_plain");
    dt_isa_limit(DT_ISA_AMX);
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

/* Pixels and blocks are counted by ints. */
static void test_limits(void **state)
{
    dt_kernel_info info;
    dt_tiles *t;
    dt_conv c = conv_square(511, 1024, 64, 64, 3, 1, 1, DT_F32);

    (void)state;
    c.oh = c.ow = 1024;
    c.threads = 1;
    assert_ok(dt_kernel_open(&t, &c, DT_PASS_FORWARD, &info));
    dt_kernel_close(t);
    c.n = 512;
    assert_fails(dt_kernel_open(&t, &c, DT_PASS_FORWARD, &info), DT_UNSUPPORTED, "512 images");
    c.n = (int64_t)1 << 40;
    assert_fails(dt_kernel_open(&t, &c, DT_PASS_FORWARD, &info), DT_UNSUPPORTED,
                 "1099511627776 images");
    assert_null(t);
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

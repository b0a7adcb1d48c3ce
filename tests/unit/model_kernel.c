/* model_kernel.c - which precision and backend are chosen, what is said when there is none, the
 * shapes of conv2d and linear, and what kernels look after. */
#include "conv.h"
#include "model/kernels/tiles/backend.h"

TEST(test_choice)
{
    const bool can = dt_isa_current() >= DT_ISA_AVX512_BF16;
    dt_dtype type = DT_F32;

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

TEST(test_shapes)
{
    dt_node n = {.op = &dt_op_conv2d,
                 .name = "conv1",
                 .attr = {.out = 64, .kernel = {7, 7}, .stride = {2, 2}}};
    const dt_shape in = {2, 224, 32, 3}, small = {2, 6, 6, 3};
    dt_shape out;

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
TEST(test_limits)
{
    dt_kernel_info info;
    dt_tiles *t;
    const dt_pass pass = DT_PASS_FORWARD;
    dt_conv c = conv_square(511, 1024, 64, 64, 3, 1, 1, DT_F32);

    c.oh = c.ow = 1024;
    c.threads = 1;
    assert_ok(dt_kernel_open(&t, &c, pass, NULL, &info));
    dt_kernel_close(t);
    c.n = 512;
    assert_fails(dt_kernel_open(&t, &c, pass, NULL, &info), DT_UNSUPPORTED, "512 images");
    c.n = (int64_t)1 << 40;
    assert_fails(dt_kernel_open(&t, &c, pass, NULL, &info), DT_UNSUPPORTED, "1099511627776 images");
    assert_null(t);
    c = conv_square(1 << 22, 32, 64, 64, 1, 1, 0, DT_F32); /* 2^32 pixels */
    c.oh = c.ow = 32;
    (void)dt_kernel_rows(&c, pass);
    assert_fails(dt_kernel_open(&t, &c, pass, NULL, &info), DT_UNSUPPORTED, "4194304 images");
}

/* What a kernel looks after while it runs: the calling thread does, again and again, also in the
 * middle, and the result is the same. */
typedef struct looks {
    pthread_t thread;
    int count;
} looks;

static void look_counts(void *context)
{
    looks *l = context;

    assert_true(pthread_equal(l->thread, pthread_self()));
    l->count++;
}

TEST(test_looks)
{
    looks l = {pthread_self(), 0};
    conv_problem p;
    conv_run plain, looked;

    conv_open(&p, conv_square(32, 16, 64, 128, 3, 1, 1, DT_F32));
    for (int pass = 0; pass < DT_PASS_COUNT; pass++)
        for (int threads = 1; threads <= 8; threads += 7) { /* 8: threads pack for each other */
            conv_execute(&plain, &p, (dt_pass)pass, 32, threads);
            l.count = 0;
            dt_poll_set(0, look_counts, &l);
            conv_execute(&looked, &p, (dt_pass)pass, 32, threads);
            dt_poll_set(0, NULL, &l);
            assert_in_range(l.count, 4, 100000); /* it runs twice */
            assert_memory_equal(plain.at[CONV_RESULT].data, looked.at[CONV_RESULT].data,
                                plain.bytes);
            conv_unmap(plain.at, CONV_MADE);
            conv_unmap(looked.at, CONV_MADE);
        }
    conv_unmap(p.at, CONV_DRAWN);
}

/* No more often than was said, and not before. */
TEST(test_interval)
{
    const double began = dt_seconds(), every = 0.002;
    looks l = {pthread_self(), 0};

    dt_poll_set(every, look_counts, &l);
    dt_poll();
    while (l.count < 5)
        dt_poll();
    assert_true(dt_seconds() - began >= 5 * every);
    dt_poll_set(every, NULL, &l);
    dt_poll();
}

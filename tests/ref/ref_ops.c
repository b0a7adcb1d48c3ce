/* ref_ops.c - the operations without a matrix product against naive double precision, on odd
 * shapes, in both types; the same bits on any number of threads and instruction set; and the
 * corners: ties, NaN, padding, large means, evaluation. */
#include "model/loops.h"
#include "oracle.h"

/* Batch norm: one row; fewer rows than a group of 4; several blocks and parts with a
 * rest; channels below, at and beyond a pair of vectors; more channels than a block has rows. */
static const test_spec norms[] = {
    {.op = &dt_op_batchnorm, .in = {{1, 1, 1, 3}}, .attr = {.eps = 0.5f}},
    {.op = &dt_op_batchnorm, .in = {{3, 1, 1, 1}}, .attr = {.eps = 1e-5f}},
    {.op = &dt_op_batchnorm, .in = {{2, 7, 5, 17}}, .attr = {.eps = 1e-5f}},
    {.op = &dt_op_batchnorm, .in = {{5, 41, 13, 16}}, .attr = {.eps = 1e-5f}},
    {.op = &dt_op_batchnorm, .in = {{3, 90, 71, 5}}, .attr = {.eps = 1e-5f, .relu = true}},
    {.op = &dt_op_batchnorm, .in = {{2, 5, 5, 1031}}, .attr = {.eps = 1e-5f, .relu = true}},
    {.op = &dt_op_batchnorm,
     .in = {{3, 19, 11, 67}, {3, 19, 11, 67}},
     .attr = {.eps = 1e-5f, .relu = true, .add = true}},
    {.op = &dt_op_batchnorm,
     .in = {{3, 19, 11, 67}, {3, 19, 11, 67}},
     .attr = {.eps = 1e-5f, .relu = true, .add = true},
     .second = true},
    {.op = &dt_op_batchnorm, /* whole vectors: backward reads bits in place of the output */
     .in = {{3, 19, 11, 96}, {3, 19, 11, 96}},
     .attr = {.eps = 1e-5f, .relu = true, .add = true}},
    {.op = &dt_op_batchnorm,
     .in = {{3, 19, 11, 96}, {3, 19, 11, 96}},
     .attr = {.eps = 1e-5f, .relu = true, .add = true},
     .second = true},
};

static const test_spec others[] = {
    {.op = &dt_op_fork, .in = {{3, 53, 41, 13}}},
    {.op = &dt_op_maxpool,
     .in = {{3, 13, 11, 64}}, /* "same" of an odd size */
     .attr = {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}}},
    {.op = &dt_op_maxpool,
     .in = {{2, 14, 14, 67}}, /* "same" of an even size */
     .attr = {.kernel = {3, 3}, .stride = {2, 2}, .pad = {0, 0, 1, 1}}},
    {.op = &dt_op_maxpool, .in = {{3, 8, 6, 128}}, .attr = {.kernel = {2, 2}, .stride = {2, 2}}},
    {.op = &dt_op_maxpool,
     .in = {{2, 9, 7, 5}}, /* pixels that no window holds */
     .attr = {.kernel = {2, 2}, .stride = {3, 3}}},
    {.op = &dt_op_maxpool,
     .in = {{1, 20, 17, 3}}, /* the largest window */
     .attr = {.kernel = {16, 16}, .stride = {1, 1}, .pad = {15, 2, 0, 15}}},
    {.op = &dt_op_globalavgpool, .in = {{3, 7, 5, 131}}},
    {.op = &dt_op_softmax_xent, .in = {{37, 1, 1, 10}}, .logits = true, .logits_out = true},
    {.op = &dt_op_softmax_xent,
     .in = {{5, 1, 1, 101}},
     .logits = true,
     .logits_out = true,
     .label_smoothing = 0.2f},
    {.op = &dt_op_softmax_xent,
     .in = {{37, 1, 1, 10}},
     .logits = true,
     .logits_out = true,
     .label_smoothing = 0.2f,
     .loss_epsilon = 1e-24f},
};

enum { NORMS = DT_COUNT_OF(norms), OTHERS = DT_COUNT_OF(others), LOSSES = 3 };

TEST(operations_match_naive)
{
    for (int type = DT_F32; type <= DT_BF16; type++) {
        oracle_check(norms, NORMS, (dt_dtype)type, DT_TRAIN);
        oracle_check(norms, NORMS, (dt_dtype)type, DT_EVAL); /* running statistics */
        oracle_check(others, OTHERS, (dt_dtype)type, DT_TRAIN);
    }
}

/* ---- The same bits -------------------------------------------------------------- */

static dt_digest digest_all(const test_spec *specs, size_t count, int threads)
{
    dt_hash h;

    dt_hash_init(&h);
    for (size_t i = 0; i < count; i++)
        for (int type = DT_F32; type <= DT_BF16; type++) {
            oracle o;
            test_spec spec = specs[i];
            spec.type = (dt_dtype)type;
            spec.threads = threads;
            oracle_create(&o, &spec);
            test_step *t = &o.t;
            test_step_run(t, DT_FORWARD);
            test_step_run(t, DT_BACKWARD);
            dt_hash_update(&h, t->out,
                           test_count(&t->step.out_shape) * dt_dtype_bytes(t->step.out_type));
            for (int k = 0; k < t->node.n_in; k++)
                dt_hash_update(&h, t->d_in[k],
                               test_count(&spec.in[k]) * dt_dtype_bytes(t->step.grad_type));
            for (size_t k = 0; k < t->net.params; k++)
                dt_hash_update(&h, t->call.d_param[k], t->net.param[k].count * sizeof(float));
            dt_hash_update(&h, t->moments, t->net.norm_channels * sizeof(dt_moment));
            oracle_destroy(&o);
        }
    const dt_digest d = dt_hash_digest(&h);
    return d;
}

static void assert_same_bits(dt_digest a, dt_digest b)
{
    assert_true(a.low == b.low && a.high == b.high);
}

/* ... on this number of threads, and without the losses (the last of the others) on each
 * instruction set: they call the C library's expf and logf, which have versions of their own. */
TEST(threads_and_instruction_sets_change_no_bit)
{
    const dt_isa best = dt_isa_current();

    const dt_digest norm = digest_all(norms, NORMS, 1), other = digest_all(others, OTHERS, 1);
    assert_false(norm.low == other.low);
    for (int threads = 2; threads <= 5; threads++) {
        assert_same_bits(norm, digest_all(norms, NORMS, threads));
        assert_same_bits(other, digest_all(others, OTHERS, threads));
    }
    const dt_digest pure = digest_all(others, OTHERS - LOSSES, 1);
    for (int isa = DT_ISA_PORTABLE; isa <= (int)best; isa++) {
        dt_isa_limit((dt_isa)isa);
        assert_true(isa > DT_ISA_PORTABLE || dt_loops_current() == &dt_loops_portable);
        assert_same_bits(norm, digest_all(norms, NORMS, 1));
        assert_same_bits(pure, digest_all(others, OTHERS - LOSSES, 1));
    }
    dt_isa_limit(best);
}

/* ---- Batch norm ----------------------------------------------------------------- */

/* Means far from 0 (4096 standard deviations), blocks far from each other, an outlier
 * in the rows that the shift is made of: the moments keep their digits. */
TEST(batchnorm_moments_are_accurate)
{
    const test_spec spec = {.op = &dt_op_batchnorm, .in = {{4, 40, 40, 3}}, .attr = {.eps = 1e-5f}};
    oracle o;

    oracle_create(&o, &spec);
    const size_t rows = 4 * 40 * 40;
    for (size_t r = 0; r < rows; r++) {
        float *x = (float *)o.t.in[0] + r * 3;
        x[0] = 4096 + x[0];
        x[1] = r < rows / 2 ? x[1] : 1000 + x[1];
        x[2] = r == 0 ? 1e6f : x[2];
    }
    oracle_copy(&o);
    naive_find(spec.op)->forward(&o.naive);
    test_step_run(&o.t, DT_FORWARD);
    for (int c = 0; c < 3; c++) {
        const dt_moment got = o.t.moments[c], want = o.naive.moments[c];
        assert_true(got.count == (double)rows);
        /* float32 sums of at most 512 terms, two bits lost to the shift: 1e-6 */
        assert_true(fabs(got.mean - want.mean) <= 1e-6 * sqrt(want.m2 / (double)rows));
        assert_true(fabs(got.m2 - want.m2) <= 1e-6 * want.m2);
    }
    oracle_destroy(&o);
}

TEST(batchnorm_of_a_constant_has_no_variance)
{
    const test_spec spec = {.op = &dt_op_batchnorm, .in = {{3, 19, 21, 5}}, .attr = {.eps = 1e-5f}};
    oracle o;

    oracle_create(&o, &spec);
    for (size_t i = 0; i < 3 * 19 * 21 * 5; i++)
        ((float *)o.t.in[0])[i] = 0.1f * (float)(i % 5 + 1);
    test_step_run(&o.t, DT_FORWARD);
    for (int c = 0; c < 5; c++) {
        const double value = (double)(0.1f * (float)(c + 1));
        assert_true(o.t.moments[c].m2 >= 0);
        /* the shift is a rounded mean: off by at most some units of 2^-24 */
        assert_true(o.t.moments[c].m2 <= 1197 * pow(4 * 0x1p-24 * value, 2));
        assert_true(fabs(o.t.moments[c].mean - value) <= 4 * 0x1p-24 * value);
    }
    oracle_destroy(&o);
}

/* A NaN in one channel is a NaN in all of its outputs and gradients, and nowhere else.
 */
TEST(batchnorm_passes_nan)
{
    const test_spec spec = {.op = &dt_op_batchnorm,
                            .in = {{2, 3, 3, 4}, {2, 3, 3, 4}},
                            .attr = {.eps = 1e-5f, .relu = true, .add = true}};
    oracle o;

    oracle_create(&o, &spec);
    ((float *)o.t.in[0])[2 * 4 + 1] = NAN;
    test_step_run(&o.t, DT_FORWARD);
    test_step_run(&o.t, DT_BACKWARD);
    for (size_t i = 0; i < 2 * 3 * 3 * 4; i++) {
        assert_int_equal(isnan(((float *)o.t.out)[i]) != 0, i % 4 == 1);
        assert_int_equal(isnan(((float *)o.t.d_in[0])[i]) != 0, i % 4 == 1);
    }
    assert_true(isnan(o.t.moments[1].mean) && isnan(o.t.call.d_param[0][1]));
    oracle_destroy(&o);
}

/* The data gradient may not be wanted; what is added has one in every network. */
TEST(batchnorm_skips_an_unwanted_gradient)
{
    const test_spec spec = {.op = &dt_op_batchnorm,
                            .in = {{2, 5, 3, 19}, {2, 5, 3, 19}},
                            .attr = {.eps = 1e-5f, .relu = true, .add = true}};
    oracle o;

    oracle_create(&o, &spec);
    oracle_forward(&o);
    oracle_backward(&o);
    float *kept = test_alloc(2 * 5 * 3 * 19 * sizeof *kept);
    memcpy(kept, o.t.d_in[1], 2 * 5 * 3 * 19 * sizeof *kept);
    memset(o.t.d_in[1], 0xff, 2 * 5 * 3 * 19 * sizeof *kept);
    o.t.call.d_in[0] = NULL;
    test_step_run(&o.t, DT_BACKWARD);
    assert_memory_equal(kept, o.t.d_in[1], 2 * 5 * 3 * 19 * sizeof *kept);
    free(kept);
    oracle_destroy(&o);
}

/* ---- Maximum -------------------------------------------------------------------- */

/* Numbers of one channel, window by window: ties take the first, NaN wins, -inf alone is found. */
TEST(corners)
{
    static const struct {
        test_spec spec;
        float x[12], y[7], dx[12]; /* dy is 1 */
    } cases[] = {
        {{.op = &dt_op_maxpool, .in = {{1, 2, 6, 1}}, .attr = {.kernel = {2, 2}, .stride = {2, 2}}},
         {5, 5, 1, NAN, -INFINITY, -INFINITY, 5, 5, 2, 9, -INFINITY, -INFINITY},
         {5, NAN, -INFINITY},
         {1, 0, 0, 1, 1}},
    };

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        oracle o;
        oracle_create(&o, &cases[i].spec);
        const size_t in = test_count(&o.t.step.in_shape[0]), out = test_count(&o.t.step.out_shape);
        memcpy(o.t.in[0], cases[i].x, in * sizeof(float));
        for (size_t k = 0; k < out; k++)
            ((float *)o.t.d_out)[k] = 1;
        test_step_run(&o.t, DT_FORWARD);
        test_step_run(&o.t, DT_BACKWARD);
        for (size_t k = 0; k < out; k++) {
            const float y = ((float *)o.t.out)[k], want = cases[i].y[k];
            assert_true(y == want || (isnan(y) && isnan(want)));
        }
        for (size_t k = 0; k < in; k++)
            assert_true(((float *)o.t.d_in[0])[k] == cases[i].dx[k]);
        oracle_destroy(&o);
    }
}

TEST(maxpool_padding_never_wins)
{
    const test_spec spec = {.op = &dt_op_maxpool,
                            .in = {{1, 3, 3, 2}},
                            .attr = {.kernel = {2, 2}, .stride = {1, 1}, .pad = {1, 1, 1, 1}}};
    oracle o;

    oracle_create(&o, &spec);
    for (int i = 0; i < 18; i++)
        ((float *)o.t.in[0])[i] = -1 - (float)i;
    oracle_copy(&o);
    oracle_forward(&o);
    oracle_backward(&o);
    for (int i = 0; i < 32; i++)
        assert_true(((float *)o.t.out)[i] <= -1);
    for (int i = 0; i < 18; i++) /* nothing is above the start of the search */
        ((float *)o.t.in[0])[i] = -INFINITY;
    oracle_copy(&o);
    test_step_run(&o.t, DT_FORWARD);
    oracle_backward(&o);
    oracle_destroy(&o);
}

TEST(wrong_shapes_are_errors)
{
    const dt_shape image[2] = {{1, 4, 4, 3}, {1, 4, 4, 2}};
    dt_node n = {.op = &dt_op_maxpool,
                 .name = "pool",
                 .attr = {.kernel = {2, 2}, .stride = {2, 2}, .pad = {2, 0, 0, 0}}};
    dt_shape out;

    assert_fails(dt_op_maxpool.infer(&n, image, &out), DT_SHAPE,
                 "padding 2, want less than the kernel");
    n.attr = (dt_attr){.kernel = {5, 1}, .stride = {1, 1}};
    assert_fails(dt_op_maxpool.infer(&n, image, &out), DT_SHAPE,
                 "a 5x1 kernel does not fit into 4x4");
    n.attr = (dt_attr){.kernel = {17, 16}, .stride = {1, 1}};
    assert_fails(dt_op_maxpool.infer(&n, image, &out), DT_SHAPE, "272 positions");
    n.n_in = 2;
    assert_fails(dt_op_batchnorm.infer(&n, image, &out), DT_SHAPE,
                 "[1, 4, 4, 2] and another shape");
}

/* cases.c - gradients. For every operation, central differences of the naive double-precision
 * forward pass check the naive backward pass; then the operation itself is compared with both,
 * in both types. An operation without a case fails. */
#include "oracle.h"

static const test_spec cases[] = {
    {.op = &dt_op_conv2d,
     .in = {{2, 5, 4, 3}},
     .attr = {.out = 5, .kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0, 0, 1}, .bias = true}},
    {.op = &dt_op_conv2d,
     .in = {{2, 3, 3, 4}},
     .attr = {.out = 3, .kernel = {1, 1}, .stride = {1, 1}}},
    {.op = &dt_op_conv2d, /* one that whitens */
     .in = {{2, 4, 4, 3}},
     .attr = {.out = 24, .kernel = {2, 2}, .stride = {1, 1}, .bias = true, .frozen = true}},
    {.op = &dt_op_linear,
     .in = {{3, 1, 1, 7}},
     .attr = {.out = 5, .bias = true},
     .logits_out = true},
    {.op = &dt_op_linear, .in = {{2, 2, 3, 4}}, .attr = {.out = 5}},
    {.op = &dt_op_relu, .in = {{2, 3, 3, 5}}},
    {.op = &dt_op_gelu, .in = {{2, 3, 3, 5}}},
    {.op = &dt_op_batchnorm, .in = {{2, 3, 3, 4}}, .attr = {.eps = 1e-5f}},
    {.op = &dt_op_batchnorm, .in = {{3, 2, 3, 3}}, .attr = {.eps = 0.1f, .relu = true}},
    {.op = &dt_op_batchnorm, .in = {{2, 3, 3, 4}}, .attr = {.eps = 1e-12f, .frozen = true}},
    {.op = &dt_op_batchnorm,
     .in = {{2, 3, 2, 5}, {2, 3, 2, 5}},
     .attr = {.eps = 1e-3f, .relu = true, .add = true}},
    {.op = &dt_op_batchnorm,
     .in = {{2, 3, 2, 5}, {2, 3, 2, 5}},
     .attr = {.eps = 1e-3f, .relu = true, .add = true},
     .second = true},
    {.op = &dt_op_maxpool,
     .in = {{2, 5, 6, 3}},
     .attr = {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0, 0, 1}}},
    {.op = &dt_op_globalavgpool, .in = {{2, 3, 4, 5}}},
    {.op = &dt_op_add, .in = {{2, 3, 3, 5}, {2, 3, 3, 5}}},
    {.op = &dt_op_fork, .in = {{2, 3, 3, 5}}},
    {.op = &dt_op_softmax_xent, .in = {{4, 1, 1, 6}}, .logits = true, .logits_out = true},
    {.op = &dt_op_softmax_xent,
     .in = {{3, 1, 1, 10}},
     .logits = true,
     .logits_out = true,
     .label_smoothing = 0.1f},
    {.op = &dt_op_softmax_xent,
     .in = {{3, 1, 1, 10}},
     .logits = true,
     .logits_out = true,
     .label_smoothing = 0.1f,
     .loss_epsilon = 0.05f},
    {.op = &dt_op_softmax_xent,
     .in = {{3, 1, 1, 10}},
     .logits = true,
     .logits_out = true,
     .label_smoothing = 0.1f,
     .logit_scale = 0.125f},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* The number whose gradient backward computes. */
static double objective(oracle *o)
{
    naive_call *c = &o->naive;
    double sum = 0;

    naive_find(c->s->op)->forward(c);
    for (int64_t i = 0; i < dt_shape_count(&c->s->out_shape); i++)
        sum += c->out[i] * c->d_out[i];
    return sum;
}

/* Steps of 1e-6: the rounding error is about 1e-16 / 1e-6, that of the formula 1e-12
 * times the third derivative, which eps >= 1e-5 keeps below 1e4 here; 1e-7 leaves room.
 * No input lies so close to a kink of ReLU or maximum. */
static void check_differences(oracle *o, const char *what, double *x, const double *dx,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double h = 1e-6, kept = x[i];
        x[i] = kept + h;
        const double above = objective(o);
        x[i] = kept - h;
        const double below = objective(o);
        x[i] = kept;
        const double slope = (above - below) / (2 * h);
        if (!(fabs(slope - dx[i]) <= 1e-7 * (1 + fabs(slope))))
            fail_msg("%s: naive %s[%zu] is %.12g, differences give %.12g", o->t.step.op->name, what,
                     i, dx[i], slope);
    }
}

TEST(naive_backward_matches_differences)
{
    for (int i = 0; i < CASES; i++) {
        oracle o;
        test_spec spec = cases[i];
        spec.type = DT_F32;
        oracle_create(&o, &spec);
        objective(&o);
        naive_find(spec.op)->backward(&o.naive);
        for (int k = 0; k < o.t.node.n_in; k++)
            check_differences(&o, k ? "d_in[1]" : "d_in[0]", o.naive.in[k], o.naive.d_in[k],
                              test_count(&spec.in[k]));
        for (size_t k = 0; k < o.t.net.params; k++)
            check_differences(&o, k ? "d_param[1]" : "d_param[0]", o.naive.param[k],
                              o.naive.d_param[k], o.t.net.param[k].count);
        oracle_destroy(&o);
    }
}

TEST(operations_match_naive_in_float32)
{
    oracle_check(cases, CASES, DT_F32, DT_TRAIN);
}

TEST(operations_match_naive_in_bf16)
{
    test_bf16();
    oracle_check(cases, CASES, DT_BF16, DT_TRAIN);
}

TEST(every_operation_has_a_case)
{
#define X(name) &dt_op_##name,
    static const dt_op *const table[] = {DT_OP_LIST(X)};
#undef X

    for (size_t op = 0; op < DT_COUNT_OF(table); op++) {
        bool found = false;
        for (int i = 0; i < CASES; i++)
            found = found || cases[i].op == table[op];
        if (!found)
            fail_msg("operation '%s' has no case here", table[op]->name);
    }
}

/* The corners of softmax cross-entropy: sums and counts, evaluation, tiny
 * probabilities, the weight of a sample, NaN. Random logits are compared in ref_ops.c.
 */
#include "oracle.h"

static void loss_counts_and_sums(void **state)
{
    /* rows: right; wrong; tie taken by the lowest index, so wrong; hopeless: p = 0 */
    const float z[] = {3, 1, 0, 0, 2, 1, 4, 4, 0, 200, 0, 0};
    const int32_t labels[] = {0, 2, 1, 1};
    const double want[] = {0.16984602, 1.40760596, 0.70226332, 55.26204223};
    const test_spec spec = {.op = &dt_op_softmax_xent,
                            .in = {{4, 1, 1, 3}},
                            .logits = true,
                            .logits_out = true,
                            .label_smoothing = 0.3f,
                            .mode = DT_EVAL};
    oracle o;
    double sum = 0;

    (void)state;
    oracle_create(&o, &spec); /* no smoothing in evaluation */
    memcpy(o.t.in[0], z, sizeof z);
    memcpy(o.t.labels, labels, sizeof labels);
    assert_ok(spec.op->forward(&o.t.call));
    for (int i = 0; i < 4; i++) {
        const float loss = ((float *)o.t.out)[i];
        assert_true(fabs((double)loss - want[i]) <= 1e-6 * want[i]);
        sum += (double)loss;
    }
    assert_true(o.t.result.loss_sum == sum);
    assert_int_equal(o.t.result.correct, 1);
    oracle_destroy(&o);
}

/* Where p underflows, p / (p + eps) is 0 and so is the label's pull: the epsilon is
 * part of the gradient. A fused softmax would give -1 there. */
static void loss_gradient_has_the_epsilon(void **state)
{
    const float z[] = {200, 0, 0};
    const test_spec spec = {.op = &dt_op_softmax_xent,
                            .in = {{1, 1, 1, 3}},
                            .logits = true,
                            .logits_out = true};
    oracle o;

    (void)state;
    oracle_create(&o, &spec);
    memcpy(o.t.in[0], z, sizeof z);
    o.t.labels[0] = 1;
    assert_ok(spec.op->forward(&o.t.call));
    assert_ok(spec.op->backward(&o.t.call));
    for (int i = 0; i < 3; i++)
        assert_true(((float *)o.t.d_in[0])[i] == 0);
    oracle_destroy(&o);
}

static void loss_weighs_by_the_global_batch(void **state)
{
    const test_spec spec = {.op = &dt_op_softmax_xent,
                            .in = {{5, 1, 1, 10}},
                            .logits = true,
                            .logits_out = true};
    oracle o;

    (void)state;
    oracle_create(&o, &spec);
    o.t.call.divisor = 40;
    oracle_copy(&o);
    oracle_forward(&o);
    oracle_backward(&o);
    oracle_destroy(&o);
}

static void loss_of_nan_is_nan(void **state)
{
    const test_spec spec = {.op = &dt_op_softmax_xent,
                            .in = {{3, 1, 1, 10}},
                            .logits = true,
                            .logits_out = true};
    oracle o;

    (void)state;
    for (int at = 10; at < 20; at++) {
        oracle_create(&o, &spec);
        ((float *)o.t.in[0])[at] = NAN;
        assert_ok(spec.op->forward(&o.t.call));
        for (int i = 0; i < 3; i++)
            assert_int_equal(isnan(((float *)o.t.out)[i]) != 0, i == 1);
        assert_true(isnan(o.t.result.loss_sum));
        oracle_destroy(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_counts_and_sums),
        cmocka_unit_test(loss_gradient_has_the_epsilon),
        cmocka_unit_test(loss_weighs_by_the_global_batch),
        cmocka_unit_test(loss_of_nan_is_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ref_loss.c - the corners of softmax cross-entropy in both of its forms: sums and counts,
 * evaluation, losses beyond what log(p + epsilon) can say, infinite logits, the weight of a
 * sample, NaN. Random logits are compared in ref_ops.c. */
#include "oracle.h"

/* PyTorch's, and the Ascend tutorial's. */
static const float forms[] = {0, 1e-24f};
enum { FORMS = 2 };

/* Where p underflows, log-sum-exp still pulls with p - y. In the tutorial's form
 * p / (p + eps) is 0, and so is the label's pull: the epsilon is part of the gradient. */
static const struct {
    float logits[3];
    int32_t label;
    double loss[FORMS];
    float gradient[FORMS][3]; /* NAN: any */
} samples[] = {
    {{3, 1, 0}, 0, {0.16984602, 0.16984602}, {{NAN, NAN, NAN}, {NAN, NAN, NAN}}},
    {{0, 2, 1}, 2, {1.40760596, 1.40760596}, {{NAN, NAN, NAN}, {NAN, NAN, NAN}}}, /* wrong */
    /* a tie, taken by the lowest index: wrong */
    {{4, 4, 0}, 1, {0.70226332, 0.70226332}, {{NAN, NAN, NAN}, {NAN, NAN, NAN}}},
    {{200, 0, 0}, 1, {200, 55.26204223}, {{1, -1, 0}, {0, 0, 0}}}, /* hopeless: p = 0 */
    /* a class that is ruled out costs nothing unless it is the label */
    {{-INFINITY, 1, 1}, 1, {0.69314718, 0.69314718}, {{0, -0.5f, NAN}, {0, -0.5f, NAN}}},
};
enum { SAMPLES = sizeof samples / sizeof *samples, RIGHT = 2 };

TEST(loss_counts_and_sums)
{
    for (int form = 0; form < FORMS; form++) {
        const test_spec spec = {.op = &dt_op_softmax_xent,
                                .in = {{SAMPLES, 1, 1, 3}},
                                .logits = true,
                                .logits_out = true,
                                .label_smoothing = 0.3f, /* not in evaluation */
                                .loss_epsilon = forms[form],
                                .mode = DT_EVAL};
        oracle o;
        double sum = 0;

        oracle_create(&o, &spec);
        for (int i = 0; i < SAMPLES; i++) {
            memcpy((float *)o.t.in[0] + 3 * i, samples[i].logits, sizeof samples[i].logits);
            o.t.labels[i] = samples[i].label;
        }
        o.t.call.divisor = 1;
        test_step_run(&o.t, DT_FORWARD);
        test_step_run(&o.t, DT_BACKWARD);
        for (int i = 0; i < SAMPLES; i++) {
            const double loss = (double)((float *)o.t.out)[i], want = samples[i].loss[form];
            assert_true(fabs(loss - want) <= 1e-6 * want);
            sum += loss;
            for (int k = 0; k < 3; k++)
                assert_true(isnan(samples[i].gradient[form][k]) ||
                            ((float *)o.t.d_in[0])[3 * i + k] == samples[i].gradient[form][k]);
        }
        assert_true(o.t.result.loss_sum == sum);
        assert_int_equal(o.t.result.correct, RIGHT);
        oracle_destroy(&o);
    }
}

/* Random logits of some hundreds, hard and smoothed labels. */
TEST(loss_of_large_logits)
{
    for (int k = 0; k < 3 * FORMS; k++) {
        const test_spec spec = {.op = &dt_op_softmax_xent,
                                .in = {{64, 1, 1, 10}},
                                .logits = true,
                                .logits_out = true,
                                .loss_epsilon = forms[k % FORMS],
                                .label_smoothing = k / FORMS ? 0.1f : 0,
                                .logit_scale = k / FORMS == 2 ? 0.5f : 0};
        oracle o;
        int beyond = 0;

        oracle_create(&o, &spec);
        for (int i = 0; i < 640; i++)
            ((float *)o.t.in[0])[i] *= 300;
        oracle_copy(&o);
        oracle_forward(&o);
        oracle_backward(&o);
        for (int i = 0; i < 64; i++)
            beyond += ((float *)o.t.out)[i] > 60;
        assert_int_equal(beyond > 24, spec.loss_epsilon == 0);
        oracle_destroy(&o);
    }
}

TEST(loss_weighs_by_the_global_batch)
{
    const test_spec spec = {
        .op = &dt_op_softmax_xent, .in = {{5, 1, 1, 10}}, .logits = true, .logits_out = true};
    oracle o;

    oracle_create(&o, &spec);
    o.t.call.divisor = 40;
    oracle_copy(&o);
    oracle_forward(&o);
    oracle_backward(&o);
    oracle_destroy(&o);
}

TEST(loss_of_nan_is_nan)
{
    const test_spec spec = {
        .op = &dt_op_softmax_xent, .in = {{3, 1, 1, 10}}, .logits = true, .logits_out = true};
    oracle o;

    for (int at = 10; at < 20; at++) {
        oracle_create(&o, &spec);
        ((float *)o.t.in[0])[at] = NAN;
        test_step_run(&o.t, DT_FORWARD);
        for (int i = 0; i < 3; i++)
            assert_int_equal(isnan(((float *)o.t.out)[i]) != 0, i == 1);
        assert_true(isnan(o.t.result.loss_sum));
        oracle_destroy(&o);
    }
}

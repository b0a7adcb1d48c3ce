/* train_evaluate.c - the test pass against an oracle: where the last layer is a bias alone, an
 * image costs log(sum(exp(bias))) - bias[label], whatever it shows. */
#include "ranks.h"

#include <math.h>

#include "train/run.h"

/* The last bias is that of the classes; all other parameters are zero. */
static void set_weights(dt_run *r, const float *bias)
{
    const dt_param *p = dt_net_param(r->net, dt_net_param_count(r->net) - 1);
    float *master = r->master.mem;

    assert_int_equal(p->count, 10);
    if (r->writes) {
        memset(master, 0, r->master.bytes);
        for (size_t k = 0; k < p->count; k++)
            master[p->offset + k] = bias[k];
    }
    assert_ok(dt_run_broadcast(r));
}

/* Test images in chunks, the last of them with what is left: the mean is that of the images. */
static void means_are_over_images(void **state)
{
    static const char *const data[] = {"synthetic:1024", "synthetic:1100", "synthetic:3332"};
    float bias[10];

    (void)state;
    for (int k = 0; k < 10; k++)
        bias[k] = (float)((7 * k) % 10) / 4;
    for (size_t d = 0; d < sizeof data / sizeof *data; d++) {
        double all = 0, loss = 0;
        int64_t correct = 0;
        dt_test_result test;
        dt_options o;
        dt_run r;

        dt_options_init(&o);
        o.data = data[d];
        o.net = "vgg11";
        o.width_divisor = 32;
        o.shards = 8;
        o.batch = 4;
        o.precision = "fp32";
        o.threads = 1;
        assert_ok(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
        set_weights(&r, bias);
        for (int k = 0; k < 10; k++)
            all += exp((double)bias[k]);
        const int64_t images = dt_source_describe(r.source)->test;
        for (int64_t i = 0; i < images; i++) {
            int32_t label = 0;
            dt_source_image(r.source, true, i, &label);
            loss += log(all) - (double)bias[label];
            correct += label == 7; /* 7 x 7 = 49: the largest */
        }
        assert_ok(dt_run_test(&r, &test));
        print_message("%lld images in chunks of %lld\n", (long long)images,
                      (long long)r.test_chunk);
        assert_int_equal(test.images, images);
        assert_int_equal(test.correct, correct);
        assert_true(fabs(test.accuracy - (double)correct / (double)images) < 1e-15);
        assert_true(fabs(test.loss - loss / (double)images) < 1e-6);
        dt_run_close(&r);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(means_are_over_images)};

    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

/* costs_share.c - how threads share a step: added up from the lists that kernels give of their
 * units, for a rank on one, some and many threads. */
#include "costs/costs.h"
#include "model/kernels/tiles/tiles.h"
#include "net.h"

static test_plan make(const char *net, int image_size, int64_t batch, int threads)
{
    const dt_net_spec spec = {.net = net,
                              .variant = "mindspore",
                              .stem = "imagenet",
                              .image_size = image_size,
                              .classes = 10,
                              .width_divisor = 1};
    const dt_model_opts opts = {.precision = DT_BF16, .threads = threads};

    return test_plan_create(&spec, &opts, batch, DT_TRAIN);
}

/* The pass of a convolution: one thread's time, and that of the unit that takes longest. */
static void add_units(const dt_plan *p, int i, dt_pass pass, int threads, double time[2])
{
    const dt_tiles *t = p->step[i].tiles[pass];
    double longest = 0, sum = 0;

    assert_in_range(t->units, 1, threads);
    for (int k = 0; k < t->units; k++) {
        const dt_unit unit = dt_tiles_unit(t, k);
        assert_true(unit.seconds >= 0 && unit.bytes >= 0);
        longest = unit.seconds > longest ? unit.seconds : longest;
        sum += unit.seconds;
    }
    assert_true(sum >= 0.9 * t->alone.seconds); /* nothing is left out */
    time[0] += t->alone.seconds;
    time[1] += longest;
}

static double balance(const char *net, int image_size, int64_t batch, int threads)
{
    test_plan m = make(net, image_size, batch, threads);
    const dt_plan *p = m.plan;
    double time[2] = {0}, told[2] = {0};

    for (int i = 0; i < p->steps; i++)
        for (int pass = 0; pass < DT_PASS_COUNT; pass++) {
            const dt_share share = dt_plan_share(p, (size_t)i, (dt_pass)pass);
            told[0] += share.alone_s;
            told[1] += share.longest_s;
            const bool feeds = p->step[i].feeds[pass] >= 0;
            if (share.units > 0 && p->step[i].op->weights && !feeds)
                add_units(p, i, (dt_pass)pass, threads, time);
            else
                time[0] += share.alone_s, time[1] += share.longest_s;
        }
    for (int k = 0; k < 2; k++)
        assert_true(told[k] > 0.999999 * time[k] && told[k] < 1.000001 * time[k]);
    test_plan_close(&m);
    return time[0] / (threads * time[1]);
}

TEST(all_threads_are_busy)
{
    static const struct {
        const char *net;
        int image_size, batch, threads;
        double least;
    } wanted[] = {
        {"resnet50", 224, 32, 2, 0.99}, {"resnet50", 224, 32, 8, 0.95},
        {"resnet50", 224, 32, 32, 0.9}, {"resnet50", 224, 32, 64, 0.8},
        {"vgg11", 32, 128, 8, 0.9},     {"vgg11", 32, 128, 32, 0.8},
        {"resnet50", 32, 128, 8, 0.85},
    };

    for (size_t i = 0; i < DT_COUNT_OF(wanted); i++) {
        const double got =
            balance(wanted[i].net, wanted[i].image_size, wanted[i].batch, wanted[i].threads);
        if (got < wanted[i].least || got > 1.001)
            fail_msg("%s, %d threads: %.3f, want %.2f", wanted[i].net, wanted[i].threads, got,
                     wanted[i].least);
    }
}

TEST(loops_are_counted)
{
    const dt_share whole = dt_share_loop(100, 1, 1, 8), few = dt_share_loop(100, 40, 1, 8);
    const dt_share one = dt_share_loop(100, 0, 1, 8);

    assert_int_equal(whole.units, 8);
    assert_true(whole.longest_s == 0.13 && whole.alone_s == 1);
    assert_int_equal(few.units, 3);
    assert_true(few.longest_s == 0.34);
    assert_int_equal(one.units, 1);
    assert_true(one.longest_s == 1);
}

int main(void)
{
#if defined(__x86_64__)
    dt_tile_use(&dt_tile_backend_dot); /* nothing is run: any CPU will do */
#else
    dt_tile_use(&dt_tile_backend_plain);
#endif
    return tests_run(NULL, NULL);
}

/* train_schedule.c - learning rates against torch.optim.lr_scheduler, PyTorch 2.13.0. Each list
 * was printed by
 *
 *     p = torch.nn.Parameter(torch.zeros(1))
 *     o = torch.optim.SGD([p], lr=LR); s = MAKE(o)
 *     for i in range(STEPS): print(repr(o.param_groups[0]['lr'])); o.step(); s.step()
 *
 * with the MAKE that stands above it. PyTorch multiplies rates on from step to step, so
 * its last digits carry a dozen roundings: 1e-12 of the highest rate leaves room for
 * them. */
#include "test.h"

#include <math.h>

#include "train/schedule.h"

static dt_options options(const char *schedule, double lr)
{
    dt_options o;
    dt_options_init(&o);
    o.schedule = schedule;
    o.lr = lr;
    return o;
}

/* want: as many numbers as the run has steps. */
static void assert_rates(const dt_options *o, int64_t steps_per_epoch, const char *want,
                         int64_t steps, double highest)
{
    dt_schedule s;

    assert_ok(dt_schedule_open(&s, o, steps_per_epoch, steps, 256));
    for (int64_t i = 0; i < steps; i++) {
        char *end = NULL;
        const double lr = dt_schedule_lr(&s, i), rate = strtod(want, &end);
        assert_true(end > want);
        want = end;
        if (!(fabs(lr - rate) <= 1e-12 * highest))
            fail_msg("%s step %d: %.17g, want %.17g", o->schedule, (int)i, lr, rate);
    }
}

static void constant_is_the_rate_as_given(void **state)
{
    (void)state;
    const dt_options o = options("constant", 0.01);
    dt_schedule s;
    assert_ok(dt_schedule_open(&s, &o, 195, 1950, 256));
    assert_true(s.lr == 0.01);
    assert_true(dt_schedule_lr(&s, 0) == 0.01);
    assert_true(dt_schedule_lr(&s, 1949) == 0.01);
}

/* MultiStepLR(o, milestones=[5, 8], gamma=0.1), LR 0.2 */
static void step_is_multistep(void **state)
{
    (void)state;
    static const char want[] = "0.2 0.2 0.2 0.2 0.2 0.020000000000000004 0.020000000000000004 "
                               "0.020000000000000004 0.0020000000000000005 0.0020000000000000005 ";
    dt_options o = options("step", 0.2);
    o.milestones = "0.5,0.8";
    assert_rates(&o, 5, want, 10, 0.2);
    o.milestones = "0.8,0.5"; /* the order of the list means nothing */
    assert_rates(&o, 5, want, 10, 0.2);
    o.milestones = "0.45,0.76"; /* the nearest steps: 4.5 and 7.6 of 10 are 5 and 8 */
    assert_rates(&o, 5, want, 10, 0.2);
    o.milestones = "0.54,0.84"; /* 5.4 and 8.4 */
    assert_rates(&o, 5, want, 10, 0.2);
}

/* CosineAnnealingLR(o, T_max=10), LR 0.3 */
static void cosine_is_cosine_annealing(void **state)
{
    (void)state;
    static const char want[] = "0.3 0.29265847744427304 0.2713525491562421 0.23816778784387094 "
                               "0.1963525491562421 0.15 0.1036474508437579 0.06183221215612905 "
                               "0.028647450843757902 0.007341522555726971 ";
    const dt_options o = options("cosine", 0.3);
    assert_rates(&o, 5, want, 10, 0.3);
}

static void onecycle_is_one_cycle(void **state)
{
    (void)state;
    /* OneCycleLR(o, max_lr=0.1, total_steps=12, pct_start=0.3) */
    static const char third[] =
        "0.0040000000000000036 0.0349789654219583 0.08792851591221287 "
        "0.09944154354509119 0.09330129698414118 0.0811745653949763 0.06473789976951033 "
        "0.046263710266697504 0.028306099820869922 0.01334775301888306 "
        "0.0034566987425395223 4e-07 ";
    /* OneCycleLR(o, max_lr=0.4, total_steps=7, pct_start=0.2) */
    static const char fifth[] =
        "0.016000000000000014 0.38877671095500926 0.3246982615799052 0.22239360564908073 "
        "0.11322439928347969 0.030656637533702562 1.6e-06 ";
    /* OneCycleLR(o, max_lr=0.1, total_steps=6, pct_start=1.0) */
    static const char rising[] = "0.0040000000000000036 0.013167184270002533 0.037167184270002526 "
                                 "0.06683281572999747 0.09083281572999748 0.1 ";
    dt_options o = options("onecycle", 0.1);
    o.peak = 0.3;
    assert_rates(&o, 6, third, 12, 0.1);
    o.peak = 1;
    assert_rates(&o, 6, rising, 6, 0.1);
    o.peak = 0.2;
    o.lr = 0.4;
    assert_rates(&o, 7, fifth, 7, 0.4);
}

/* Where PyTorch divides by zero (a peak on the first step) the rate is the highest; and
 * no combination gives a rate that is not a number. */
static void short_runs_have_rates(void **state)
{
    (void)state;
    dt_schedule s;
    dt_options o = options("onecycle", 0.1);

    o.peak = 0.2;
    assert_ok(dt_schedule_open(&s, &o, 5, 5, 256));
    assert_true(fabs(dt_schedule_lr(&s, 0) - 0.1) <= 1e-12);
    for (int64_t total = 0; total <= 6; total++)
        for (int peak = 0; peak <= 4; peak++)
            for (int warmup = 0; warmup <= 3; warmup++)
                for (int row = 0; row < 4; row++) {
                    static const char *const names[] = {"constant", "step", "cosine", "onecycle"};
                    o.schedule = names[row];
                    o.peak = 0.25 * peak;
                    o.warmup = warmup;
                    assert_ok(dt_schedule_open(&s, &o, 2, total, 256));
                    for (int64_t step = 0; step <= total; step++) {
                        const double lr = dt_schedule_lr(&s, step);
                        assert_true(lr >= 0 && lr <= 0.1 * (1 + 1e-12));
                    }
                }
}

/* SequentialLR(o, [LinearLR(o, start_factor=1/4, total_iters=3),
 *                  CosineAnnealingLR(o, T_max=6)], milestones=[4]), LR 0.3 */
static void warmup_is_linear_and_comes_before(void **state)
{
    (void)state;
    static const char want[] =
        "0.075 0.15 0.22499999999999998 0.29999999999999993 0.3 0.27990381056766583 "
        "0.22500000000000003 0.15000000000000002 0.07500000000000004 "
        "0.020096189432334197 ";
    dt_options o = options("cosine", 0.3);
    o.warmup = 2; /* epochs of 2 steps */
    assert_rates(&o, 2, want, 10, 0.3);
    o.warmup = 0.75; /* of 5 steps: 3.75, so 4 again */
    assert_rates(&o, 5, want, 10, 0.3);
}

/* one-cycle begins low of itself: the warm-up climbs to that, not to the peak */
static void warmup_climbs_to_the_first_rate(void **state)
{
    (void)state;
    dt_options o = options("onecycle", 0.1);
    dt_schedule s;
    o.warmup = 1;
    assert_ok(dt_schedule_open(&s, &o, 4, 40, 256));
    for (int64_t i = 0; i < 4; i++)
        assert_true(fabs(dt_schedule_lr(&s, i) - 0.004 * (double)(i + 1) / 4) <= 1e-15);
    assert_true(fabs(dt_schedule_lr(&s, 4) - 0.004) <= 1e-15);
    assert_true(dt_schedule_lr(&s, 5) > 0.004);
}

static void scale_multiplies_the_rate(void **state)
{
    (void)state;
    dt_options o = options("constant", 0.1);
    dt_schedule s;
    o.lr_batch = 256;
    assert_ok(dt_schedule_open(&s, &o, 10, 10, 1024));
    assert_true(s.lr == 0.1); /* none: as given, whatever the batch */
    o.lr_scale = "linear";
    assert_ok(dt_schedule_open(&s, &o, 10, 10, 1024));
    assert_true(s.lr == 0.4);
    o.lr_scale = "sqrt";
    assert_ok(dt_schedule_open(&s, &o, 10, 10, 1024));
    assert_true(s.lr == 0.2);
    assert_true(dt_schedule_lr(&s, 3) == 0.2);
}

static void bad_milestones_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"0.5,x", "0.5,", ",0.5", "0.5 0.7", "1.5", "-0.1", "nan"};
    dt_options o = options("step", 0.1);
    dt_schedule s;
    char many[400] = "0.5";

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.milestones = bad[i];
        assert_fails(dt_schedule_open(&s, &o, 10, 10, 256), DT_CONFIG, bad[i]);
    }
    for (int i = 0; i < DT_MAX_MILESTONES; i++)
        strncat(many, ",0.5", sizeof many - strlen(many) - 1);
    o.milestones = many;
    assert_fails(dt_schedule_open(&s, &o, 10, 10, 256), DT_CONFIG, "at most 32");
    o.milestones = "";
    assert_ok(dt_schedule_open(&s, &o, 10, 10, 256));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_is_the_rate_as_given),
        cmocka_unit_test(step_is_multistep),
        cmocka_unit_test(cosine_is_cosine_annealing),
        cmocka_unit_test(onecycle_is_one_cycle),
        cmocka_unit_test(short_runs_have_rates),
        cmocka_unit_test(warmup_is_linear_and_comes_before),
        cmocka_unit_test(warmup_climbs_to_the_first_rate),
        cmocka_unit_test(scale_multiplies_the_rate),
        cmocka_unit_test(bad_milestones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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

#include "train/schedule.h"

static dt_options options(const char *schedule, double lr)
{
    dt_options o;
    dt_options_init(&o);
    o.schedule = schedule;
    o.lr = lr;
    return o;
}

/* MultiStepLR(o, milestones=[5, 8], gamma=0.1), LR 0.2 */
static const char multistep[] = "0.2 0.2 0.2 0.2 0.2 0.020000000000000004 0.020000000000000004 "
                                "0.020000000000000004 0.0020000000000000005 0.0020000000000000005 ";
/* CosineAnnealingLR(o, T_max=10), LR 0.3 */
static const char annealing[] = "0.3 0.29265847744427304 0.2713525491562421 0.23816778784387094 "
                                "0.1963525491562421 0.15 0.1036474508437579 0.06183221215612905 "
                                "0.028647450843757902 0.007341522555726971 ";
/* SequentialLR(o, [LinearLR(o, start_factor=1/4, total_iters=3),
 *                  CosineAnnealingLR(o, T_max=6)], milestones=[4]), LR 0.3 */
static const char warm[] =
    "0.075 0.15 0.22499999999999998 0.29999999999999993 0.3 0.27990381056766583 "
    "0.22500000000000003 0.15000000000000002 0.07500000000000004 0.020096189432334197 ";
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

/* ExponentialLR(o, gamma=1e4 ** (1 / 5)), LR 0.001; the highest rate is 10 */
static const char growing[] = "0.001 0.006309573444801934 0.03981071705534974 0.2511886431509581 "
                              "1.5848931924611145 10.000000000000007 ";

/* LambdaLR(o, rate) with rate(i) 0.2 + 0.8 i / 2 up to step 2 = int(0.23 * 10), from there
 * 1 - 0.93 (i - 2) / 8; LR 1.5 */
static const char triangle[] = "0.30000000000000004 0.9 1.5 1.3256249999999998 1.15125 0.976875 "
                               "0.8025 0.6281249999999999 0.4537500000000001 0.27937500000000004 ";

/* want: the rates of all steps, or of the first five. */
TEST(rates_are_those_of_torch)
{
    static const struct {
        const char *schedule;
        double lr, peak;
        const char *milestones;
        double warmup; /* epochs */
        int64_t epoch, steps;
        const char *want;
    } cases[] = {
        {"constant", 0.01, 0.3, "", 0, 3, 6, "0.01 0.01 0.01 0.01 0.01 0.01 "},
        {"step", 0.2, 0.3, "0.5,0.8", 0, 5, 10, multistep},
        {"step", 0.2, 0.3, "0.8,0.5", 0, 5, 10, multistep},   /* the order means nothing */
        {"step", 0.2, 0.3, "0.45,0.76", 0, 5, 10, multistep}, /* the nearest steps: 4.5, 7.6 */
        {"step", 0.2, 0.3, "0.54,0.84", 0, 5, 10, multistep}, /* 5.4 and 8.4 */
        {"cosine", 0.3, 0.3, "", 0, 5, 10, annealing},
        {"cosine", 0.3, 0.3, "", 2, 2, 10, warm},
        {"cosine", 0.3, 0.3, "", 0.75, 5, 10, warm}, /* 3.75 steps, so 4 again */
        {"onecycle", 0.1, 0.3, "", 0, 6, 12, third},
        {"onecycle", 0.4, 0.2, "", 0, 7, 7, fifth},
        {"onecycle", 0.1, 1, "", 0, 6, 6, rising},
        {"exponential", 0.001, 0.3, "", 0, 3, 6, growing}, /* to --lr-to, by default 10 */
        {"triangle", 1.5, 0.23, "", 0, 5, 10, triangle},
        /* the warm-up climbs to the schedule's first rate, not to its peak */
        {"onecycle", 0.1, 0.3, "", 1, 4, 40, "0.001 0.002 0.003 0.004 0.004"},
    };

    for (size_t k = 0; k < DT_COUNT_OF(cases); k++) {
        dt_options o = options(cases[k].schedule, cases[k].lr);
        const char *want = cases[k].want;
        dt_schedule s;
        o.peak = cases[k].peak;
        o.milestones = cases[k].milestones;
        o.warmup = cases[k].warmup;
        dt_schedule_open(&s, &o, cases[k].epoch, cases[k].steps);
        int64_t i = 0;
        for (char *end = NULL;; want = end, i++) {
            const double rate = strtod(want, &end), lr = dt_schedule_lr(&s, i);
            if (end == want)
                break;
            if (!(fabs(lr - rate) <= 1e-12 * DT_MAX(o.lr, rate)))
                fail_msg("case %zu step %d: %.17g, want %.17g", k, (int)i, lr, rate);
        }
        assert_true(i == (cases[k].steps > 12 ? 5 : cases[k].steps));
    }
}

/* Where PyTorch divides by zero (a peak on the first step) the rate is the highest; and
 * no combination gives a rate that is not a number. */
TEST(short_runs_have_rates)
{
    dt_schedule s;
    dt_options o = options("onecycle", 0.1);

    o.peak = 0.2;
    o.lr_to = 0.1;
    dt_schedule_open(&s, &o, 5, 5);
    assert_true(fabs(dt_schedule_lr(&s, 0) - 0.1) <= 1e-12);
    for (int64_t total = 0; total <= 6; total++)
        for (int peak = 0; peak <= 4; peak++)
            for (int warmup = 0; warmup <= 3; warmup++)
                for (int row = 0; row < 6; row++) {
                    static const char *const names[] = {"constant", "step",     "cosine",
                                                        "onecycle", "triangle", "exponential"};
                    o.schedule = names[row];
                    o.peak = 0.25 * peak;
                    o.warmup = warmup;
                    dt_schedule_open(&s, &o, 2, total);
                    for (int64_t step = 0; step <= total; step++) {
                        const double lr = dt_schedule_lr(&s, step);
                        assert_true(lr >= 0 && lr <= 0.1 * (1 + 1e-12));
                    }
                }
}

/* --schedule-steps may be fewer than the run's: it keeps the schedule's last rate. */
TEST(longer_runs_keep_the_last_rate)
{
    enum { TOTAL = 40 };
    static const char *const names[] = {"constant", "step", "cosine", "onecycle", "exponential"};

    for (size_t row = 0; row < DT_COUNT_OF(names); row++)
        for (int warmup = 0; warmup <= 3; warmup++) {
            dt_options o = options(names[row], 0.1);
            dt_schedule s;
            o.warmup = warmup;
            dt_schedule_open(&s, &o, 10, TOTAL);
            const double last = dt_schedule_lr(&s, TOTAL - 1);
            for (int64_t step = TOTAL; step <= 2 * TOTAL; step++)
                assert_true(dt_schedule_lr(&s, step) == last);
        }
}

TEST(scale_multiplies_the_rate)
{
    static const struct {
        const char *scale;
        double lr; /* of a batch of 1024 */
    } cases[] = {{"none", 0.1},       {"linear", 0.4},    {"linear:256", 0.4},
                 {"linear:512", 0.2}, {"sqrt:1024", 0.1}, {"sqrt", 0.2}};

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        dt_options o = options("constant", 0.1);
        dt_schedule s;
        o.lr_scale = cases[i].scale;
        o.global_batch = 1024;
        dt_schedule_open(&s, &o, 10, 10);
        assert_true(s.lr == cases[i].lr && dt_schedule_lr(&s, 3) == cases[i].lr);
    }
}

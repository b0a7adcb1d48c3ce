/* dry_run.c - a run that begins, looks how long it would take, and leaves nothing behind. */
#include "tools.h"
#include "train/run.h"

/* Two steps and a round of the test, and on rank 0 an estimate of the whole. */
static dt_status dry_run(dt_run *r)
{
    const int64_t epochs = (r->total_steps + r->steps_per_epoch - 1) / r->steps_per_epoch;
    const int64_t round = r->test_chunk * r->comm->world;
    const int64_t rounds = (dt_source_describe(r->source)->test + round - 1) / round;
    dt_step_result step;
    dt_test_result test;

    if (r->comm->rank == 0)
        dt_banner_print(stdout, r, "nothing (--dry-run)");
    DT_TRY(dt_run_init(r));
    DT_TRY(dt_run_step(r, 0, 0, false, &step)); /* it also touches memory for the first time */
    double began = dt_seconds();
    DT_TRY(dt_run_step(r, 0, r->steps_per_epoch > 1 ? 1 : 0, false, &step));
    const double step_s = dt_seconds() - began;
    began = dt_seconds();
    DT_TRY(dt_run_test(r, NULL, &test)); /* of --dry-run its first round */
    const double test_s = (dt_seconds() - began) * (double)rounds;
    const double all = step_s * (double)r->total_steps + test_s * (double)epochs;
    const double unit_s = all < 120 ? 1 : all < 7200 ? 60 : 3600;
    const char *unit = all < 120 ? "s" : all < 7200 ? "min" : "h";
    if (r->comm->rank == 0)
        printf("dry run    a step takes %.3g s (%.1f images/s), a test %.3g s; %lld steps and %lld "
               "tests about %.1f %s\n",
               step_s, (double)r->o.global_batch / step_s, test_s, (long long)r->total_steps,
               (long long)epochs, all / unit_s, unit);
    return DT_OK;
}

void dt_dry_runs(void)
{
    static const dt_run_observer carries_out = {.options = " dry_run"};

    dt_dry_run = dry_run;
    dt_observer_add(&carries_out);
}

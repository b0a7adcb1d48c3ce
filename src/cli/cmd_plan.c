/* cmd_plan.c - dtrain plan: what the compiler of plans decided, step by step. */
#include "cli.h"

static void plan_steps(const dt_plan *plan)
{
    printf("%4s  %-18s %-22s %-26s %12s %12s %12s %12s  %s\n", "step", "operation", "name",
           "output", "bytes", "offset", "saved", "scratch", "kernels");
    for (size_t i = 0; i < dt_plan_row_count(plan); i++) {
        dt_plan_row r;
        dt_plan_row_get(plan, i, &r);
        printf("%4zu  %-18s %-22s %-26s %12zu %12zu %12zu %12zu  %s\n", i, r.op, r.name,
               r.out_shape, r.out_bytes, r.out_offset, r.saved_bytes, r.scratch_bytes, r.kernels);
    }
}

static void plan_totals(const dt_preview *s)
{
    const size_t slab = 4 * dt_net_slab_floats(s->net);
    const struct {
        const char *name;
        size_t bytes;
    } totals[] = {
        {"activations and their gradients (arena)", dt_plan_arena_bytes(s->plan)},
        {"scratch", dt_plan_scratch_bytes(s->plan)},
        {"master weights (float32)", slab},
        {"gradients (float32)", slab},
        {"momentum (float32)", slab},
        {"compute weights (packed)", dt_model_packed_bytes(s->model)},
        {"running mean and variance (float32)", 8 * dt_net_norm_channels(s->net)},
    };
    char digest[DT_DIGEST_CHARS];
    size_t sum = 0;

    putchar('\n');
    for (size_t i = 0; i < DT_COUNT_OF(totals); i++) {
        printf("%-42s %14zu bytes %10.1f MiB\n", totals[i].name, totals[i].bytes,
               (double)totals[i].bytes / (1 << 20));
        sum += totals[i].bytes;
    }
    printf("%-42s %14zu bytes %10.1f MiB\n", "one rank, without exchange and data", sum,
           (double)sum / (1 << 20));
    dt_digest_text(dt_plan_digest(s->plan), digest);
    printf("%-42s %s\n", "digest", digest);
}

static void plan_show(const dt_preview *s)
{
    plan_steps(s->plan);
    plan_totals(s);
}

static dt_status plan_run(dt_comm *c, const dt_settings *s)
{
    return dt_preview_show(c, &s->options, plan_show);
}

const dt_command dt_command_plan = {.name = "plan", .run = plan_run, .computes = true};

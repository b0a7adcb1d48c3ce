/* cmd_summary.c - dtrain summary: layers of the network and their sums, as torchinfo shows them. */
#include "cli.h"
#include <stdlib.h>

enum { SUMMARY_NAME = 48, SUMMARY_SHAPE = 30, SUMMARY_NUMBER = 16 };
enum { SUMMARY_WIDTH = SUMMARY_NAME + SUMMARY_SHAPE + 2 * SUMMARY_NUMBER };

static void summary_rule(char c)
{
    for (int i = 0; i < SUMMARY_WIDTH; i++)
        putchar(c);
    putchar('\n');
}

/* 1234567 as "1,234,567"; "--" for 0, as torchinfo has it. */
static const char *summary_number(int64_t n, char buf[32])
{
    char digits[24];
    size_t out = 0;
    const int count = snprintf(digits, sizeof digits, "%lld", (long long)n);

    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            buf[out++] = ',';
        buf[out++] = digits[i];
    }
    buf[out] = '\0';
    return n ? buf : "--";
}

/* One row a layer, by its name in model.safetensors; returns the work of all steps. */
static int64_t summary_rows(const dt_plan *plan)
{
    int64_t macs = 0;

    for (size_t i = 0; i < dt_plan_row_count(plan); i++) {
        dt_plan_row row;
        char label[160], a[32], b[32];

        dt_plan_row_get(plan, i, &row);
        macs += row.macs;
        if (!row.name[0]) /* the plan's own step, no layer of the network */
            continue;
        snprintf(label, sizeof label, "%s (%s)", row.name, row.op);
        printf("%-*s%-*s%*s%*s\n", SUMMARY_NAME, label, SUMMARY_SHAPE, row.out_shape,
               SUMMARY_NUMBER, summary_number((int64_t)row.params, a), SUMMARY_NUMBER,
               summary_number(row.macs, b));
    }
    return macs;
}

static void summary_show(const dt_preview *shown)
{
    const dt_net_spec *spec = dt_net_spec_of(shown->net);
    const int64_t batch = dt_plan_batch(shown->plan);
    const size_t params = dt_net_weight_total(shown->net);
    char number[32];

    summary_rule('=');
    printf("%-*s%-*s%*s%*s\n", SUMMARY_NAME, "Layer (operation)", SUMMARY_SHAPE, "Output Shape",
           SUMMARY_NUMBER, "Param #", SUMMARY_NUMBER, "Mult-Adds");
    summary_rule('=');
    const int64_t macs = summary_rows(shown->plan);
    summary_rule('=');
    printf("Network: %s%s%s%s%s, %dx%d images, batch %lld\n", spec->net,
           spec->variant[0] ? ", variant " : "", spec->variant, spec->stem[0] ? ", stem " : "",
           spec->stem, spec->image_size, spec->image_size, (long long)batch);
    printf("Total params: %s\n", summary_number((int64_t)params, number));
    printf("Trainable params: %s\n", summary_number((int64_t)params, number));
    puts("Non-trainable params: 0");
    printf("Total mult-adds (G): %.2f\n", (double)macs / 1e9);
    printf("GFLOP per image: %.3f (forward; training takes about 3 times that)\n",
           2.0 * (double)macs / (double)batch / 1e9);
    summary_rule('=');
    printf("Input size (MB): %.2f\n",
           (double)(batch * spec->image_size * spec->image_size) * 3 * 4 / 1e6);
    printf("Activations and their gradients (MB): %.2f\n",
           (double)dt_plan_arena_bytes(shown->plan) / 1e6);
    printf("Params size (MB): %.2f\n", (double)params * 4 / 1e6);
    summary_rule('=');
}

static dt_status summary_run(dt_comm *c, const dt_settings *s)
{
    return dt_preview_show(c, &s->options, summary_show);
}

const dt_command dt_command_summary = {.name = "summary", .run = summary_run};

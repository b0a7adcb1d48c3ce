/* cmd_summary.c - dtrain summary: the network as a tree, as torchinfo shows it. */
#include "cli.h"
#include <stdlib.h>

enum { SUMMARY_NAME = 40, SUMMARY_SHAPE = 30, SUMMARY_NUMBER = 16 };
enum { SUMMARY_WIDTH = SUMMARY_NAME + SUMMARY_SHAPE + 2 * SUMMARY_NUMBER };

typedef struct summary {
    const dt_plan *plan;
    size_t rows;
    int64_t macs; /* all rows */
} summary;

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

static void summary_line(int depth, const char *name, const char *shape, int64_t params,
                         int64_t macs)
{
    const int indent = 2 * depth, room = SUMMARY_NAME - indent;
    char a[32], b[32];

    printf("%*s%-*.*s%-*s%*s%*s\n", indent, "", room, room - 1, name, SUMMARY_SHAPE, shape,
           SUMMARY_NUMBER, summary_number(params, a), SUMMARY_NUMBER, summary_number(macs, b));
}

/* Bytes of `name` up to the end of its first `parts` dotted parts; 0 when it has not
 * more parts than that, so that a name is not its own branch. */
static size_t summary_prefix(const char *name, int parts)
{
    const char *end = name;
    for (; parts > 0; parts--, end++) {
        end = strchr(end, '.');
        if (!end)
            return 0;
    }
    return (size_t)(end - name) - 1;
}

static bool summary_inside(const char *name, const char *branch, size_t length)
{
    return strncmp(name, branch, length) == 0 && name[length] == '.';
}

/* The heading of the branch that starts at row `first`: the sums over all its rows, and
 * the shape that the last one leaves. */
static void summary_branch(const summary *s, size_t first, int depth, size_t length)
{
    dt_plan_row head, row;
    int64_t params = 0, macs = 0;
    char shape[sizeof row.out_shape], name[64];

    dt_plan_row_get(s->plan, first, &head);
    memcpy(shape, head.out_shape, sizeof shape);
    for (size_t i = first; i < s->rows; i++) {
        dt_plan_row_get(s->plan, i, &row);
        if (row.name[0] && !summary_inside(row.name, head.name, length))
            break;
        params += (int64_t)row.params;
        macs += row.macs;
        memcpy(shape, row.out_shape, sizeof shape);
    }
    snprintf(name, sizeof name, "%.*s", (int)length, head.name);
    const char *dot = strrchr(name, '.');
    summary_line(depth, dot ? dot + 1 : name, shape, params, macs);
}

static void summary_rows(summary *s)
{
    const char *above = ""; /* name of the last layer */

    for (size_t i = 0; i < s->rows; i++) {
        dt_plan_row row;
        char label[160];
        size_t length = 0;

        dt_plan_row_get(s->plan, i, &row);
        s->macs += row.macs;
        if (!row.name[0]) /* the plan's own step, no layer of the network */
            continue;
        int depth = 0;
        while ((length = summary_prefix(row.name, depth + 1)) > 0) {
            if (!summary_inside(above, row.name, length))
                summary_branch(s, i, depth, length);
            depth++;
        }
        above = row.name;
        const char *dot = strrchr(row.name, '.');
        snprintf(label, sizeof label, "%s (%s)", dot ? dot + 1 : row.name, row.op);
        summary_line(depth, label, row.out_shape, (int64_t)row.params, row.macs);
    }
}

static void summary_show(const dt_preview *shown)
{
    summary s = {.plan = shown->plan, .rows = dt_plan_row_count(shown->plan)};
    const dt_net_spec *spec = dt_net_spec_of(shown->net);
    const int64_t batch = dt_plan_batch(shown->plan);
    const size_t params = dt_net_weight_total(shown->net);
    char number[32];

    summary_rule('=');
    printf("%-*s%-*s%*s%*s\n", SUMMARY_NAME, "Layer (operation)", SUMMARY_SHAPE, "Output Shape",
           SUMMARY_NUMBER, "Param #", SUMMARY_NUMBER, "Mult-Adds");
    summary_rule('=');
    summary_rows(&s);
    summary_rule('=');
    printf("Network: %s%s%s%s%s, %dx%d images, batch %lld\n", spec->net,
           spec->variant[0] ? ", variant " : "", spec->variant, spec->stem[0] ? ", stem " : "",
           spec->stem, spec->image_size, spec->image_size, (long long)batch);
    printf("Total params: %s\n", summary_number((int64_t)params, number));
    printf("Trainable params: %s\n", summary_number((int64_t)params, number));
    puts("Non-trainable params: 0");
    printf("Total mult-adds (G): %.2f\n", (double)s.macs / 1e9);
    printf("GFLOP per image: %.3f (forward; training takes about 3 times that)\n",
           2.0 * (double)s.macs / (double)batch / 1e9);
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

const dt_command dt_command_summary = {.name = "summary", .run = summary_run, .computes = true};

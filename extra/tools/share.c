/* share.c - the second half of dtrain plan: how the threads of a rank share each pass of a step,
 * and what that makes of the whole. */
#include "costs/costs.h"
#include "tools.h"

typedef struct share_row {
    long long step; /* of the plan; -1: after it */
    dt_plan_row layer;
    const char *pass;
    dt_share share;
} share_row;

typedef struct share_table {
    json_t *passes; /* a row becomes an object of these, owned; NULL: it is printed */
    dt_share sum;
    int threads;
} share_table;

static double share_balance(const share_table *t, const dt_share *s)
{
    return s->alone_s / (t->threads * s->longest_s);
}

static void share_print(const share_table *t, const share_row *r)
{
    if (r->step >= 0)
        printf("%4lld", r->step);
    printf("%*s  %-18s %-22s %-8s %6d %8.3f %10.3f %10.3f %10.2f\n", r->step >= 0 ? 0 : 4, "",
           r->layer.op, r->layer.name, r->pass, r->share.units, share_balance(t, &r->share),
           1e3 * r->share.alone_s, 1e3 * r->share.longest_s, 1e-6 * r->share.again);
}

static json_t *share_object(const share_table *t, const share_row *r)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:i, s:f, s:f, s:f, s:f}", "operation", r->layer.op,
                     "name", r->layer.name, "pass", r->pass, "step", (json_int_t)r->step, "units",
                     r->share.units, "balance", share_balance(t, &r->share), "one_s",
                     r->share.alone_s, "all_s", r->share.longest_s, "again_bytes", r->share.again);
}

static void share_put(share_table *t, share_row row)
{
    if (row.share.units == 0)
        return;
    if (t->passes)
        json_array_append_new(t->passes, share_object(t, &row));
    else
        share_print(t, &row);
    t->sum.alone_s += row.share.alone_s;
    t->sum.longest_s += row.share.longest_s;
    t->sum.again += row.share.again;
}

static void share_layers(share_table *t, const dt_plan *plan)
{
    for (size_t i = 0; i < (size_t)plan->steps; i++) {
        const bool one = dt_plan_share(plan, i, DT_PASS_WEIGHTS).units == 0;
        const char *const pass[DT_PASS_COUNT] = {"forward", one ? "backward" : "data", "weights"};
        share_row row = {.step = (long long)i, .layer = dt_plan_row_get(plan, i)};
        for (int k = 0; k < DT_PASS_COUNT; k++) {
            row.pass = pass[k];
            row.share = dt_plan_share(plan, i, (dt_pass)k);
            share_put(t, row);
        }
    }
}

/* What else a step does, by measurements on one core: a pixel is resized and normalised, a
 * weight updated (five floats at 30 GB/s), a byte packed; moments become running statistics. The
 * ranks of a node divide the sums over their shards, the update and the packing. */
static void share_rest(share_table *t, const dt_plan *plan, int ranks)
{
    const dt_net *net = plan->model->net;
    const double pixel_s = 3.5e-9, float_s = 4 / 30e9, byte_s = 0.1e-9, channel_s = 7e-9;
    const int64_t images = plan->batch, size = net->spec.image_size;
    const int64_t floats = (int64_t)net->slab_floats / ranks;
    const int64_t bytes = (int64_t)dt_model_packed_bytes(plan->model) / ranks;
    const int64_t channels = (int64_t)net->norm_channels;
    const struct {
        const char *name;
        int64_t items, grain;
        double seconds;
    } rest[] = {
        {"images", images, 1, pixel_s * (double)(images * size * size)},
        {"sums", ranks > 1 ? floats : 0, 1 << 12, float_s * (ranks + 1) * (double)floats},
        {"update", floats, 1 << 14, 5 * float_s * (double)floats},
        {"packing", bytes, 1 << 11, byte_s * (double)bytes},
        {"statistics", channels, 0, channel_s * (double)channels},
    };

    for (size_t i = 0; i < DT_COUNT_OF(rest); i++)
        if (rest[i].items > 0)
            share_put(t, (share_row){.step = -1,
                                     .layer = {.op = rest[i].name, .name = ""},
                                     .pass = "",
                                     .share = dt_share_loop(rest[i].items, rest[i].grain,
                                                            rest[i].seconds, t->threads)});
}

void dt_share_show(const dt_plan *plan, const dt_options *o, json_t *strategy)
{
    share_table t = {.passes = o->json ? json_array() : NULL, .threads = plan->model->opts.threads};
    const int ranks = (int)o->ranks_per_node;

    if (!o->json)
        printf("\n%4s  %-18s %-22s %-8s %6s %8s %10s %10s %10s\n", "step", "operation", "name",
               "pass", "units", "balance", "one ms", "all ms", "again MB");
    share_layers(&t, plan);
    share_rest(&t, plan, ranks);
    share_row step = {.step = -1, .layer = {.op = "step", .name = ""}, .pass = "", .share = t.sum};
    step.share.units = t.threads;
    if (!o->json) {
        share_print(&t, &step);
        printf("balance: modelled time of one thread / (%d threads x time until the last is done); "
               "again: bytes\nthat threads read although another has read them\n",
               t.threads);
        return;
    }
    json_t *j =
        json_pack("{s:i, s:i, s:o*, s:o, s:o}", "threads", t.threads, "ranks_per_node", ranks,
                  "strategy", strategy, "step", share_object(&t, &step), "passes", t.passes);
    if (j && json_dumpf(j, stdout, JSON_INDENT(1)) == 0)
        putchar('\n');
    json_decref(j);
}

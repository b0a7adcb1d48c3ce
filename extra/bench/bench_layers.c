/* bench_layers.c - the profile of `bench --layers`: clocked passes, the least they have to do, and
 * from the machine's peaks the limit of each. */
#include "bench_layers.h"

/* Which total a layer belongs to, by what its operation begins with. */
static const struct {
    const char *op;
    dt_total total;
} layer_kinds[] = {
    {"conv2d", DT_TOTAL_forward},        {"linear", DT_TOTAL_forward},
    {"batchnorm", DT_TOTAL_norm},        {"maxpool", DT_TOTAL_pooling},
    {"globalavgpool", DT_TOTAL_pooling}, {"fork", DT_TOTAL_residual},
    {"add", DT_TOTAL_residual},          {"gelu", DT_TOTAL_activation},
    {"relu", DT_TOTAL_activation},
};

/* The totals of convolutions are in the order of passes. */
static void pass_place(dt_bench_pass *p, dt_pass pass)
{
    static const char *const names[DT_PASS_COUNT] = {"forward", "data", "weights"};

    p->name = names[pass];
    p->total = DT_TOTAL_other;
    for (size_t i = 0; i < DT_COUNT_OF(layer_kinds); i++)
        if (strncmp(p->layer.op, layer_kinds[i].op, strlen(layer_kinds[i].op)) == 0)
            p->total = layer_kinds[i].total;
    if (p->total == DT_TOTAL_forward)
        p->total = (dt_total)(DT_TOTAL_forward + (int)pass);
    else if (pass == DT_PASS_DATA)
        p->name = "backward";
}

/* Over the rank's shards of a full batch. */
static dt_work work_of(const dt_run *r, size_t step, dt_pass pass)
{
    dt_plan *const *plan = r->contexts.plan;
    dt_work sum = {0, 0};

    for (int i = 0; i < DT_MAX_PLANS && plan[i]; i++) {
        const dt_work work = dt_plan_work(plan[i], step, pass);
        int64_t shards = 0;
        for (int s = r->first_shard; s < r->end_shard; s++)
            shards += dt_shard_size(r->o.global_batch, (int)r->o.shards, s, NULL) == plan[i]->batch;
        sum.flops += shards * work.flops;
        sum.bytes += shards * work.bytes;
    }
    return sum;
}

static double phase_s(dt_activity_name phase)
{
    return dt_record_seconds(DT_LANE_PHASE, (int)phase, DT_RECORD_KINDS);
}

static void take_layer(dt_bench_layers *l, const dt_run *r, size_t i, double steps)
{
    for (int pass = 0; pass < DT_PASS_COUNT; pass++) {
        const dt_work work = work_of(r, i, (dt_pass)pass);
        const int kind = (int)i * DT_CLOCKED + pass;
        if (work.bytes == 0)
            continue;
        dt_bench_pass *p = &l->pass[l->passes++];
        *p = (dt_bench_pass){
            .layer = dt_plan_row_get(r->contexts.plan[0], i),
            .step = i,
            .cost = {.seconds = dt_record_seconds(DT_LANE_LAYER, kind, DT_RECORD_KINDS) / steps,
                     .flops = (double)work.flops,
                     .bytes = (double)work.bytes}};
        pass_place(p, (dt_pass)pass);
        l->total[p->total].seconds += p->cost.seconds;
    }
}

dt_status dt_bench_layers_take(dt_bench_layers *l, const dt_run *r, double seconds)
{
    const size_t layers = (size_t)r->contexts.plan[0]->steps;
    const double n = (double)r->o.steps;
    const double waited = dt_record_seconds(DT_LANE_WAIT, DT_IN_gradients, 1); /* and weights */
    dt_bench_cost *t = l->total;

    DT_TRY(dt_calloc(&l->pass, DT_PASS_COUNT * layers, sizeof *l->pass, "the profile of layers"));
    l->step_s = seconds / n;
    l->type = r->precision;
    l->threads = r->threads;
    l->ranks = r->comm->world;
    for (size_t i = 0; i < layers; i++)
        take_layer(l, r, i, n);
    t[DT_TOTAL_update].seconds = phase_s(DT_AT_update) / n;
    t[DT_TOTAL_exchange].seconds = (dt_record_seconds(DT_LANE_LAYER, DT_CLOCKED_READY, DT_CLOCKED) +
                                    phase_s(DT_AT_exchange) - waited) /
                                   n;
    t[DT_TOTAL_waiting].seconds =
        (waited + dt_record_seconds(DT_LANE_LAYER, DT_CLOCKED_COMBINE, DT_CLOCKED)) / n;
    t[DT_TOTAL_data].seconds = phase_s(DT_AT_data) / n;
    t[DT_TOTAL_checks].seconds = phase_s(DT_AT_checks) / n;
    t[DT_TOTAL_rest].seconds = l->step_s;
    for (int i = 0; i < DT_TOTAL_rest; i++)
        t[DT_TOTAL_rest].seconds -= t[i].seconds;
    return DT_OK;
}

dt_status dt_bench_layers_peaks(dt_bench_layers *l, dt_comm *c)
{
    DT_TRY(dt_comm_barrier(c));
    DT_TRY(dt_comm_agree(c, dt_peaks_measure(&l->peaks, l->threads)));
    for (size_t i = 0; i < l->passes; i++) {
        dt_bench_pass *p = &l->pass[i];
        dt_bench_cost *cost = &p->cost, *total = &l->total[p->total];
        const double compute = cost->flops / l->peaks.flops[l->type];
        const double traffic = cost->bytes / l->peaks.bytes_per_s;
        p->limit = compute > traffic ? "compute" : "traffic";
        cost->limit_s = DT_MAX(compute, traffic);
        total->flops += cost->flops;
        total->bytes += cost->bytes;
        total->limit_s += cost->limit_s;
    }
    return DT_OK;
}

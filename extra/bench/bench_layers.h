/* bench_layers.h - the profile of `bench --layers`: where a step's time goes, layer by layer and
 * pass by pass, and where its limit lies; private to extra/bench. All is Local, except
 * dt_bench_layers_peaks. */
#ifndef DT_BENCH_LAYERS_H
#define DT_BENCH_LAYERS_H
#include "costs/costs.h"
#include "train/run.h"

#include <jansson.h>

/* What a step's time goes to; the first ones are sums of passes. */
#define DT_TOTAL_LIST(X)                                                                           \
    X(forward, "convolutions, forward")                                                            \
    X(data_gradient, "convolutions, data gradient")                                                \
    X(weight_gradient, "convolutions, weight gradient")                                            \
    X(norm, "batch norm, with fused add and ReLU")                                                 \
    X(pooling, "pooling")                                                                          \
    X(residual, "residual adds and forks")                                                         \
    X(activation, "activations by themselves")                                                     \
    X(other, "loss")                                                                               \
    X(update, "update and packing")                                                                \
    X(exchange, "exchange")                                                                        \
    X(waiting, "waiting for other ranks: exposed exchange")                                        \
    X(data, "data")                                                                                \
    X(checks, "checks")                                                                            \
    X(rest, "rest")
typedef enum dt_total {
#define X(name, text) DT_TOTAL_##name,
    DT_TOTAL_LIST(X)
#undef X
        DT_TOTAL_COUNT
} dt_total;

/* Cost in a step of this rank, over all its shards. */
typedef struct dt_bench_cost {
    double seconds, flops, bytes;
    double limit_s; /* the longer of the times that flops and bytes take at the peaks */
} dt_bench_cost;

typedef struct dt_bench_pass { /* one line */
    dt_plan_row layer;
    size_t step;       /* of the plan */
    const char *name;  /* "forward", "data", "weights", "backward" */
    const char *limit; /* "compute": the limit is the one of flops; else "traffic" */
    dt_total total;
    dt_bench_cost cost;
} dt_bench_pass;

typedef struct dt_bench_layers {
    dt_peaks peaks;
    dt_dtype type; /* of the convolutions */
    int threads, ranks;
    dt_bench_pass *pass; /* [passes], owned; in the order of the plan */
    size_t passes;
    double step_s; /* mean of the measured steps */
    dt_bench_cost total[DT_TOTAL_COUNT];
} dt_bench_layers;

/* Read r's --steps steps, which took so many seconds together, from the record; l->pass is freed by
 * free(). DT_NOMEM. */
dt_status dt_bench_layers_take(dt_bench_layers *l, const dt_run *r, double seconds) DT_MUST_CHECK;
/* Measure the peaks, on all ranks at the same time, then find the limits. Agreed. Collective. */
dt_status dt_bench_layers_peaks(dt_bench_layers *l, dt_comm *c) DT_MUST_CHECK;

void dt_bench_layers_print(const dt_bench_layers *l);
/* The same passes by several engines, l[count]; those without steps are left out. */
void dt_bench_layers_compare(const dt_bench_layers *l, const char *const *name, size_t count);
/* New reference, NULL: no memory. */
json_t *dt_bench_layers_json(const dt_bench_layers *l);

#endif

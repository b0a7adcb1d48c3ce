/* bench_predict.h - the step time of ranks that are not here; private to extra/bench. */
#ifndef DT_BENCH_PREDICT_H
#define DT_BENCH_PREDICT_H
#include "train/run.h"

/* `bench --predict`: one rank's step. */
typedef struct dt_single_rank {
    double step_s;
    int64_t images;
    size_t tensors, buckets, moments; /* moments: elements */
    struct {
        size_t floats;
        double ahead_s; /* how long before backward's end it was final */
    } bucket[512];
} dt_single_rank;
/* DT_UNSUPPORTED: more buckets. Local. */
dt_status dt_single_rank_take(dt_single_rank *a, const dt_run *r, double step_s) DT_MUST_CHECK;
/* Measure messages, and print a row for each exchange of --exchange and number of --predict, which
 * the check (Local) refuses with DT_USAGE or DT_CONFIG. a: on rank 0. Collective. */
dt_status dt_bench_predict(dt_comm *c, const dt_options *o, dt_single_rank *a) DT_MUST_CHECK;
dt_status dt_bench_predict_check(const dt_options *o, int world) DT_MUST_CHECK;
#endif

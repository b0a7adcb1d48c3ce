/* bench.h - the benchmark, and --trace; the public header of extra/bench. */
#ifndef DT_BENCH_H
#define DT_BENCH_H
#include "cli/cli.h"
#include "train/run.h"

void dt_extra_bench(void);
/* Time the trainer's own loop on synthetic data; --exchange all: one row per exchange.
 * Collective. */
dt_status dt_bench(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
extern const dt_run_observer dt_trace;

typedef struct dt_comm_clock {
    int64_t ahead, bound; /* rank 0's dt_activity_clock is this rank's + ahead, within bound (ns) */
    char host[DT_HOST_CHARS];
} dt_comm_clock;
/* of [world], on rank 0. Collective. */
dt_status dt_comm_clocks(dt_comm *c, dt_comm_clock *of) DT_MUST_CHECK;
enum { DT_MESSAGES = 256 };
/* count <= DT_MESSAGES messages of `bytes` to rank 0 from the last one, or each way; the time of
 * one. room [2 x count x bytes]. Only these two ranks call it. DT_COMM. */
dt_status dt_messages_time(dt_comm *c, char *room, int count, size_t bytes, bool both,
                           double *seconds) DT_MUST_CHECK;

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

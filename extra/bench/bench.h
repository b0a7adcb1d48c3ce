/* bench.h - the benchmark, and --trace; the public header of extra/bench. */
#ifndef DT_BENCH_H
#define DT_BENCH_H
#include "cli/cli.h"
#include "train/observer.h"

void dt_extra_bench(void);
/* Time the trainer's own loop on synthetic data; --exchange all: one row per exchange.
 * Collective. */
dt_status dt_bench(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
extern const dt_run_observer dt_trace;
#endif

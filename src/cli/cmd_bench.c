/* cmd_bench.c - dtrain bench. */
#include "cli.h"

static dt_status bench_run(dt_comm *c, const dt_settings *s)
{
    return dt_bench(c, &s->options);
}

const dt_command dt_command_bench = {.name = "bench", .run = bench_run};

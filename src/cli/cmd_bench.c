/* cmd_bench.c - dtrain bench. */
#include "cli.h"

const dt_command dt_command_bench = {.name = "bench", .run = dt_bench};

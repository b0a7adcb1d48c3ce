/* extra.c - the command and the observer of extra/bench. */
#include "bench.h"

/* clang-format off */
static const dt_command commands[] = {
    {.name = "bench", .help = "images per second of the training loop on synthetic data",
     .call = dt_bench, .options = DT_NETWORK_OPTIONS, .computes = true, .engines = true},
};
/* clang-format on */

void dt_extra_bench(void)
{
    dt_commands_add(commands, DT_COUNT_OF(commands));
    dt_observer_add(&dt_trace);
}

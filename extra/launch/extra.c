/* extra.c - the commands of extra/launch. */
#include "cli/cli.h"
#include "launch.h"

static dt_status run_launch(int argc, char **argv, int *code)
{
    return dt_launch(argc, argv, dt_mpirun_of(dt_comm_version()), code);
}

/* clang-format off */
static const dt_command commands[] = {
    {.name = "launch", .help = "start a run on one host or several: dtrain launch --help",
     .alone = run_launch},
    {.name = "ranktable", .help = "check a rank table of hosts", .alone = dt_ranktable},
};
/* clang-format on */

void dt_extra_launch(void)
{
    dt_commands_add(commands, DT_COUNT_OF(commands));
}

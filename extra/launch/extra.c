/* extra.c - the commands of extra/launch. */
#include "cli/cli.h"
#include "launch.h"

static dt_status run_launch(int argc, char **argv, int *code)
{
    return dt_launch(argc, argv, dt_mpirun_of(dt_comm_version()), code);
}

static dt_status run_ranktable(int argc, char **argv, int *code)
{
    dt_hosts h = {.list = NULL};

    (void)code;
    if (argc != 1)
        return dt_fail(DT_USAGE, "usage: dtrain ranktable FILE");
    if (strcmp(argv[0], "--help") == 0)
        return printf("Usage: dtrain ranktable FILE\n"), DT_OK;
    const dt_status st = dt_ranktable_read(&h, argv[0]);
    if (st == DT_OK)
        printf("ok   %s: %d ranks on %d host%s: %s\n", argv[0], h.ranks, h.count,
               h.count == 1 ? "" : "s", h.list);
    free(h.list);
    return st;
}

/* clang-format off */
static const dt_command commands[] = {
    {.name = "launch", .help = "start a run on one host or several: dtrain launch --help",
     .alone = run_launch},
    {.name = "ranktable", .help = "check a rank table of hosts", .alone = run_ranktable},
};
/* clang-format on */

void dt_extra_launch(void)
{
    dt_commands_add(commands, DT_COUNT_OF(commands));
}

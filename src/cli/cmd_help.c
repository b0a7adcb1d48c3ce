/* cmd_help.c - dtrain help, dtrain --help. */
#include "cli.h"

static dt_status help_run(dt_comm *c, const dt_settings *s)
{
    (void)s;
    if (dt_comm_rank(c) == 0)
        dt_arguments_help(stdout);
    return DT_OK;
}

const dt_command dt_command_help = {.name = "help", .run = help_run, .bare = true};

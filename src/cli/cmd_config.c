/* cmd_config.c - dtrain --print-config: the effective options, for --config to read. */
#include "cli.h"

static dt_status config_run(dt_comm *c, const dt_settings *s)
{
    if (dt_comm_rank(c) == 0)
        dt_options_yaml(stdout, &s->options);
    return DT_OK;
}

const dt_command dt_command_config = {.name = "config", .run = config_run};

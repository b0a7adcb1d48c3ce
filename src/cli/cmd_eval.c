/* cmd_eval.c - dtrain eval. */
#include "cli.h"

static dt_status eval_run(dt_comm *c, const dt_settings *s)
{
    return dt_eval(c, &s->options);
}

const dt_command dt_command_eval = {.name = "eval", .run = eval_run};

/* cmd_train.c - dtrain train. */
#include "cli.h"

static dt_status train_run(dt_comm *c, const dt_settings *s)
{
    return dt_train(c, &s->options);
}

const dt_command dt_command_train = {.name = "train", .run = train_run};

/* cmd_train.c - dtrain train. */
#include "cli.h"

const dt_command dt_command_train = {.name = "train", .run = dt_train};

/* cmd_eval.c - dtrain eval. */
#include "cli.h"

const dt_command dt_command_eval = {.name = "eval", .run = dt_eval};

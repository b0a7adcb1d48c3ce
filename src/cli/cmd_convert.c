/* cmd_convert.c - dtrain convert A --out FILE --names SCHEME. */
#include "cli.h"

static dt_status convert_run(dt_comm *c, const dt_settings *s)
{
    return dt_average(c, &s->options, s->operand, 1); /* the mean of one is that one */
}

const dt_command dt_command_convert = {.name = "convert",
                                       .run = convert_run,
                                       .operands = "A --out FILE --names SCHEME",
                                       .least = 1,
                                       .most = 1};

/* cmd_convert.c - dtrain convert A --out FILE --names SCHEME. */
#include "cli.h"

static dt_status convert_run(dt_comm *c, const dt_settings *s)
{
    /* The mean of one is that one. */
    return dt_comm_agree(c, dt_comm_rank(c) == 0 ? dt_average(&s->options, s->operand, 1) : DT_OK);
}

const dt_command dt_command_convert = {.name = "convert",
                                       .run = convert_run,
                                       .operands = "A --out FILE --names SCHEME",
                                       .least = 1,
                                       .most = 1};

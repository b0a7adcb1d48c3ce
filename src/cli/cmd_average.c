/* cmd_average.c - dtrain average A B... --out FILE. */
#include "cli.h"
#include <limits.h>

static dt_status average_run(dt_comm *c, const dt_settings *s)
{
    return dt_comm_agree(c, dt_comm_rank(c) == 0 ? dt_average(&s->options, s->operand, (size_t)s->operands) : DT_OK);
}

const dt_command dt_command_average = {.name = "average",
                                       .run = average_run,
                                       .operands = "A B... --out FILE",
                                       .least = 1,
                                       .most = INT_MAX};

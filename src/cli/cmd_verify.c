/* cmd_verify.c - dtrain verify PATH. */
#include "cli.h"

static dt_status verify_run(dt_comm *c, const dt_settings *s)
{
    return dt_comm_agree(c, dt_comm_rank(c) == 0 ? dt_verify(s->operand[0]) : DT_OK);
}

const dt_command dt_command_verify = {
    .name = "verify", .run = verify_run, .operands = "PATH", .least = 1, .most = 1};

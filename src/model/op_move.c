/* op_move.c - a value from one layout to another, between layers that are cut over ranks and
 * others; only a plan writes it. The copies are the caller's (dt_wave_moves): it never runs. */
#include "op.h"

static dt_status move_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    *out = n->attr.flat ? (dt_shape){in->n, 1, 1, in->h * in->w * in->c} : *in;
    return DT_OK;
}

static void move_nothing(const dt_call *c)
{
    (void)c;
}

const dt_op dt_op_move = {
    .name = "move",
    .infer = move_infer,
    .forward = move_nothing,
    .backward = move_nothing,
};

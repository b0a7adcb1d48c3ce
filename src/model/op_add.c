/* op_add.c - the sum of two values of one shape. Both gradients are copies of the output's. */
#include "loops.h"

static dt_status add_forward(const dt_call *c)
{
    dt_loop_elements(c, dt_loops_current()->add_forward);
    return DT_OK;
}

static dt_status add_backward(const dt_call *c)
{
    dt_loop_elements(c, dt_loops_current()->add_backward);
    return DT_OK;
}

const dt_op dt_op_add = {
    .name = "add",
    .infer = dt_infer_same,
    .prepare = dt_loops_prepare,
    .forward = add_forward,
    .backward = add_backward,
};

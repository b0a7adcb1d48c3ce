/* op_add.c - the sum of two values of one shape, rounded once; both get the sum's gradient. */
#include "loops.h"

static void add_forward(const dt_call *c)
{
    dt_loop_elements(c, dt_loops_current()->add_forward);
}

static void add_backward(const dt_call *c)
{
    dt_loop_elements(c, dt_loops_current()->add_backward);
}

const dt_op dt_op_add = {
    .name = "add",
    .infer = dt_infer_same,
    .prepare = dt_loops_prepare,
    .forward = add_forward,
    .backward = add_backward,
    .sweeps = dt_sweeps_rows,
};

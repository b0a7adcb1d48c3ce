/* op_relu.c - what is positive of a value that no batch norm made: behind linear layers. */
#include "loops.h"

static void relu_forward(const dt_call *c)
{
    dt_loop_elements(c, dt_loops_current()->relu_forward);
}

static void relu_backward(const dt_call *c)
{
    if (c->d_in[0])
        dt_loop_elements(c, dt_loops_current()->relu_backward);
}

const dt_op dt_op_relu = {
    .name = "relu",
    .saves = DT_SAVE_OUT,
    .infer = dt_infer_same,
    .prepare = dt_loops_prepare,
    .forward = relu_forward,
    .backward = relu_backward,
    .sweeps = dt_sweeps_rows,
};

/* op_relu.c - ReLU: y = max(x, 0). Any shape; elementwise; a NaN passes. Backward reads y, not x,
 * so the plan may give x's memory to another value; at 0 the gradient is 0. */
#include "loops.h"

static dt_status relu_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    (void)n;
    *out = in[0];
    return DT_OK;
}

static dt_status relu_forward(const dt_call *c)
{
    dt_loop_elements(c, dt_loops_current()->relu_forward);
    return DT_OK;
}

static dt_status relu_backward(const dt_call *c)
{
    if (c->d_in[0])
        dt_loop_elements(c, dt_loops_current()->relu_backward);
    return DT_OK;
}

const dt_op dt_op_relu = {
    .name = "relu",
    .n_in_min = 1,
    .n_in_max = 1,
    .saves = DT_SAVE_OUT,
    .infer = relu_infer,
    .prepare = dt_loops_prepare,
    .forward = relu_forward,
    .backward = relu_backward,
};

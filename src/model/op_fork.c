/* op_fork.c - one value read by two nodes; only a plan writes it. Forward has nothing to do: both
 * outputs are the input's memory. Backward adds the gradients of the two outputs, d_out and d_out2,
 * and rounds once. */
#include "loops.h"

static void fork_forward(const dt_call *c)
{
    (void)c;
}

static void fork_backward(const dt_call *c)
{
    if (c->d_in[0])
        dt_loop_elements(c, dt_loops_current()->fork_backward);
}

const dt_op dt_op_fork = {
    .name = "fork",
    .infer = dt_infer_same,
    .prepare = dt_loops_prepare,
    .forward = fork_forward,
    .backward = fork_backward,
    .sweeps = dt_sweeps_rows,
};

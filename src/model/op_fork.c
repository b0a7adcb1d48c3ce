/* op_fork.c - one value read by two nodes; only a plan writes it. Forward has nothing to do: both
 * outputs are the input's memory. Backward adds the gradients of the two outputs, d_out and d_out2,
 * and rounds once. */
#include "loops.h"

const dt_op dt_op_fork = {
    .name = "fork",
    .infer = dt_infer_same,
    .prepare = dt_loops_prepare,
    .backward = dt_fork_backward,
};

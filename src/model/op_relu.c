/* op_relu.c - what is positive of a value that no batch norm made: behind linear layers. */
#include "loops.h"

const dt_op dt_op_relu = {
    .name = "relu",
    .saves = DT_SAVE_OUT,
    .infer = dt_infer_same,
    .prepare = dt_loops_prepare,
    .forward = dt_relu_forward,
    .backward = dt_relu_backward,
};

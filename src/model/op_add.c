/* op_add.c - the sum of two values of one shape, rounded once; both get the sum's gradient. */
#include "loops.h"

const dt_op dt_op_add = {
    .name = "add",
    .infer = dt_infer_same,
    .prepare = dt_loops_prepare,
    .forward = dt_add_forward,
    .backward = dt_add_backward,
};

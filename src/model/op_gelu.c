/* op_gelu.c - x times the share of the normal distribution below x (Hendrycks & Gimpel 2016). */
#include "loops.h"

const dt_op dt_op_gelu = {
    .name = "gelu",
    .saves = DT_SAVE_IN0,
    .infer = dt_infer_same,
    .prepare = dt_loops_prepare,
    .forward = dt_gelu_forward,
    .backward = dt_gelu_backward,
};

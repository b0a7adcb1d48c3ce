/* op_globalavgpool.c - the mean over an image's pixels: [n, h, w, c] to [n, 1, 1, c]. */
#include "loops.h"

static dt_status globalavgpool_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    (void)n;
    *out = (dt_shape){in[0].n, 1, 1, in[0].c};
    return DT_OK;
}

const dt_op dt_op_globalavgpool = {
    .name = "globalavgpool",
    .infer = globalavgpool_infer,
    .prepare = dt_loops_prepare,
    .forward = dt_globalavgpool_forward,
    .backward = dt_globalavgpool_backward,
};

/* op_avgpool.c - average pooling. Padding counts as zeros: the divisor is always the kernel's area
 * (PyTorch's count_include_pad=True, its default). */
#include "pool.h"

static dt_status avgpool_forward(const dt_call *c)
{
    dt_pool_forward(c, dt_loops_current()->avgpool_forward);
    return DT_OK;
}

static dt_status avgpool_backward(const dt_call *c)
{
    if (c->d_in[0])
        dt_pool_backward(c, dt_loops_current()->avgpool_backward);
    return DT_OK;
}

const dt_op dt_op_avgpool = {
    .name = "avgpool",
    .n_in_min = 1,
    .n_in_max = 1,
    .attrs = DT_ATTR_WINDOW,
    .infer = dt_pool_infer,
    .prepare = dt_loops_prepare,
    .forward = avgpool_forward,
    .backward = avgpool_backward,
};

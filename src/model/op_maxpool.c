/* op_maxpool.c - max pooling. Pixels outside the image never win, the first of equals does. Forward
 * saves the kernel position that won, one byte for each output; backward gathers for each input
 * pixel over the windows that hold it, in their order, so no sum depends on threads. */
#include "pool.h"

static dt_status maxpool_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    const int64_t positions = (int64_t)n->attr.kernel[0] * n->attr.kernel[1];
    if (positions > UINT8_MAX + 1)
        return dt_fail(DT_SHAPE, "maxpool '%s': a kernel of %lld positions, at most %d", n->name,
                       (long long)positions, UINT8_MAX + 1);
    return dt_pool_infer(n, in, out);
}

static dt_status maxpool_prepare(dt_step *s, dt_model *m)
{
    s->saved_bytes = (size_t)dt_shape_count(&s->out_shape);
    return dt_loops_prepare(s, m);
}

static dt_status maxpool_forward(const dt_call *c)
{
    dt_pool_forward(c, dt_loops_current()->maxpool_forward);
    return DT_OK;
}

static dt_status maxpool_backward(const dt_call *c)
{
    if (c->d_in[0])
        dt_pool_backward(c, dt_loops_current()->maxpool_backward);
    return DT_OK;
}

const dt_op dt_op_maxpool = {
    .name = "maxpool",
    .n_in_min = 1,
    .n_in_max = 1,
    .attrs = DT_ATTR_WINDOW,
    .infer = maxpool_infer,
    .prepare = maxpool_prepare,
    .forward = maxpool_forward,
    .backward = maxpool_backward,
};

/* op_maxpool.c - max pooling. Pixels outside the image never win, the first of equals does. Forward
 * saves the kernel position that won, one byte for each output; backward gathers for each input
 * pixel over the windows that hold it, in their order, so no sum depends on threads. */
#include "loops.h"

/* With less padding than kernel every window holds a pixel. */
static dt_status maxpool_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    const dt_attr *a = &n->attr;
    const int64_t positions = (int64_t)a->kernel[0] * a->kernel[1];

    if (positions > UINT8_MAX + 1)
        return dt_fail(DT_SHAPE, "maxpool '%s': a kernel of %lld positions, at most %d", n->name,
                       (long long)positions, UINT8_MAX + 1);
    for (int side = 0; side < 4; side++)
        if (a->pad[side] >= a->kernel[side % 2])
            return dt_fail(DT_SHAPE, "maxpool '%s': padding %d, want less than the kernel, %d",
                           n->name, a->pad[side], a->kernel[side % 2]);
    return dt_infer_window(n, in, in->c, out);
}

static dt_status maxpool_prepare(dt_step *s, dt_model *m)
{
    s->saved_bytes = (size_t)dt_shape_count(&s->out_shape);
    return dt_loops_prepare(s, m);
}

const dt_op dt_op_maxpool = {
    .name = "maxpool",
    .infer = maxpool_infer,
    .prepare = maxpool_prepare,
    .forward = dt_maxpool_forward,
    .backward = dt_maxpool_backward,
};

/* pool.c - shapes and rows of max and average pooling. */
#include "pool.h"

dt_status dt_pool_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    const dt_attr *a = &n->attr;
    const int64_t size[2] = {in[0].h, in[0].w};
    int64_t to[2];

    for (int d = 0; d < 2; d++) {
        const int before = a->pad[d], after = a->pad[d + 2];
        if (a->kernel[d] < 1 || a->stride[d] < 1 || before < 0 || after < 0 ||
            before >= a->kernel[d] || after >= a->kernel[d])
            return dt_fail(DT_SHAPE,
                           "%s '%s': kernel %d, stride %d, padding %d and %d; want kernel "
                           "and stride at least 1, padding below the kernel",
                           n->op->name, n->name, a->kernel[d], a->stride[d], before, after);
        if (size[d] + before + after < a->kernel[d])
            return dt_fail(DT_SHAPE, "%s '%s': a window of %d on %lld padded pixels", n->op->name,
                           n->name, a->kernel[d], (long long)(size[d] + before + after));
        to[d] = (size[d] + before + after - a->kernel[d]) / a->stride[d] + 1;
    }
    *out = (dt_shape){in[0].n, to[0], to[1], in[0].c};
    return DT_OK;
}

void dt_pool_forward(const dt_call *c, dt_loop loop)
{
    const dt_step *s = c->step;
    const int64_t taps = (int64_t)s->attr.kernel[0] * s->attr.kernel[1];
    dt_loop_rows(c, loop, s->out_shape.n * s->out_shape.h, s->out_shape.w * s->out_shape.c * taps);
}

void dt_pool_backward(const dt_call *c, dt_loop loop)
{
    const dt_shape *in = &c->step->in_shape[0];
    dt_loop_rows(c, loop, in->n * in->h, in->w * in->c);
}

/* infer.c - output shapes that operations have in common. */
#include "op.h"

#include <inttypes.h>

dt_status dt_infer_same(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    if (n->n_in == 2 && memcmp(&in[0], &in[1], sizeof in[0]) != 0)
        return dt_fail(DT_SHAPE,
                       "%s '%s': [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] and [%" PRId64
                       ", %" PRId64 ", %" PRId64 ", %" PRId64 "]",
                       n->op->name, n->name, in[0].n, in[0].h, in[0].w, in[0].c, in[1].n, in[1].h,
                       in[1].w, in[1].c);
    *out = in[0];
    return DT_OK;
}

dt_status dt_infer_window(const dt_node *n, const dt_shape *in, int64_t channels, dt_shape *out)
{
    const dt_attr *a = &n->attr;
    const int64_t size[2] = {in->h, in->w};
    int64_t to[2];

    for (int d = 0; d < 2; d++) {
        const int64_t room = size[d] + a->pad[d] + a->pad[d + 2] - a->kernel[d];
        if (room < 0)
            return dt_fail(DT_SHAPE,
                           "%s '%s': a %dx%d kernel does not fit into %" PRId64 "x%" PRId64
                           " pixels with padding %d %d %d %d; take a larger --image-size",
                           n->op->name, n->name, a->kernel[0], a->kernel[1], in->h, in->w,
                           a->pad[0], a->pad[1], a->pad[2], a->pad[3]);
        to[d] = room / a->stride[d] + 1; /* an incomplete last window is left out */
    }
    *out = (dt_shape){in->n, to[0], to[1], channels};
    return DT_OK;
}

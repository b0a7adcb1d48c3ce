/* op_conv2d.c - convolution (cross-correlation, as in every framework) of NHWC images: any kernel,
 * stride and padding on four sides, optional bias. Weights are HWIO in the slab, OIHW in files. */
#include "conv.h"

#include <inttypes.h>

/* Places of a window along one side, the last incomplete one left out; 0: none. */
static int64_t conv2d_places(int64_t size, int kernel, int stride, int before, int after)
{
    const int64_t room = size + before + after - kernel;
    return room < 0 ? 0 : room / stride + 1;
}

static dt_status conv2d_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    const dt_attr *a = &n->attr;

    if (a->out < 1 || a->kernel[0] < 1 || a->kernel[1] < 1 || a->stride[0] < 1 ||
        a->stride[1] < 1 || a->pad[0] < 0 || a->pad[1] < 0 || a->pad[2] < 0 || a->pad[3] < 0)
        return dt_fail(DT_SHAPE,
                       "conv2d '%s': %" PRId64 " channels, kernel %dx%d, stride %dx%d; "
                       "want at least 1 each and no negative padding",
                       n->name, a->out, a->kernel[0], a->kernel[1], a->stride[0], a->stride[1]);
    *out =
        (dt_shape){in->n, conv2d_places(in->h, a->kernel[0], a->stride[0], a->pad[0], a->pad[2]),
                   conv2d_places(in->w, a->kernel[1], a->stride[1], a->pad[1], a->pad[3]), a->out};
    if (out->h < 1 || out->w < 1)
        return dt_fail(DT_SHAPE,
                       "conv2d '%s': a %dx%d kernel does not fit into %" PRId64 "x%" PRId64
                       " pixels with padding %d %d %d %d; take a larger "
                       "--image-size",
                       n->name, a->kernel[0], a->kernel[1], in->h, in->w, a->pad[0], a->pad[1],
                       a->pad[2], a->pad[3]);
    return DT_OK;
}

static dt_status conv2d_declare(const dt_node *n, const dt_shape *in, dt_decl *d)
{
    const dt_attr *a = &n->attr;
    const int64_t oihw[4] = {a->out, in->c, a->kernel[0], a->kernel[1]};

    return dt_conv_declare(n, d, 4, oihw);
}

static dt_status conv2d_prepare(dt_step *s, dt_model *m)
{
    const dt_shape *in = &s->in_shape[0], *out = &s->out_shape;
    const dt_attr *a = &s->attr;

    return dt_conv_prepare(s, m,
                           (dt_conv){.n = in->n,
                                     .ih = in->h,
                                     .iw = in->w,
                                     .ic = in->c,
                                     .oh = out->h,
                                     .ow = out->w,
                                     .oc = out->c,
                                     .kernel = {a->kernel[0], a->kernel[1]},
                                     .stride = {a->stride[0], a->stride[1]},
                                     .pad = {a->pad[0], a->pad[1], a->pad[2], a->pad[3]}});
}

const dt_op dt_op_conv2d = {
    .name = "conv2d",
    .n_in_min = 1,
    .n_in_max = 1,
    .attrs = DT_ATTR_OUT | DT_ATTR_WINDOW | DT_ATTR_BIAS | DT_ATTR_INIT,
    .saves = DT_SAVE_IN0,
    .infer = conv2d_infer,
    .declare = conv2d_declare,
    .prepare = conv2d_prepare,
    .forward = dt_conv_forward,
    .backward = dt_conv_data,
    .weights = dt_conv_weights,
    .destroy = dt_conv_destroy,
    .macs = dt_conv_macs,
};

/* op_conv2d.c - convolution (cross-correlation, as in every framework) of NHWC images: any kernel,
 * stride and padding on four sides, optional bias. Weights are HWIO in the slab, OIHW in files. */
#include "conv.h"

static dt_status conv2d_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    return dt_infer_window(n, in, n->attr.out, out);
}

static dt_status conv2d_declare(dt_net *net, dt_node *n, const dt_shape *in)
{
    const dt_attr *a = &n->attr;
    const int64_t oihw[4] = {a->out, in->c, a->kernel[0], a->kernel[1]};

    return dt_conv_declare(net, n, 4, oihw);
}

static dt_status conv2d_prepare(dt_step *s, dt_model *m)
{
    return dt_conv_prepare(s, m, &s->in_shape[0], &s->attr);
}

const dt_op dt_op_conv2d = {
    .name = "conv2d",
    .saves = DT_SAVE_IN0,
    .infer = conv2d_infer,
    .declare = conv2d_declare,
    .prepare = conv2d_prepare,
    .forward = dt_conv_forward,
    .backward = dt_conv_data,
    .weights = dt_conv_weights,
    .destroy = dt_conv_destroy,
};

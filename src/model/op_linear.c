/* op_linear.c - linear layer: a 1x1 convolution of one pixel. An image of more than one pixel is
 * read as one pixel of h * w * c features in NHWC order; in files they are channel by channel. */
#include "conv.h"

static int64_t linear_features(const dt_shape *in)
{
    return in->h * in->w * in->c;
}

static dt_status linear_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    *out = (dt_shape){in->n, 1, 1, n->attr.out};
    return DT_OK;
}

static dt_status linear_declare(dt_net *net, dt_node *n, const dt_shape *in)
{
    const int64_t oi[2] = {n->attr.out, linear_features(in)};

    DT_TRY(dt_conv_declare(net, n, 2, oi));
    net->param[n->param[0]].pixels = in->h * in->w;
    return DT_OK;
}

static dt_status linear_prepare(dt_step *s, dt_model *m)
{
    const dt_shape in = {s->in_shape[0].n, 1, 1, linear_features(&s->in_shape[0])};
    const dt_attr a = {.kernel = {1, 1}, .stride = {1, 1}, .bias = s->attr.bias};

    return dt_conv_prepare(s, m, &in, &a);
}

const dt_op dt_op_linear = {
    .name = "linear",
    .saves = DT_SAVE_IN0,
    .infer = linear_infer,
    .declare = linear_declare,
    .prepare = linear_prepare,
    .forward = dt_conv_forward,
    .backward = dt_conv_data,
    .weights = dt_conv_weights,
    .destroy = dt_conv_destroy,
};

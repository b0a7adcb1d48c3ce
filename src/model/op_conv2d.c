/* op_conv2d.c - convolution (cross-correlation, as in every framework) of NHWC images: any kernel,
 * stride and padding on four sides, optional bias. Weights are HWIO in the slab, OIHW in files. And
 * the linear layer, which is a 1x1 convolution of one pixel: an image of more than one is read as
 * one of h * w * c features in NHWC order; in files they are channel by channel. */
#include "kernels/kernel.h"
#include "loops.h"

/* ---- Definition ------------------------------------------------------------------ */

static dt_status conv2d_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    return dt_infer_window(n, in, n->attr.out, out);
}

static dt_status linear_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    *out = (dt_shape){in->n, 1, 1, n->attr.out};
    return DT_OK;
}

/* A weight of shape dim [rank], then, if attr.bias, a bias of attr.out numbers. */
static void conv_declare(dt_net *net, dt_node *n, int rank, const int64_t *dim)
{
    const dt_attr *a = &n->attr;
    const float *weight = a->init_weight, *bias = a->init_bias;
    const bool normal = weight[0] == weight[1] && weight[0] > 0;

    dt_declare_param(net, n, "weight", DT_WEIGHT, rank, dim,
                     (dt_init){weight[0], weight[1], normal, a->dirac});
    if (a->bias)
        dt_declare_param(net, n, "bias", DT_BIAS, 1, &a->out,
                         (dt_init){.low = bias[0], .high = bias[1]});
}

static void conv2d_declare(dt_net *net, dt_node *n, const dt_shape *in)
{
    const dt_attr *a = &n->attr;
    const int64_t oihw[4] = {a->out, in->c, a->kernel[0], a->kernel[1]};

    conv_declare(net, n, 4, oihw);
}

static void linear_declare(dt_net *net, dt_node *n, const dt_shape *in)
{
    const int64_t oi[2] = {n->attr.out, in->h * in->w * in->c};

    conv_declare(net, n, 2, oi);
    net->param[n->param[0]].pixels = in->h * in->w;
}

/* ---- Kernels ---------------------------------------------------------------------- */

/* in, a: image, and kernel, stride and padding, as the kernels see them. */
static dt_conv conv_of(const dt_step *s, const dt_shape *in, const dt_attr *a)
{
    return (dt_conv){.n = in->n,
                     .ih = in->h,
                     .iw = in->w,
                     .ic = in->c,
                     .oh = s->out_shape.h,
                     .ow = s->out_shape.w,
                     .oc = s->out_shape.c,
                     .kernel = {a->kernel[0], a->kernel[1]},
                     .stride = {a->stride[0], a->stride[1]},
                     .pad = {a->pad[0], a->pad[1], a->pad[2], a->pad[3]},
                     .bias = s->attr.bias,
                     .type = s->in_type[0],
                     .out_type = s->out_type,
                     .threads = s->threads};
}

dt_rows dt_conv2d_rows(const dt_step *s, dt_pass pass)
{
    const dt_conv c = conv_of(s, &s->in_shape[0], &s->attr);
    return dt_kernel_rows(&c, pass);
}

static dt_status conv_open(dt_step *s, dt_model *m, dt_conv c, dt_pass pass)
{
    const bool data = pass == DT_PASS_DATA;
    const dt_cut *own = data ? &s->in_cut : &s->out_cut; /* of what the pass writes */
    dt_kernel_info info;

    if (s->cut && own->count == 0)
        return DT_OK;
    c.taken = s->feeds[pass] >= 0;
    DT_TRY(dt_kernel_open(&s->tiles[pass], &c, pass, s->cut ? own : NULL, &info));
    DT_TRY(dt_engine_check(s->tiles[pass], s->node->name));
    snprintf(s->kernels, sizeof s->kernels, "tiles %s", info.backend);
    s->scratch_bytes = DT_MAX(s->scratch_bytes, info.scratch_bytes);
    if (info.packed_bytes > 0)
        DT_TRY(dt_model_add_pack(m, s, s->cut && data, info.layout, info.packed_bytes,
                                 dt_kernel_pack, s->tiles[pass], &s->pack[pass]));
    return DT_OK;
}

static dt_status conv_prepare(dt_step *s, dt_model *m, const dt_shape *in, const dt_attr *a)
{
    const bool want[DT_PASS_COUNT] = {
        [DT_PASS_FORWARD] = true,
        [DT_PASS_DATA] = s->mode == DT_TRAIN && s->wants_d_in[0],
        [DT_PASS_WEIGHTS] = s->mode == DT_TRAIN,
    };

    for (int pass = 0; pass < DT_PASS_COUNT; pass++)
        if (want[pass])
            DT_TRY(conv_open(s, m, conv_of(s, in, a), (dt_pass)pass));
    return DT_OK;
}

static dt_status conv2d_prepare(dt_step *s, dt_model *m)
{
    return conv_prepare(s, m, &s->in_shape[0], &s->attr);
}

static dt_status linear_prepare(dt_step *s, dt_model *m)
{
    const dt_shape *x = &s->in_shape[0], in = {x->n, 1, 1, x->h * x->w * x->c};

    return conv_prepare(s, m, &in, &(dt_attr){.kernel = {1, 1}, .stride = {1, 1}});
}

/* ---- Passes ----------------------------------------------------------------------- */

static void conv_run(const dt_call *c, dt_pass pass, dt_conv_args a)
{
    a.taker = c->feeds[pass];
    if (a.taker)
        a.take = dt_loops_current()->norm_sum[pass == DT_PASS_FORWARD ? DT_FORWARD : DT_BACKWARD];
    a.scratch = c->scratch;
    if (c->step->tiles[pass])
        dt_kernel_run(c->step->tiles[pass], &a);
}

static void conv_forward(const dt_call *c)
{
    conv_run(
        c, DT_PASS_FORWARD,
        (dt_conv_args){
            .x = c->in[0], .y = c->out, .packed = c->packed[DT_PASS_FORWARD], .bias = c->param[1]});
}

static void conv_weights(const dt_call *c)
{
    const size_t first = (size_t)c->step->out_cut.first; /* the own channels' */
    const char *dy = (const char *)c->d_out + first * dt_dtype_bytes(c->step->grad_type);

    conv_run(c, DT_PASS_WEIGHTS,
             (dt_conv_args){.x = c->in[0], .dy = dy, .dw = c->d_param[0], .dbias = c->d_param[1]});
}

/* Behind the weights' pass: what it writes is what the next step reads. */
static void conv_data(const dt_call *c)
{
    conv_run(c, DT_PASS_DATA,
             (dt_conv_args){.dy = c->d_out, .dx = c->d_in[0], .packed = c->packed[DT_PASS_DATA]});
}

const dt_op dt_op_conv2d = {
    .name = "conv2d",
    .saves = DT_SAVE_IN0,
    .infer = conv2d_infer,
    .declare = conv2d_declare,
    .prepare = conv2d_prepare,
    .forward = conv_forward,
    .backward = conv_data,
    .weights = conv_weights,
};

const dt_op dt_op_linear = {
    .name = "linear",
    .saves = DT_SAVE_IN0,
    .infer = linear_infer,
    .declare = linear_declare,
    .prepare = linear_prepare,
    .forward = conv_forward,
    .backward = conv_data,
    .weights = conv_weights,
};

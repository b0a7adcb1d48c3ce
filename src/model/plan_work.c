/* plan_work.c - the least that a step's passes have to compute and to move. */
#include "plan.h"

/* Pairs of an output and a kernel position along one axis that meet a pixel of the image. */
static int64_t work_taps(int64_t in, int64_t out, int kernel, int stride, int pad)
{
    int64_t taps = 0;

    for (int64_t o = 0; o < out; o++) {
        const int64_t first = o * stride - pad, end = first + kernel;
        const int64_t inside = DT_MIN(end, in) - DT_MAX(first, 0);
        taps += DT_MAX(inside, 0);
    }
    return taps;
}

/* The same for all passes: each multiplies every weight with the same pairs of pixels. */
static int64_t work_flops(const dt_step *s)
{
    const dt_shape *in = &s->in_shape[0], *out = &s->out_shape;
    const dt_attr *a = &s->attr;

    if (s->op != &dt_op_conv2d)
        return s->op->macs ? 2 * s->op->macs(s) : 0;
    return 2 * out->n * in->c * out->c *
           work_taps(in->h, out->h, a->kernel[0], a->stride[0], a->pad[0]) *
           work_taps(in->w, out->w, a->kernel[1], a->stride[1], a->pad[1]);
}

static size_t work_tensor(const dt_shape *s, dt_dtype type)
{
    return (size_t)dt_shape_count(s) * dt_dtype_bytes(type);
}

/* The first `count` parameters, or their gradients. pack: a packed copy stands for the weights. */
static size_t work_params(const dt_plan *p, const dt_step *s, int count, int pack)
{
    size_t bytes = 0;

    for (int k = 0; k < DT_MIN(count, s->node->n_param); k++)
        bytes += k == 0 && pack >= 0
                     ? p->model->pack[pack].bytes
                     : p->model->net->param[s->node->param[k]].count * sizeof(float);
    return bytes;
}

static size_t work_forward(const dt_plan *p, int i)
{
    const dt_step *s = &p->step[i];
    size_t bytes = work_params(p, s, DT_MAX_PARAM, s->pack[DT_PASS_FORWARD]) + s->saved_bytes;

    if (s->op == &dt_op_fork)
        return 0; /* its outputs are its input's memory */
    for (int k = 0; k < s->node->n_in; k++)
        bytes += work_tensor(&s->in_shape[k], s->in_type[k]);
    return bytes + work_tensor(&s->out_shape, s->out_type);
}

/* What backward reads of the output's gradient: two readers' two, none of the loss. */
static size_t work_d_out(const dt_plan *p, int i)
{
    const dt_step *s = &p->step[i];
    const size_t bytes = work_tensor(&s->out_shape, s->grad_type);

    if (p->value[s->node->out].grad_block == DT_NO_BLOCK)
        return 0;
    return p->second_out[i] >= 0 ? 2 * bytes : bytes;
}

/* What backward reads again of forward. */
static size_t work_kept(const dt_step *s)
{
    size_t bytes = s->saved_bytes;

    for (int k = 0; k < s->node->n_in; k++)
        if (s->saves & (k == 0 ? DT_SAVE_IN0 : DT_SAVE_IN1))
            bytes += work_tensor(&s->in_shape[k], s->in_type[k]);
    if (s->saves & DT_SAVE_OUT)
        bytes += work_tensor(&s->out_shape, s->out_type);
    return bytes;
}

static size_t work_data(const dt_plan *p, int i)
{
    const dt_step *s = &p->step[i];
    size_t bytes =
        work_params(p, s, 1, s->pack[DT_PASS_DATA]) + work_d_out(p, i); /* no bias, beta */

    if (s->op->weights && !s->wants_d_in[0])
        return 0;
    for (int k = 0; k < s->node->n_in; k++)
        if (s->wants_d_in[k])
            bytes += work_tensor(&s->in_shape[k], s->grad_type);
    return s->op->weights ? bytes : bytes + work_kept(s) + work_params(p, s, DT_MAX_PARAM, -1);
}

static size_t work_weights(const dt_plan *p, int i)
{
    const dt_step *s = &p->step[i];

    return s->op->weights ? work_kept(s) + work_d_out(p, i) + work_params(p, s, DT_MAX_PARAM, -1)
                          : 0;
}

dt_work dt_plan_work(const dt_plan *p, size_t i, dt_pass pass)
{
    static size_t (*const bytes[DT_PASS_COUNT])(const dt_plan *p, int i) = {
        [DT_PASS_FORWARD] = work_forward,
        [DT_PASS_DATA] = work_data,
        [DT_PASS_WEIGHTS] = work_weights,
    };
    dt_work work = {0, 0};

    if (pass == DT_PASS_FORWARD || p->mode == DT_TRAIN)
        work.bytes = (int64_t)bytes[pass](p, (int)i);
    if (work.bytes > 0)
        work.flops = work_flops(&p->step[i]);
    return work;
}

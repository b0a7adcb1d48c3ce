/* conv.c - the body of conv2d and linear: a kernel per pass, packed weights, the calls. */
#include "conv.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct conv_state {
    dt_conv conv;
    dt_tiles *pass[DT_PASS_COUNT]; /* owned; NULL: the pass is not needed */
} conv_state;

/* What bounds mean is said in op.h, dt_attr. */
static dt_init conv_init(const float bound[2])
{
    if (bound[0] == bound[1] && bound[0] > 0)
        return (dt_init){DT_INIT_NORMAL, (double)bound[0], 0};
    return (dt_init){DT_INIT_UNIFORM, (double)bound[0], (double)bound[1]};
}

dt_status dt_conv_declare(dt_net *net, dt_node *n, int rank, const int64_t *dim)
{
    const dt_attr *a = &n->attr;

    DT_TRY(dt_declare_param(net, n, "weight", DT_WEIGHT, rank, dim, conv_init(a->init_weight)));
    return a->bias ? dt_declare_param(net, n, "bias", DT_BIAS, 1, &a->out, conv_init(a->init_bias))
                   : DT_OK;
}

static dt_status conv_open(dt_step *s, dt_model *m, conv_state *v, dt_pass pass)
{
    const bool data = pass == DT_PASS_DATA;
    const dt_cut *own = data ? &s->in_cut : &s->out_cut; /* of what the pass writes */
    dt_kernel_info info;

    if (s->cut && own->count == 0)
        return DT_OK;
    DT_TRY(dt_kernel_open(&v->pass[pass], &v->conv, pass, s->cut ? own : NULL, &info));
    DT_TRY(dt_engine_check(v->pass[pass], s->node->name));
    snprintf(s->kernels, sizeof s->kernels, "tiles %s", info.backend);
    s->scratch_bytes = DT_MAX(s->scratch_bytes, info.scratch_bytes);
    if (info.packed_bytes > 0)
        DT_TRY(dt_model_add_pack(m, s, s->cut && data, info.layout, info.packed_bytes,
                                 dt_kernel_pack, v->pass[pass], &s->pack[pass]));
    return DT_OK;
}

dt_status dt_conv_prepare(dt_step *s, dt_model *m, const dt_shape *in, const dt_attr *a)
{
    const bool want[DT_PASS_COUNT] = {
        [DT_PASS_FORWARD] = true,
        [DT_PASS_DATA] = s->mode == DT_TRAIN && s->wants_d_in[0],
        [DT_PASS_WEIGHTS] = s->mode == DT_TRAIN,
    };
    conv_state *v = NULL;

    DT_TRY(dt_calloc(&v, 1, sizeof *v, "a convolution"));
    v->conv = (dt_conv){.n = in->n,
                        .ih = in->h,
                        .iw = in->w,
                        .ic = in->c,
                        .oh = s->out_shape.h,
                        .ow = s->out_shape.w,
                        .oc = s->out_shape.c,
                        .kernel = {a->kernel[0], a->kernel[1]},
                        .stride = {a->stride[0], a->stride[1]},
                        .pad = {a->pad[0], a->pad[1], a->pad[2], a->pad[3]},
                        .bias = a->bias,
                        .type = s->in_type[0],
                        .out_type = s->out_type,
                        .threads = s->threads};
    s->state = v;
    for (int pass = 0; pass < DT_PASS_COUNT; pass++)
        if (want[pass])
            DT_TRY(conv_open(s, m, v, (dt_pass)pass));
    return DT_OK;
}

static void conv_run(const dt_call *c, dt_pass pass, dt_conv_args a)
{
    const conv_state *v = c->step->state;

    a.scratch = c->scratch;
    if (v->pass[pass])
        dt_kernel_run(v->pass[pass], &a);
}

void dt_conv_forward(const dt_call *c)
{
    conv_run(
        c, DT_PASS_FORWARD,
        (dt_conv_args){
            .x = c->in[0], .y = c->out, .packed = c->packed[DT_PASS_FORWARD], .bias = c->param[1]});
}

void dt_conv_weights(const dt_call *c)
{
    const size_t first = (size_t)c->step->out_cut.first; /* the own channels' */
    const char *dy = (const char *)c->d_out + first * dt_dtype_bytes(c->step->grad_type);

    conv_run(c, DT_PASS_WEIGHTS,
             (dt_conv_args){.x = c->in[0], .dy = dy, .dw = c->d_param[0], .dbias = c->d_param[1]});
}

/* Behind the weights' pass: what it writes is what the next step reads. */
void dt_conv_data(const dt_call *c)
{
    conv_run(c, DT_PASS_DATA,
             (dt_conv_args){.dy = c->d_out, .dx = c->d_in[0], .packed = c->packed[DT_PASS_DATA]});
}

const struct dt_tiles *dt_conv_tiles(const dt_step *s, dt_pass pass)
{
    return ((const conv_state *)s->state)->pass[pass];
}

void dt_conv_destroy(dt_step *s)
{
    conv_state *v = s->state;

    if (!v)
        return;
    for (int pass = 0; pass < DT_PASS_COUNT; pass++)
        dt_kernel_close(v->pass[pass]);
    free(v);
    s->state = NULL;
}

/* onednn.h - a pass of a convolution by oneDNN's own primitives, in the layouts that they like
 * best: the judge of tests/ref/ref_onednn.c and the rival of bench/onednn.c. oneDNN takes as many
 * threads as OpenMP has when a pass is opened. */
#ifndef DT_TEST_ONEDNN_H
#define DT_TEST_ONEDNN_H
#include "model/kernels/kernel.h"
#include "model/plan.h"
#include "naive_op.h"

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

/* Operands; w of a weight gradient is dw, bias is dbias. */
enum { ONEDNN_X, ONEDNN_W, ONEDNN_Y, ONEDNN_BIAS, ONEDNN_OPERANDS };

/* ---- What differs between versions 2 and 3 ---------------------------------------- */

#if DNNL_VERSION_MAJOR < 3
typedef dnnl_memory_desc_t *onednn_md;
typedef const dnnl_memory_desc_t *onednn_const_md;

static inline dnnl_status_t onednn_md_create(onednn_md *md, int rank, const dnnl_dims_t size,
                                             dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    *md = calloc(1, sizeof **md);
    return *md ? dnnl_memory_desc_init_by_tag(*md, rank, size, type, tag) : dnnl_out_of_memory;
}

static inline void onednn_md_destroy(onednn_md md)
{
    free(md);
}
#else
typedef dnnl_memory_desc_t onednn_md;
typedef const_dnnl_memory_desc_t onednn_const_md;
#define onednn_md_create dnnl_memory_desc_create_with_tag
#define onednn_md_destroy dnnl_memory_desc_destroy
#endif

static inline dnnl_status_t onednn_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                            const dt_conv *c, dt_pass pass, const onednn_md *md)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    const onednn_md x = md[ONEDNN_X], w = md[ONEDNN_W], y = md[ONEDNN_Y];
    const onednn_md bias = c->bias ? md[ONEDNN_BIAS] : NULL;
    const dnnl_dims_t stride = {c->stride[0], c->stride[1]}, first = {c->pad[0], c->pad[1]},
                      last = {c->pad[2], c->pad[3]};
#if DNNL_VERSION_MAJOR < 3
    dnnl_convolution_desc_t d;
    const dnnl_status_t s =
        pass == DT_PASS_FORWARD
            ? dnnl_convolution_forward_desc_init(&d, dnnl_forward_training, direct, x, w, bias, y,
                                                 stride, first, last)
        : pass == DT_PASS_DATA
            ? dnnl_convolution_backward_data_desc_init(&d, direct, x, w, y, stride, first, last)
            : dnnl_convolution_backward_weights_desc_init(&d, direct, x, w, bias, y, stride, first,
                                                          last);
    return s == dnnl_success ? dnnl_primitive_desc_create(pd, &d, NULL, engine, NULL) : s;
#else
    const dnnl_dims_t dense = {0};
    return pass == DT_PASS_FORWARD
               ? dnnl_convolution_forward_primitive_desc_create(pd, engine, dnnl_forward_training,
                                                                direct, x, w, bias, y, stride,
                                                                dense, first, last, NULL)
           : pass == DT_PASS_DATA
               ? dnnl_convolution_backward_data_primitive_desc_create(
                     pd, engine, direct, x, w, y, stride, dense, first, last, NULL, NULL)
               : dnnl_convolution_backward_weights_primitive_desc_create(
                     pd, engine, direct, x, w, bias, y, stride, dense, first, last, NULL, NULL);
#endif
}

/* ---- A pass ------------------------------------------------------------------------ */

/* Bytes that make some 0.75 in float32 and in bf16: pages that nothing was written to are one. */
enum { ONEDNN_ANY_NUMBER = 0x3f };

typedef struct onednn_pass {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arg[ONEDNN_OPERANDS]; /* in the layouts that oneDNN likes, */
    dt_slab memory[ONEDNN_OPERANDS];      /* on huge pages, as dtrain's are */
    int operands;
    dnnl_dims_t size[ONEDNN_OPERANDS];
    dnnl_data_type_t type[ONEDNN_OPERANDS]; /* as dtrain has them: weights and biases in float32 */
} onednn_pass;

/* DT_UNSUPPORTED: there is no such pass for this CPU. */
static inline dt_status onednn_check(dnnl_status_t s, const char *what)
{
    const dnnl_version_t *v = dnnl_version();

    return s == dnnl_success ? DT_OK
                             : dt_fail(s == dnnl_out_of_memory ? DT_NOMEM : DT_UNSUPPORTED,
                                       "oneDNN %d.%d.%d, %s: %s", v->major, v->minor, v->patch,
                                       what, dnnl_status2str(s));
}

static inline dt_status onednn_prepare(onednn_pass *o, const dt_conv *c, dt_pass pass,
                                       dnnl_primitive_desc_t *pd, onednn_md *md)
{
    static const int arg[DT_PASS_COUNT][ONEDNN_OPERANDS] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, 0},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_BIAS}};

    DT_TRY(onednn_check(dnnl_engine_create(&o->engine, dnnl_cpu, 0), "engine"));
    DT_TRY(onednn_check(dnnl_stream_create(&o->stream, o->engine, 0U), "stream"));
    for (int i = 0; i < ONEDNN_OPERANDS; i++) {
        const bool vector = i == ONEDNN_BIAS, rounded = i == ONEDNN_W && pass != DT_PASS_WEIGHTS;
        DT_TRY(onednn_check(onednn_md_create(&md[i], vector ? 1 : 4, o->size[i],
                                             o->type[rounded ? ONEDNN_X : i],
                                             vector ? dnnl_x : dnnl_format_tag_any),
                            "tensor"));
    }
    DT_TRY(onednn_check(onednn_describe(pd, o->engine, c, pass, md), "convolution"));
    for (int i = 0; i < o->operands; i++) {
        onednn_const_md chosen =
            dnnl_primitive_desc_query_md(*pd, dnnl_query_exec_arg_md, arg[pass][i]);
        o->arg[i].arg = arg[pass][i];
        DT_TRY(dt_slab_create(&o->memory[i], dnnl_memory_desc_get_size(chosen), "oneDNN"));
        memset(o->memory[i].mem, ONEDNN_ANY_NUMBER, o->memory[i].bytes);
        DT_TRY(onednn_check(
            dnnl_memory_create(&o->arg[i].memory, chosen, o->engine, o->memory[i].mem), "memory"));
    }
    return onednn_check(dnnl_primitive_create(&o->primitive, *pd), "primitive");
}

/* To be closed whatever the outcome. */
static inline dt_status onednn_open(onednn_pass *o, const dt_conv *c, dt_pass pass)
{
    static const dnnl_data_type_t type[DT_DTYPES] = {[DT_F32] = dnnl_f32, [DT_BF16] = dnnl_bf16};
    const dnnl_data_type_t y = type[pass == DT_PASS_FORWARD ? c->out_type : c->type];
    onednn_md md[ONEDNN_OPERANDS] = {NULL};
    dnnl_primitive_desc_t pd = NULL;

    *o = (onednn_pass){.operands = c->bias && pass != DT_PASS_DATA ? ONEDNN_OPERANDS : ONEDNN_BIAS,
                       .size = {{c->n, c->ic, c->ih, c->iw},
                                {c->oc, c->ic, c->kernel[0], c->kernel[1]},
                                {c->n, c->oc, c->oh, c->ow},
                                {c->oc}},
                       .type = {type[c->type], dnnl_f32, y, dnnl_f32}};
    const dt_status st = onednn_prepare(o, c, pass, &pd, md);
    for (int i = 0; i < ONEDNN_OPERANDS; i++)
        onednn_md_destroy(md[i]);
    dnnl_primitive_desc_destroy(pd); /* it takes NULL, as all of these do */
    return st;
}

static inline void onednn_close(onednn_pass *o)
{
    for (int i = 0; i < o->operands; i++)
        dnnl_memory_destroy(o->arg[i].memory), dt_slab_destroy(&o->memory[i]);
    dnnl_primitive_destroy(o->primitive);
    dnnl_stream_destroy(o->stream);
    dnnl_engine_destroy(o->engine);
}

static inline dt_status onednn_run(const onednn_pass *o)
{
    const dnnl_status_t s = dnnl_primitive_execute(o->primitive, o->stream, o->operands, o->arg);
    return onednn_check(s == dnnl_success ? dnnl_stream_wait(o->stream) : s, "execute");
}

/* The convolution that step i of a plan is (a linear layer: 1x1 on one pixel); false: none. */
static inline bool onednn_conv_of(const dt_plan *p, int i, dt_conv *c)
{
    const dt_step *s = &p->step[i];

    *c = naive_conv_of(s);
    c->bias = s->attr.bias;
    c->type = s->in_type[0];
    c->out_type = s->out_type;
    c->threads = s->threads;
    return strcmp(s->op->name, "linear") == 0 || strcmp(s->op->name, "conv2d") == 0;
}
#endif

/* onednn_desc.c - descriptions of convolution passes and of weights for oneDNN. */
#include "onednn_desc.h"

#include <stdlib.h>

dt_status onednn_check(dnnl_status_t s, const char *what)
{
    if (s == dnnl_success)
        return DT_OK;
    const dnnl_version_t *v = dnnl_version();
    return dt_fail(s == dnnl_out_of_memory ? DT_NOMEM : DT_BACKEND, "oneDNN %d.%d.%d, %s: %s",
                   v->major, v->minor, v->patch, what, dnnl_status2str(s));
}

const char *onednn_implementation(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return name ? name : "?";
}

/* ---- What differs between versions 2 and 3 ----------------------------------------- */

/* The tensors of one pass, in terms of its operands (w is dw in the weight gradient). */
enum { TENSOR_X, TENSOR_W, TENSOR_Y, TENSOR_BIAS, TENSOR_COUNT };
typedef struct onednn_operands {
    onednn_md owned[TENSOR_COUNT];
    onednn_const_md x, w, y, bias; /* of these, or others' weights; bias: NULL for none */
    dnnl_dims_t stride, before, after;
} onednn_operands;

/* onednn_describe_conv: the description of a pass, to be destroyed. hint: the forward one, for
 * gradients. */
#if DNNL_VERSION_MAJOR < 3

static dnnl_status_t onednn_md_create(onednn_md *md, int dims, const dnnl_dims_t size,
                                      dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    *md = calloc(1, sizeof **md);
    return *md ? dnnl_memory_desc_init_by_tag(*md, dims, size, type, tag) : dnnl_out_of_memory;
}

static void onednn_md_destroy(onednn_md md)
{
    free(md);
}

static dnnl_status_t onednn_describe_conv(dnnl_primitive_desc_t *pd, dt_pass pass,
                                          const onednn_operands *t, dnnl_primitive_desc_t hint,
                                          dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_convolution_desc_t d;
    dnnl_status_t s;

    if (pass == DT_PASS_FORWARD)
        s = dnnl_convolution_forward_desc_init(&d, dnnl_forward_training, direct, t->x, t->w,
                                               t->bias, t->y, t->stride, t->before, t->after);
    else if (pass == DT_PASS_DATA)
        s = dnnl_convolution_backward_data_desc_init(&d, direct, t->x, t->w, t->y, t->stride,
                                                     t->before, t->after);
    else
        s = dnnl_convolution_backward_weights_desc_init(&d, direct, t->x, t->w, t->bias, t->y,
                                                        t->stride, t->before, t->after);
    return s == dnnl_success ? dnnl_primitive_desc_create(pd, &d, attr, engine, hint) : s;
}

#else

static dnnl_status_t onednn_md_create(onednn_md *md, int dims, const dnnl_dims_t size,
                                      dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(md, dims, size, type, tag);
}

static void onednn_md_destroy(onednn_md md)
{
    dnnl_memory_desc_destroy(md);
}

static dnnl_status_t onednn_describe_conv(dnnl_primitive_desc_t *pd, dt_pass pass,
                                          const onednn_operands *t, dnnl_primitive_desc_t hint,
                                          dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    static const dnnl_dims_t dense = {0};
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;

    if (pass == DT_PASS_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(
            pd, engine, dnnl_forward_training, direct, t->x, t->w, t->bias, t->y, t->stride, dense,
            t->before, t->after, attr);
    if (pass == DT_PASS_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(
            pd, engine, direct, t->x, t->w, t->y, t->stride, dense, t->before, t->after, hint,
            attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(pd, engine, direct, t->x, t->w,
                                                                   t->bias, t->y, t->stride, dense,
                                                                   t->before, t->after, hint, attr);
}

#endif

/* ---- Passes ---------------------------------------------------------------------- */

static dt_status onednn_operands_init(onednn_operands *o, const dt_conv *c, int64_t n)
{
    const dnnl_dims_t x = {n, c->ic, c->ih, c->iw}, y = {n, c->oc, c->oh, c->ow};
    const dnnl_dims_t w = {c->oc, c->ic, c->kernel[0], c->kernel[1]}, bias = {c->oc};
    const dnnl_status_t got[] = {
        onednn_md_create(&o->owned[TENSOR_X], 4, x, dnnl_f32, dnnl_nhwc),
        onednn_md_create(&o->owned[TENSOR_W], 4, w, dnnl_f32, dnnl_format_tag_any),
        onednn_md_create(&o->owned[TENSOR_Y], 4, y, dnnl_f32, dnnl_nhwc),
        onednn_md_create(&o->owned[TENSOR_BIAS], 1, bias, dnnl_f32, dnnl_a),
    };

    for (size_t i = 0; i < DT_COUNT_OF(got); i++)
        DT_TRY(onednn_check(got[i], "tensor description"));
    o->x = o->owned[TENSOR_X];
    o->w = o->owned[TENSOR_W];
    o->y = o->owned[TENSOR_Y];
    return DT_OK;
}

dt_status onednn_conv_create(dnnl_primitive_desc_t *pd, const onednn_library *l, const dt_conv *c,
                             dt_pass pass, int64_t n, onednn_const_md like)
{
    const bool forward = pass == DT_PASS_FORWARD;
    dnnl_primitive_desc_t hint = NULL;
    onednn_operands o = {.stride = {c->stride[0], c->stride[1]},
                         .before = {c->pad[0], c->pad[1]},
                         .after = {c->pad[2], c->pad[3]}};
    dt_status st;

    DT_GO(st, onednn_operands_init(&o, c, n), out);
    if (forward && like)
        o.w = like;
    if (forward && c->bias)
        o.bias = o.owned[TENSOR_BIAS];
    DT_GO(st,
          onednn_check(onednn_describe_conv(forward ? pd : &hint, DT_PASS_FORWARD, &o, NULL,
                                            l->attr, l->engine),
                       "forward convolution"),
          out);
    if (forward)
        goto out;
    if (like)
        o.w = like;
    st = onednn_check(onednn_describe_conv(pd, pass, &o, hint, l->attr, l->engine),
                      "backward convolution");
out:
    dnnl_primitive_desc_destroy(hint);
    for (int i = 0; i < TENSOR_COUNT; i++)
        onednn_md_destroy(o.owned[i]);
    return st;
}

dt_status onednn_reorder_create(dnnl_primitive_desc_t *pd, const onednn_library *l,
                                const dt_conv *c, onednn_const_md packed, bool pack)
{
    const dnnl_dims_t w = {c->oc, c->ic, c->kernel[0], c->kernel[1]};
    onednn_md slab = NULL;
    dnnl_status_t s = onednn_md_create(&slab, 4, w, dnnl_f32, dnnl_hwio);

    if (s == dnnl_success)
        s = dnnl_reorder_primitive_desc_create(pd, pack ? slab : packed, l->engine,
                                               pack ? packed : slab, l->engine, l->attr);
    onednn_md_destroy(slab);
    return onednn_check(s, "reorder of weights");
}

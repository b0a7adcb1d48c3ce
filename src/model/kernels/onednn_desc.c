/* onednn_desc.c - descriptions of convolution passes and of weight layouts for oneDNN. */
#include "onednn_desc.h"
#include "onednn_limits.h"

#include <inttypes.h>
#include <stdio.h>

dt_status onednn_check(dnnl_status_t s, const char *what)
{
    if (s == dnnl_success)
        return DT_OK;
    const dnnl_version_t *v = dnnl_version();
    return dt_fail(s == dnnl_out_of_memory ? DT_NOMEM : DT_BACKEND,
                   "oneDNN %d.%d.%d, %s: %s (try --kernels blas with --precision fp32)", v->major,
                   v->minor, v->patch, what, dnnl_status2str(s));
}

/* ---- Passes ---------------------------------------------------------------------- */

enum { TENSOR_X, TENSOR_W, TENSOR_Y, TENSOR_DW, TENSOR_BIAS, TENSOR_COUNT };
typedef struct onednn_tensors {
    onednn_md of[TENSOR_COUNT]; /* owned */
} onednn_tensors;

static dnnl_data_type_t onednn_type(dt_dtype t)
{
    return t == DT_BF16 ? dnnl_bf16 : dnnl_f32;
}

static void onednn_tensors_release(onednn_tensors *t)
{
    for (int i = 0; i < TENSOR_COUNT; i++)
        onednn_md_destroy(t->of[i]);
}

static dt_status onednn_tensors_init(onednn_tensors *t, const dt_conv *c, dt_pass pass, int64_t n)
{
    const dnnl_data_type_t type = onednn_type(c->type);
    const dnnl_data_type_t y_type = pass == DT_PASS_FORWARD ? onednn_type(c->out_type) : type;
    const dnnl_dims_t x = {n, c->ic, c->ih, c->iw}, y = {n, c->oc, c->oh, c->ow};
    const dnnl_dims_t w = {c->oc, c->ic, c->kernel[0], c->kernel[1]}, bias = {c->oc};
    const dnnl_format_tag_t any = dnnl_format_tag_any;
    const dnnl_status_t got[] = {
        onednn_md_create(&t->of[TENSOR_X], 4, x, type, dnnl_nhwc),
        onednn_md_create(&t->of[TENSOR_W], 4, w, type, any),
        onednn_md_create(&t->of[TENSOR_Y], 4, y, y_type, dnnl_nhwc),
        onednn_md_create(&t->of[TENSOR_DW], 4, w, dnnl_f32, any),
        onednn_md_create(&t->of[TENSOR_BIAS], 1, bias, dnnl_f32, dnnl_a),
    };

    for (size_t i = 0; i < DT_COUNT_OF(got); i++)
        DT_TRY(onednn_check(got[i], "tensor description"));
    return DT_OK;
}

dt_status onednn_conv_create(dnnl_primitive_desc_t *pd, const onednn_library *l, const dt_conv *c,
                             dt_pass pass, int64_t n, onednn_const_md like)
{
    const bool forward = pass == DT_PASS_FORWARD;
    dnnl_primitive_desc_t hint = NULL;
    const char *avoid = NULL;
    onednn_tensors t = {{0}};
    onednn_operands o;
    dt_status st;

    DT_GO(st, onednn_tensors_init(&t, c, pass, n), out);
    o = (onednn_operands){.x = t.of[TENSOR_X],
                          .w = forward && like ? like : t.of[TENSOR_W],
                          .y = t.of[TENSOR_Y],
                          .bias = forward && c->bias ? t.of[TENSOR_BIAS] : NULL,
                          .stride = {c->stride[0], c->stride[1]},
                          .before = {c->pad[0], c->pad[1]},
                          .after = {c->pad[2], c->pad[3]}};
    DT_GO(st,
          onednn_check(onednn_describe_conv(forward ? pd : &hint, DT_PASS_FORWARD, &o, NULL,
                                            l->attr, l->engine, NULL),
                       "forward convolution"),
          out);
    if (forward)
        goto out;
    if (like || pass == DT_PASS_WEIGHTS)
        o.w = like ? like : t.of[TENSOR_DW];
    if (pass == DT_PASS_WEIGHTS && onednn_amx_loops(c) && dnnl_version()->major < 3)
        avoid = "amx";
    else if (pass == DT_PASS_WEIGHTS && onednn_overruns(c))
        avoid = "_1x1";
    st = onednn_check(onednn_describe_conv(pd, pass, &o, hint, l->attr, l->engine, avoid),
                      "backward convolution");
out:
    dnnl_primitive_desc_destroy(hint);
    onednn_tensors_release(&t);
    return st;
}

dt_status onednn_pack_create(dnnl_primitive_desc_t *pd, const onednn_library *l, const dt_conv *c,
                             onednn_const_md packed)
{
    const dnnl_dims_t w = {c->oc, c->ic, c->kernel[0], c->kernel[1]};
    onednn_md master = NULL;
    dnnl_status_t s = onednn_md_create(&master, 4, w, dnnl_f32, dnnl_hwio);

    if (s == dnnl_success)
        s = dnnl_reorder_primitive_desc_create(pd, master, l->engine, packed, l->engine, l->attr);
    onednn_md_destroy(master);
    return onednn_check(s, "reorder of weights");
}

/* ---- Layouts of weights ---------------------------------------------------------- */

size_t onednn_offset(const onednn_blocks *b, int dim, int64_t at)
{
    int64_t offset = 0, inner = 1;

    for (int k = b->blocks; k-- > 0; inner *= b->block[k])
        if (b->block_dim[k] == dim) {
            offset += at % b->block[k] * inner;
            at /= b->block[k];
        }
    return (size_t)(offset + at * b->stride[dim]);
}

bool onednn_layout(onednn_const_md md, onednn_blocks *b, char *name, size_t size)
{
    size_t bytes, used;

    if (!onednn_md_blocks(md, b) || b->dims != 4)
        return false;
    bytes = dnnl_data_type_size(b->type);
    used = (size_t)snprintf(name, size, "onednn %s", b->type == dnnl_bf16 ? "bf16 " : "fp32 ");
    for (int k = 0; k < b->blocks && used < size; k++)
        used += (size_t)snprintf(name + used, size - used, "%d%c", (int)b->block[k],
                                 "oihw"[b->block_dim[k]]);
    for (int k = 0; k < 4 && used < size; k++) {
        bytes *= (size_t)b->padded[k];
        used += (size_t)snprintf(name + used, size - used, " %c%" PRId64 "/%" PRId64 ":%" PRId64,
                                 "oihw"[k], b -> size[k], b -> padded[k], b -> stride[k]);
    }
    /* Sums that some layouts carry along would need room of their own. */
    return used < size && dnnl_memory_desc_get_size(md) == bytes;
}

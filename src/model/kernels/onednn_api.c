/* onednn_api.c - what differs between versions 2 and 3 of oneDNN. */
#include "onednn_api.h"

#include <stdlib.h>

const char *onednn_implementation(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return name ? name : "?";
}

#if DNNL_VERSION_MAJOR < 3

dnnl_status_t onednn_md_create(onednn_md *md, int dims, const dnnl_dims_t size,
                               dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    *md = calloc(1, sizeof **md);
    return *md ? dnnl_memory_desc_init_by_tag(*md, dims, size, type, tag) : dnnl_out_of_memory;
}

void onednn_md_destroy(onednn_md md)
{
    free(md);
}

bool onednn_md_blocks(onednn_const_md md, onednn_blocks *b)
{
    const dnnl_blocking_desc_t *from = &md->format_desc.blocking;

    if (md->format_kind != dnnl_blocked || md->offset0 != 0)
        return false;
    b->type = md->data_type;
    b->dims = md->ndims;
    b->blocks = from->inner_nblks;
    memcpy(b->size, md->dims, sizeof b->size);
    memcpy(b->padded, md->padded_dims, sizeof b->padded);
    memcpy(b->stride, from->strides, sizeof b->stride);
    memcpy(b->block, from->inner_blks, sizeof b->block);
    memcpy(b->block_dim, from->inner_idxs, sizeof b->block_dim);
    return true;
}

/* The best implementation whose name does not hold `avoid`. */
static dnnl_status_t onednn_pick(dnnl_primitive_desc_t *pd, const void *op_desc,
                                 dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr,
                                 dnnl_engine_t engine, const char *avoid)
{
    dnnl_primitive_desc_iterator_t it = NULL;
    dnnl_status_t s = dnnl_primitive_desc_iterator_create(&it, op_desc, attr, engine, hint);

    for (; s == dnnl_success; s = dnnl_primitive_desc_iterator_next(it)) {
        *pd = dnnl_primitive_desc_iterator_fetch(it);
        if (!*pd)
            s = dnnl_out_of_memory;
        if (!*pd || !avoid || !strstr(onednn_implementation(*pd), avoid))
            break;
        dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
    }
    dnnl_primitive_desc_iterator_destroy(it);
    return s == dnnl_iterator_ends ? dnnl_unimplemented : s;
}

dnnl_status_t onednn_describe_conv(dnnl_primitive_desc_t *pd, dt_pass pass,
                                   const onednn_operands *t, dnnl_primitive_desc_t hint,
                                   dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                                   const char *avoid)
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
    return s == dnnl_success ? onednn_pick(pd, &d, hint, attr, engine, avoid) : s;
}

#else

dnnl_status_t onednn_md_create(onednn_md *md, int dims, const dnnl_dims_t size,
                               dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(md, dims, size, type, tag);
}

void onednn_md_destroy(onednn_md md)
{
    dnnl_memory_desc_destroy(md);
}

static bool onednn_query_dims(onednn_const_md md, dnnl_query_t what, dnnl_dims_t to, int count)
{
    const dnnl_dims_t *from = NULL;

    if (count == 0)
        return true;
    if (dnnl_memory_desc_query(md, what, &from) != dnnl_success || !from)
        return false;
    memcpy(to, *from, (size_t)count * sizeof **from);
    return true;
}

bool onednn_md_blocks(onednn_const_md md, onednn_blocks *b)
{
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    dnnl_dim_t offset = 0;

    return dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) == dnnl_success &&
           kind == dnnl_blocked &&
           dnnl_memory_desc_query(md, dnnl_query_submemory_offset_s64, &offset) == dnnl_success &&
           offset == 0 &&
           dnnl_memory_desc_query(md, dnnl_query_data_type, &b->type) == dnnl_success &&
           dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &b->dims) == dnnl_success &&
           dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &b->blocks) == dnnl_success &&
           onednn_query_dims(md, dnnl_query_dims, b->size, b->dims) &&
           onednn_query_dims(md, dnnl_query_padded_dims, b->padded, b->dims) &&
           onednn_query_dims(md, dnnl_query_strides, b->stride, b->dims) &&
           onednn_query_dims(md, dnnl_query_inner_blks, b->block, b->blocks) &&
           onednn_query_dims(md, dnnl_query_inner_idxs, b->block_dim, b->blocks);
}

dnnl_status_t onednn_describe_conv(dnnl_primitive_desc_t *pd, dt_pass pass,
                                   const onednn_operands *t, dnnl_primitive_desc_t hint,
                                   dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                                   const char *avoid)
{
    static const dnnl_dims_t dense = {0};
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_status_t s;

    if (pass == DT_PASS_FORWARD)
        s = dnnl_convolution_forward_primitive_desc_create(
            pd, engine, dnnl_forward_training, direct, t->x, t->w, t->bias, t->y, t->stride, dense,
            t->before, t->after, attr);
    else if (pass == DT_PASS_DATA)
        s = dnnl_convolution_backward_data_primitive_desc_create(pd, engine, direct, t->x, t->w,
                                                                 t->y, t->stride, dense, t->before,
                                                                 t->after, hint, attr);
    else
        s = dnnl_convolution_backward_weights_primitive_desc_create(
            pd, engine, direct, t->x, t->w, t->bias, t->y, t->stride, dense, t->before, t->after,
            hint, attr);
    while (s == dnnl_success && avoid && strstr(onednn_implementation(*pd), avoid))
        s = dnnl_primitive_desc_next_impl(*pd);
    if (s != dnnl_success) {
        dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
    }
    return s == dnnl_last_impl_reached ? dnnl_unimplemented : s;
}

#endif

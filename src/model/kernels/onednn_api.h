/* onednn_api.h - what differs between versions 2 and 3 of oneDNN, and nothing else;
 * private to the row. Version 3 hides memory descriptions behind pointers and creates a
 * primitive's description in one call instead of two. All functions are Local. */
#ifndef DT_ONEDNN_API_H
#define DT_ONEDNN_API_H
#include "kernel.h"

#include <dnnl.h>
#include <dnnl_debug.h>

#if DNNL_VERSION_MAJOR < 3
typedef dnnl_memory_desc_t *onednn_md;
typedef const dnnl_memory_desc_t *onednn_const_md;
#define ONEDNN_ANY_ISA dnnl_cpu_isa_all
#else
typedef dnnl_memory_desc_t onednn_md;
typedef const_dnnl_memory_desc_t onednn_const_md;
#define ONEDNN_ANY_ISA dnnl_cpu_isa_default
#endif

/* The tensors of one pass, in terms of its operands (w is dw in the weight gradient). */
typedef struct onednn_operands {
    onednn_const_md x, w, y, bias; /* bias: NULL for none */
    dnnl_dims_t stride, before, after;
} onednn_operands;

/* A blocked layout: an index lies at the sum of what its dimension's inner blocks and the
 * stride between whole blocks give. */
typedef struct onednn_blocks {
    dnnl_data_type_t type;
    int dims, blocks;
    dnnl_dims_t size, padded, stride; /* [dims] */
    dnnl_dims_t block, block_dim;     /* [blocks], outermost first */
} onednn_blocks;

/* A description, to be destroyed (NULL is fine). */
dnnl_status_t onednn_md_create(onednn_md *md, int dims, const dnnl_dims_t size,
                               dnnl_data_type_t type, dnnl_format_tag_t tag);
void onednn_md_destroy(onednn_md md);
/* False: not a plain blocked layout. */
bool onednn_md_blocks(onednn_const_md md, onednn_blocks *b);

/* The description of a pass, to be destroyed, by the best implementation whose name does
 * not hold `avoid` (NULL: any). hint: the forward one, for gradients. */
dnnl_status_t onednn_describe_conv(dnnl_primitive_desc_t *pd, dt_pass pass,
                                   const onednn_operands *t, dnnl_primitive_desc_t hint,
                                   dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                                   const char *avoid);
const char *onednn_implementation(const_dnnl_primitive_desc_t pd);
#endif

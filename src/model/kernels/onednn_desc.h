/* onednn_desc.h - descriptions of float32 convolution passes and of their weights for oneDNN,
 * versions 2 and 3; private to the row. All functions are Local. */
#ifndef DT_ONEDNN_DESC_H
#define DT_ONEDNN_DESC_H
#include "kernel.h"

#include <dnnl.h>
#include <dnnl_debug.h>

/* Version 3 hides memory descriptions behind pointers. */
#if DNNL_VERSION_MAJOR < 3
typedef dnnl_memory_desc_t *onednn_md;
typedef const dnnl_memory_desc_t *onednn_const_md;
#define ONEDNN_ANY_ISA dnnl_cpu_isa_all
#else
typedef dnnl_memory_desc_t onednn_md;
typedef const_dnnl_memory_desc_t onednn_const_md;
#define ONEDNN_ANY_ISA dnnl_cpu_isa_default
#endif

typedef struct onednn_library { /* handles that every description needs, borrowed */
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
} onednn_library;

/* DT_OK, or DT_NOMEM or DT_BACKEND with the library's version and words. */
dt_status onednn_check(dnnl_status_t s, const char *what) DT_MUST_CHECK;

/* c's pass over n images, to be destroyed. The weights take the layout of `like`, or the
 * one that oneDNN likes best when it is NULL. */
dt_status onednn_conv_create(dnnl_primitive_desc_t *pd, const onednn_library *l, const dt_conv *c,
                             dt_pass pass, int64_t n, onednn_const_md like) DT_MUST_CHECK;
/* The reorder between the slab's order [kh][kw][ic][oc] and the layout `packed`, to be destroyed.
 *   pack  to `packed`, otherwise from it */
dt_status onednn_reorder_create(dnnl_primitive_desc_t *pd, const onednn_library *l,
                                const dt_conv *c, onednn_const_md packed, bool pack) DT_MUST_CHECK;
/* The library's name of what it chose. */
const char *onednn_implementation(const_dnnl_primitive_desc_t pd);
#endif

/* onednn_desc.h - descriptions of convolution passes and of weight layouts for oneDNN;
 * private to the row. All functions are Local. */
#ifndef DT_ONEDNN_DESC_H
#define DT_ONEDNN_DESC_H
#include "onednn_api.h"

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
/* The reorder from master weights (float32 [kh][kw][ic][oc]) to `packed`, to be
 * destroyed. */
dt_status onednn_pack_create(dnnl_primitive_desc_t *pd, const onednn_library *l, const dt_conv *c,
                             onednn_const_md packed) DT_MUST_CHECK;

/* Where index `at` of dimension `dim` (o, i, h, w) lies, in elements: offsets of a
 * blocked layout are a sum of one term per dimension, whatever the order of its inner
 * blocks. */
size_t onednn_offset(const onednn_blocks *b, int dim, int64_t at);
/* The layout of weights, and as text everything that decides where one lies; false: not
 * a plain blocked layout, or too long. */
bool onednn_layout(onednn_const_md md, onednn_blocks *b, char *name, size_t size);
#endif

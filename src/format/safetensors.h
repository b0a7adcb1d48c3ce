/* safetensors.h - writing the safetensors container, and its types; private to src/format. All
 * functions are Local. */
#ifndef DT_SAFETENSORS_H
#define DT_SAFETENSORS_H
#include "format.h"

typedef struct dt_safetensors_content {
    const dt_tensor *tensor; /* [tensors], in any order: name, dtype, rank, shape */
    size_t tensors;
    const dt_field *metadata; /* [fields] */
    size_t fields;
    /* Write the bytes of tensor[i] to data. */
    void (*fill)(void *context, size_t i, void *data);
    void *context;
} dt_safetensors_content;

/* Write a file as the reference implementation does: tensors by type (widest first),
 * then by name; the header padded to 8 bytes. Errors as dt_outfile_open and dt_outfile_finish; w
 * may be NULL. */
dt_status dt_safetensors_put(const dt_target *t, const dt_safetensors_content *c,
                             dt_written *w) DT_MUST_CHECK;
/* The same to a path. */
dt_status dt_safetensors_write(const char *path, const dt_safetensors_content *c) DT_MUST_CHECK;

/* ---- Types ----------------------------------------------------------------------- */

/* Name and bits of an element, in the order of the reference's enum. */
#define DT_TENSOR_TYPE_LIST(X)                                                                     \
    X(BOOL, 8)                                                                                     \
    X(F4, 4)                                                                                       \
    X(F6_E2M3, 6)                                                                                  \
    X(F6_E3M2, 6)                                                                                  \
    X(U8, 8)                                                                                       \
    X(I8, 8)                                                                                       \
    X(F8_E5M2, 8)                                                                                  \
    X(F8_E4M3, 8)                                                                                  \
    X(F8_E8M0, 8)                                                                                  \
    X(F8_E4M3FNUZ, 8)                                                                              \
    X(F8_E5M2FNUZ, 8)                                                                              \
    X(I16, 16)                                                                                     \
    X(U16, 16)                                                                                     \
    X(F16, 16)                                                                                     \
    X(BF16, 16)                                                                                    \
    X(I32, 32)                                                                                     \
    X(U32, 32)                                                                                     \
    X(F32, 32)                                                                                     \
    X(C64, 64)                                                                                     \
    X(F64, 64)                                                                                     \
    X(I64, 64)                                                                                     \
    X(U64, 64)
typedef struct dt_tensor_type {
    const char *name;
    unsigned bits;
} dt_tensor_type;
/* The row of a name, NULL if there is none; rows compare by address in the list's
 * order. */
const dt_tensor_type *dt_tensor_type_find(const char *name);
/* Bytes of a tensor; false on overflow, or when they are no whole number. */
bool dt_tensor_bytes(const dt_tensor_type *type, int rank, const int64_t *shape,
                     uint64_t *bytes) DT_MUST_CHECK;

#endif

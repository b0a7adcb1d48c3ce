/* safetensors.h - writing the safetensors container, and its types; private to src/format. All
 * functions are Local. */
#ifndef DT_SAFETENSORS_H
#define DT_SAFETENSORS_H
#include "format.h"

/* ---- Texts ----------------------------------------------------------------------- */

/* A shape as "[64, 3, 7, 7]"; returns out. */
enum { DT_SHAPE_CHARS = 200 };
const char *dt_shape_text(int rank, const int64_t *shape, char out[DT_SHAPE_CHARS]);

/* ---- Writing --------------------------------------------------------------------- */

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

/* ---- Types ----------------------------------------------------------------------- */

/* The types of this project's networks and of the formats that they are stored in. */
typedef struct dt_tensor_type {
    const char *name;
    unsigned bytes;
    float (*widen)(uint16_t bits); /* of 16 bits to float32; NULL: another size */
} dt_tensor_type;
/* The row of a name, NULL if there is none; rows lie in one array, narrow ones first. */
const dt_tensor_type *dt_tensor_type_find(const char *name);
/* Bytes of a tensor; false on overflow. */
bool dt_tensor_bytes(const dt_tensor_type *type, int rank, const int64_t *shape,
                     uint64_t *bytes) DT_MUST_CHECK;

#endif

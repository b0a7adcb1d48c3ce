/* safetensors.h - the safetensors container, read strictly and written safely; private
 * to src/store. Layout and rules: github.com/huggingface/safetensors, "Format":
 *
 *     u64 little-endian N | N bytes of JSON | tensors, one behind the other
 *
 * The reader takes nothing on trust: every number is bounded before it is used, all
 * size arithmetic is checked for overflow, and names are data (printed escaped). Beside
 * the format's own rules a header has at most 1 MiB, 4096 tensors and 8 dimensions
 * each. All functions are Local. */
#ifndef DT_SAFETENSORS_H
#define DT_SAFETENSORS_H
#include "durable.h"

enum { DT_TENSOR_MAX_RANK = 8, DT_TENSOR_MAX_COUNT = 4096, DT_TENSOR_MAX_HEADER = 1 << 20 };

typedef struct dt_tensor {
    const char *name;  /* borrowed */
    const char *dtype; /* "F32", "I64", ... */
    int rank;
    int64_t shape[DT_TENSOR_MAX_RANK];
    uint64_t offset, bytes; /* in the file; the writer fills them in itself */
} dt_tensor;

/* ---- Reading --------------------------------------------------------------------- */

typedef struct dt_safetensors dt_safetensors; /* an open file and its header */
/* Open and check a file. DT_NOINPUT: missing, unreadable or not a regular file;
 * DT_FORMAT: anything that the format forbids; DT_IO; DT_NOMEM. */
dt_status dt_safetensors_open(dt_safetensors **f, const char *path) DT_MUST_CHECK;
void dt_safetensors_close(dt_safetensors *f);
/* Tensors in ascending offsets; pointers are valid until close. */
size_t dt_safetensors_count(const dt_safetensors *f);
const dt_tensor *dt_safetensors_get(const dt_safetensors *f, size_t i);
const char *dt_safetensors_metadata(const dt_safetensors *f, const char *key); /* or NULL */
/* One tensor's bytes, or some of them. DT_IO: the disk, or a file that has become shorter. */
dt_status dt_safetensors_read(const dt_safetensors *f, const dt_tensor *t,
                              void *data) DT_MUST_CHECK;
dt_status dt_safetensors_read_part(const dt_safetensors *f, const dt_tensor *t, uint64_t first,
                                   uint64_t bytes, void *data) DT_MUST_CHECK;

/* Whether a float32 holds every number of the tensor's type: F32, F16, BF16. */
bool dt_tensor_is_float(const dt_tensor *t);
/* Such a tensor's numbers as float32, exactly: data has room for one each. Errors as above. */
dt_status dt_safetensors_read_floats(const dt_safetensors *f, const dt_tensor *t,
                                     float *data) DT_MUST_CHECK;

/* A name from a file, quoted, for a message: bytes outside printable ASCII as \xNN,
 * long ones cut. Returns out. */
enum { DT_QUOTED_CHARS = 100 };
const char *dt_quote(const char *name, char out[DT_QUOTED_CHARS]);
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
 * then by name; the header padded to 8 bytes. A temporary file in the same folder is
 * written, synced and renamed, and the folder synced: at any moment `path` is the whole
 * new file or what was there before. DT_CANTCREATE: the folder is missing or not
 * writable; DT_IO: disk full and the like. */
dt_status dt_safetensors_write(const char *path, const dt_safetensors_content *c) DT_MUST_CHECK;
/* Room for that temporary file, of just this content's size: a disk that is full when this
 * process writes has room. dt_safetensors_release gives it back; after a kill,
 * dt_safetensors_sweep does: it removes what any process that wrote to `path` has left, so
 * none may be writing. Errors as dt_safetensors_write; of sweep DT_IO. */
dt_status dt_safetensors_reserve(const char *path, const dt_safetensors_content *c) DT_MUST_CHECK;
/* The same bytes straight into a new file, synced: for a folder that is itself still
 * temporary. `name` is what messages call the file; w may be NULL. */
dt_status dt_safetensors_put(const char *path, const char *name, const dt_safetensors_content *c,
                             dt_written *w) DT_MUST_CHECK;

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

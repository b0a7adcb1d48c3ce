/* tensors.h - files of tensors, whatever their format, and the types that they have; for src/format
 * and formats that extras add. All functions are Local. */
#ifndef DT_TENSORS_H
#define DT_TENSORS_H
#include "format.h"
#include <jansson.h>

struct dt_safetensors {
    char path[PATH_MAX];
    int fd;            /* -1: the file is in memory */
    const char *bytes; /* there, borrowed */
    uint64_t size;     /* of the file */
    json_t *header;    /* owned; names and metadata are borrowed from it */
    dt_tensor *tensor; /* [count], owned, in ascending offsets */
    size_t count;
    /* NULL, or, where the tensors are in other files: dt_safetensors_read of a tensor of the list,
     * and what closes those. */
    dt_status (*read)(const dt_safetensors *f, const dt_tensor *t, void *data);
    void (*close)(dt_safetensors *f);
};
/* A list of at most DT_TENSOR_MAX_RANK integers from 0 to 2^48 - 1; how many, -1: it is none. */
int dt_shape_parse(const json_t *list, int64_t shape[DT_TENSOR_MAX_RANK]);
/* Bytes of the file, which has them. DT_IO; DT_FORMAT: it has become shorter. */
dt_status dt_safetensors_bytes(const dt_safetensors *f, void *data, uint64_t bytes,
                               uint64_t offset) DT_MUST_CHECK;

/* A shape as "[64, 3, 7, 7]"; returns out. */
enum { DT_SHAPE_CHARS = 200 };
const char *dt_shape_text(int rank, const int64_t *shape, char out[DT_SHAPE_CHARS]);

typedef struct dt_safetensors_content {
    /* [tensors], in any order: name, dtype, rank, shape; never an open file's list, since a writer
     * sets offset and bytes. */
    dt_tensor *tensor;
    size_t tensors;
    const dt_field *metadata; /* [fields] */
    size_t fields;
    /* Write the bytes of tensor[i] to data, which is aligned as malloc's. */
    dt_status (*fill)(const void *context, size_t i, void *data);
    const void *context;
    /* For formats other than this one: */
    const dt_net *net;
    const dt_model_file_opts *opts;
} dt_safetensors_content;

/* Write a file as the reference implementation does: tensors by type (widest first), then by name;
 * the header padded to 8 bytes. Errors as dt_outfile_open and dt_outfile_finish; w may be NULL. */
dt_status dt_safetensors_put(const dt_target *t, const dt_safetensors_content *c,
                             dt_written *w) DT_MUST_CHECK;

/* The format of dt_formats that has that name, or, if that is NULL, reads such a path; NULL:
 * there is none. */
const dt_format *dt_format_find(const char *name, const char *path);

/* The types of this project's networks and of the formats that they are stored in. */
typedef struct dt_tensor_type {
    const char *name;
    unsigned bytes;
    float (*widen)(uint16_t bits); /* of 16 bits to float32; NULL: another size */
} dt_tensor_type;
/* The row of a name, NULL if there is none; rows lie in one array, narrow ones first. */
const dt_tensor_type *dt_tensor_type_find(const char *name);
/* Bytes of a tensor, by dtype, rank and shape; false: its type has no row, or on overflow. */
bool dt_tensor_bytes(const dt_tensor *t, uint64_t *bytes) DT_MUST_CHECK;

#endif

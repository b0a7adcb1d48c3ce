/* tensors.c - what files of tensors have in common. */
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>

static const dt_tensor_type tensor_types[] = {{"F16", "Float16", 2, dt_f16_to_f32},
                                              {"BF16", "BFloat16", 2, dt_bf16_to_f32},
                                              {"F32", "Float32", 4, NULL},
                                              {"I64", NULL, 8, NULL}};

const dt_tensor_type *dt_tensor_type_find(const char *name, bool ckpt)
{
    for (size_t i = 0; i < DT_COUNT_OF(tensor_types); i++) {
        const char *own = ckpt ? tensor_types[i].ckpt : tensor_types[i].name;
        if (own && strcmp(own, name) == 0)
            return &tensor_types[i];
    }
    return NULL;
}

bool dt_tensor_bytes(const dt_tensor_type *type, int rank, const int64_t *shape, uint64_t *bytes)
{
    *bytes = type->bytes;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(*bytes, (uint64_t)shape[i], bytes))
            return false;
    return true;
}

bool dt_tensor_put(dt_message *m, unsigned field, const dt_safetensors_content *c, size_t i)
{
    const dt_tensor *t = &c->tensor[i];
    const dt_tensor_type *type = dt_tensor_type_find("F32", false);
    uint64_t bytes = 0;

    if (strcmp(t->dtype, type->name) != 0 || !dt_tensor_bytes(type, t->rank, t->shape, &bytes))
        return false;
    float *data = malloc(bytes); /* in a message it may begin anywhere; fill wants floats */
    m->failed = m->failed || !data || c->fill(c->context, i, data) != DT_OK;
    dt_message_bytes(m, field, data, data ? bytes : 0);
    free(data);
    return true;
}

const char *dt_shape_text(int rank, const int64_t *shape, char out[DT_SHAPE_CHARS])
{
    size_t used = 0;

    out[used++] = '[';
    for (int i = 0; i < rank; i++) /* at most 8 numbers of at most 20 digits */
        used += (size_t)snprintf(out + used, DT_SHAPE_CHARS - used, "%s%lld", i ? ", " : "",
                                 (long long)shape[i]);
    snprintf(out + used, DT_SHAPE_CHARS - used, "]");
    return out;
}

const char *dt_python_text(const char *path, char out[2 * PATH_MAX])
{
    size_t n = 0;

    for (; *path && n < 2 * PATH_MAX - 2; path++) {
        if (*path == '\'' || *path == '\\')
            out[n++] = '\\';
        out[n++] = *path;
    }
    out[n] = '\0';
    dt_log_shown(out);
    return out;
}

dt_status dt_safetensors_bytes(const dt_safetensors *f, void *data, uint64_t bytes, uint64_t offset)
{
    if (f->fd >= 0)
        return dt_file_read_at(f->fd, f->path, (int64_t)offset, data, bytes);
    memcpy(data, f->bytes + offset, bytes); /* within the size, as all offsets are */
    return DT_OK;
}

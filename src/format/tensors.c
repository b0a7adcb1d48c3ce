/* tensors.c - what files of tensors have in common. */
#include "tensors.h"

static const dt_tensor_type tensor_types[] = {
    {"F16", 2, dt_f16_to_f32}, {"BF16", 2, dt_bf16_to_f32}, {"F32", 4, NULL}, {"I64", 8, NULL}};

const dt_tensor_type *dt_tensor_type_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT_OF(tensor_types); i++)
        if (strcmp(tensor_types[i].name, name) == 0)
            return &tensor_types[i];
    return NULL;
}

bool dt_tensor_bytes(const dt_tensor *t, uint64_t *bytes)
{
    const dt_tensor_type *type = dt_tensor_type_find(t->dtype);
    bool good = type != NULL;

    *bytes = good ? type->bytes : 0;
    for (int i = 0; i < t->rank; i++)
        good = good && !__builtin_mul_overflow(*bytes, (uint64_t)t->shape[i], bytes);
    return good;
}

const struct dt_pieces *dt_pieces;
const dt_format *dt_formats;

const dt_format *dt_format_find(const char *name, const char *path)
{
    for (const dt_format *f = dt_formats; f && f->name; f++)
        if (name ? strcmp(f->name, name) == 0 : f->read && dt_path_ends(path, f->end))
            return f;
    return NULL;
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

size_t dt_finite_floats(const float *x, size_t n)
{
    size_t i = 0;

    while (i < n && isfinite(x[i]))
        i++;
    return i;
}

/* safetensors.c - reading: jansson checks the JSON (UTF-8, duplicate keys, trailing bytes,
 * numbers), this file everything that the format says beyond. */
#include "tensors.h"

/* ---- Header ---------------------------------------------------------------------- */

/* Parse the JSON; *data_first is the offset of the tensors' bytes. */
static dt_status header_parse(dt_safetensors *f, uint64_t *data_first)
{
    enum { ZIP = 0x04034b50, PICKLE = 0x80 }; /* how PyTorch's files begin, new and old */
    uint64_t n = 0; /* little-endian, as this machine is (safetensors_write.c) */
    char *text = NULL;
    json_error_t error = {.text = "'{' expected, which begins a header"};
    dt_status st = DT_OK;

    if (f->size < sizeof n)
        return dt_fail(DT_FORMAT, "%s has %llu bytes: too short for a safetensors file", f->path,
                       (unsigned long long)f->size);
    DT_TRY(dt_safetensors_bytes(f, &n, sizeof n, 0));
    if ((uint32_t)n == ZIP || ((n & 255) == PICKLE && n > DT_TENSOR_MAX_HEADER))
        return dt_fail(DT_FORMAT,
                       "%s: a pickle of PyTorch may run any code, so it is not read; make a model "
                       "file of it in Python: import torch, safetensors.torch as s; "
                       "d = torch.load('%s', 'cpu', weights_only=True); "
                       "d = d.get('state_dict', d.get('model', d.get('net', d))); s.save_file("
                       "{k: v.contiguous() for k, v in d.items()}, 'model.safetensors')",
                       f->path, dt_python_text(f->path, (char[2 * PATH_MAX]){""}));
    if (n > DT_TENSOR_MAX_HEADER || n > f->size - sizeof n)
        return dt_fail(DT_FORMAT,
                       "%s: the header's length is %llu, the file has %llu bytes and at most %d "
                       "are read: it was cut short, or is no safetensors file",
                       f->path, (unsigned long long)n, (unsigned long long)f->size,
                       DT_TENSOR_MAX_HEADER);
    DT_TRY(dt_calloc(&text, n + 1, 1, "the model file's header"));
    DT_GO(st, dt_safetensors_bytes(f, text, n, sizeof n), out);
    f->header = text[0] == '{' ? json_loadb(text, n, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!f->header)
        st = dt_fail(DT_FORMAT, "%s: header, line %d column %d (byte %d): %s", f->path, error.line,
                     error.column, error.position, error.text);
    *data_first = sizeof n + n;

out:
    free(text);
    return st;
}

int dt_shape_parse(const json_t *list, int64_t shape[DT_TENSOR_MAX_RANK])
{
    bool good = json_is_array(list) && json_array_size(list) <= DT_TENSOR_MAX_RANK;
    const int rank = good ? (int)json_array_size(list) : 0;

    for (int i = 0; i < rank; i++) {
        const json_t *j = json_array_get(list, (size_t)i);
        shape[i] = json_integer_value(j);
        good = good && json_is_integer(j) && shape[i] >= 0 && shape[i] < INT64_C(1) << 48;
    }
    return good ? rank : -1;
}

/* Offsets become those of the file. */
static dt_status parse_tensor(const char *key, json_t *j, uint64_t data_first, dt_tensor *t)
{
    char text[DT_SHAPE_CHARS];
    const char *dtype = NULL;
    json_t *shape = NULL;
    json_int_t begin = 0, end = 0;

    if (json_unpack_ex(j, NULL, JSON_STRICT, "{s:s, s:o, s:[I, I]}", "dtype", &dtype, "shape",
                       &shape, "data_offsets", &begin, &end) != 0)
        return dt_fail(DT_FORMAT, "expected a dtype, a shape and data_offsets of two whole "
                                  "numbers, and no other key");
    const dt_tensor_type *type = dt_tensor_type_find(dtype);
    if (!type)
        return dt_fail(DT_FORMAT, "dtype '%.80s' is not read, but F32, F16, BF16 and I64", dtype);
    t->name = key;
    t->dtype = type->name;
    t->rank = dt_shape_parse(shape, t->shape);
    if (t->rank < 0 || !dt_tensor_bytes(t, &t->bytes))
        return dt_fail(DT_FORMAT,
                       "the shape is not a list of at most %d whole numbers from 0 to 2^48-1, with "
                       "a product below 2^61",
                       DT_TENSOR_MAX_RANK);
    if (begin < 0 || end < begin || end >= INT64_C(1) << 48 || (uint64_t)(end - begin) != t->bytes)
        return dt_fail(DT_FORMAT, "data_offsets [%lld, %lld] do not fit %s %s of %llu bytes",
                       (long long)begin, (long long)end, type->name,
                       dt_shape_text(t->rank, t->shape, text), (unsigned long long)t->bytes);
    t->offset = data_first + (uint64_t)begin; /* < 2^48 + 2^21 */
    return DT_OK;
}

static int by_offset(const void *a, const void *b)
{
    const dt_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty ones first */
}

/* No holes, no overlap, nothing after the last tensor. */
static dt_status check_cover(const dt_safetensors *f, uint64_t data_first)
{
    uint64_t at = data_first;

    for (size_t i = 0; i < f->count; i++) {
        const dt_tensor *t = &f->tensor[i];
        if (t->offset != at)
            return dt_fail(DT_FORMAT,
                           "%s: tensor '%.80s' begins at byte %llu of the data, the "
                           "one before it ends at %llu: they must follow each other "
                           "without hole or overlap",
                           f->path, t->name, (unsigned long long)(t->offset - data_first),
                           (unsigned long long)(at - data_first));
        at += t->bytes; /* 4096 times at most 2^48 */
    }
    if (at != f->size)
        return dt_fail(DT_FORMAT, "%s has %llu bytes, its tensors end at %llu: it %s", f->path,
                       (unsigned long long)f->size, (unsigned long long)at,
                       at < f->size ? "has trailing bytes" : "was cut short");
    return DT_OK;
}

static dt_status header_check(dt_safetensors *f, uint64_t data_first)
{
    const bool metadata = json_object_get(f->header, "__metadata__") != NULL;
    const size_t tensors = json_object_size(f->header) - metadata;
    const char *key;
    json_t *value;

    if (tensors > DT_TENSOR_MAX_COUNT)
        return dt_fail(DT_FORMAT, "%s has %zu tensors, at most %d are read", f->path, tensors,
                       DT_TENSOR_MAX_COUNT);
    DT_TRY(dt_calloc(&f->tensor, tensors + 1, sizeof *f->tensor, "the list of tensors"));
    json_object_foreach (f->header, key, value) {
        if (strcmp(key, "__metadata__") == 0)
            continue;
        const dt_status st = parse_tensor(key, value, data_first, &f->tensor[f->count++]);
        if (st != DT_OK)
            return dt_fail_place(st, "%s: tensor '%.80s': ", f->path, key);
    }
    qsort(f->tensor, f->count, sizeof *f->tensor, by_offset);
    return check_cover(f, data_first);
}

/* ---- The open file --------------------------------------------------------------- */

dt_status dt_safetensors_open(dt_safetensors **out, const char *path, const char *bytes,
                              size_t length)
{
    dt_safetensors *f = NULL;
    int64_t size = (int64_t)length;
    uint64_t data_first = 0;
    uint8_t first = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&f, 1, sizeof *f, "a model file"));
    f->fd = -1;
    f->bytes = bytes;
    snprintf(f->path, sizeof f->path, "%s", path);
    if (!bytes)
        DT_GO(st, dt_file_open(AT_FDCWD, path, &f->fd, &size), out);
    f->size = (uint64_t)size;
    DT_GO(st, dt_safetensors_bytes(f, &first, size > 0, 0), out);
    const bool pickle = first == 'P' || first == 0x80; /* of PyTorch, whatever its name ends in */
    const dt_format *other = pickle ? NULL : dt_format_find(NULL, path);
    if (other) {
        DT_GO(st, other->read(f), out);
    } else {
        DT_GO(st, header_parse(f, &data_first), out);
        DT_GO(st, header_check(f, data_first), out);
    }
    *out = f;
    f = NULL;

out:
    dt_safetensors_close(f);
    return st;
}

void dt_safetensors_close(dt_safetensors *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->close)
        f->close(f);
    json_decref(f->header);
    free(f->tensor);
    free(f);
}

const char *dt_safetensors_metadata(const dt_safetensors *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key));
}

/* Narrow numbers are read to the room's second half, which widening them from the first
 * on never overtakes. */
dt_status dt_safetensors_read(const dt_safetensors *f, const dt_tensor *t, void *data)
{
    const dt_tensor_type *type = dt_tensor_type_find(t->dtype);
    const size_t count = t->bytes / type->bytes;
    char *narrow = (char *)data + (type->widen ? count * (sizeof(float) - type->bytes) : 0);
    float *wide = data;

    if (f->read)
        return f->read(f, t, data);
    DT_TRY(dt_safetensors_bytes(f, narrow, t->bytes, t->offset));
    for (size_t i = 0; i < count && type->widen; i++) {
        uint16_t bits;
        memcpy(&bits, narrow + i * sizeof bits, sizeof bits);
        wide[i] = type->widen(bits);
    }
    return DT_OK;
}

/* safetensors.c - reading: jansson checks the JSON (UTF-8, duplicate keys, trailing bytes,
 * numbers), this file everything that the format says beyond. */
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct dt_safetensors {
    char *path;        /* owned */
    int fd;            /* -1: the file is in memory */
    const char *bytes; /* there, borrowed */
    uint64_t size;     /* of the file */
    json_t *header;    /* owned; names and metadata are borrowed from it */
    dt_tensor *tensor; /* [count], owned, by offset */
    size_t count;
};

/* ---- Types and texts ------------------------------------------------------------- */

static const dt_tensor_type tensor_types[] = {
#define X(name, bits) {#name, bits},
    DT_TENSOR_TYPE_LIST(X)
#undef X
};

const dt_tensor_type *dt_tensor_type_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT_OF(tensor_types); i++)
        if (strcmp(tensor_types[i].name, name) == 0)
            return &tensor_types[i];
    return NULL;
}

bool dt_tensor_bytes(const dt_tensor_type *type, int rank, const int64_t *shape, uint64_t *bytes)
{
    uint64_t bits = type->bits;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bits, (uint64_t)shape[i], &bits))
            return false;
    *bytes = bits / 8;
    return bits % 8 == 0;
}

const char *dt_quote(const char *name, char out[DT_QUOTED_CHARS])
{
    size_t used = 0;

    out[used++] = '\'';
    for (const char *at = name; *at; at++) {
        const unsigned char c = (unsigned char)*at;
        if (used + sizeof "\\xff...'" > DT_QUOTED_CHARS) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (c >= 0x20 && c < 0x7f && c != '\\' && c != '\'')
            out[used++] = *at;
        else
            used += (size_t)snprintf(out + used, DT_QUOTED_CHARS - used, "\\x%02x", c);
    }
    out[used++] = '\'';
    out[used] = '\0';
    return out;
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

/* ---- Bytes ----------------------------------------------------------------------- */

static dt_status file_read(const dt_safetensors *f, void *data, uint64_t bytes, uint64_t offset)
{
    char *to = data;

    if (f->fd < 0) {
        memcpy(to, f->bytes + offset, bytes); /* within the size, as all offsets are */
        return DT_OK;
    }
    while (bytes > 0) {
        const ssize_t n = pread(f->fd, to, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_fail(DT_IO, "%s: reading byte %llu: %s", f->path, (unsigned long long)offset,
                           strerror(errno));
        if (n == 0)
            return dt_fail(DT_IO,
                           "%s ends at byte %llu of %llu: it has changed while it "
                           "was read",
                           f->path, (unsigned long long)offset, (unsigned long long)f->size);
        to += n;
        bytes -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return DT_OK;
}

/* Without O_NONBLOCK, opening a pipe would wait for its writer. */
static dt_status file_open(dt_safetensors *f, const char *path)
{
    struct stat info;

    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0)
        return dt_fail(errno == EIO || errno == ESTALE || errno == EMFILE || errno == ENFILE ? DT_IO
                       : errno == ENOMEM ? DT_NOMEM
                                         : DT_NOINPUT,
                       "model file %s: %s", path, strerror(errno));
    if (fstat(f->fd, &info) != 0)
        return dt_fail(DT_IO, "model file %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return dt_fail(DT_NOINPUT,
                       "model file %s is %s, not a file: name a "
                       ".safetensors file",
                       path, S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    f->size = (uint64_t)info.st_size;
    return DT_OK;
}

/* ---- Header ---------------------------------------------------------------------- */

/* Parse the JSON; *data_first is the offset of the tensors' bytes. */
static dt_status header_parse(dt_safetensors *f, uint64_t *data_first)
{
    unsigned char length[8];
    uint64_t n = 0;
    char *text = NULL;
    json_error_t error;
    dt_status st = DT_OK;

    if (f->size < sizeof length)
        return dt_fail(DT_FORMAT, "%s has %llu bytes: too short for a safetensors file", f->path,
                       (unsigned long long)f->size);
    DT_TRY(file_read(f, length, sizeof length, 0));
    for (size_t i = sizeof length; i-- > 0;)
        n = n << 8 | length[i];
    if (n > DT_TENSOR_MAX_HEADER)
        return dt_fail(DT_FORMAT,
                       "%s: the header's length is %llu, at most %d bytes are "
                       "read: not a safetensors file, or damaged",
                       f->path, (unsigned long long)n, DT_TENSOR_MAX_HEADER);
    if (n > f->size - sizeof length)
        return dt_fail(DT_FORMAT,
                       "%s: the header's length is %llu, but the file has %llu "
                       "bytes: it was cut short",
                       f->path, (unsigned long long)n, (unsigned long long)f->size);
    DT_TRY(dt_calloc(&text, n + 1, 1, "the model file's header"));
    DT_GO(st, file_read(f, text, n, sizeof length), out);
    if (text[0] != '{') {
        st = dt_fail(DT_FORMAT,
                     "%s: the header begins with byte 0x%02x, not with '{': not "
                     "a safetensors file",
                     f->path, (unsigned char)text[0]);
        goto out;
    }
    f->header = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (!f->header) {
        char *quoted = strstr(error.text, " near "); /* what follows is the file's, raw */
        if (quoted)
            *quoted = '\0';
        st = dt_fail(DT_FORMAT, "%s: header, line %d column %d (byte %d): %s", f->path, error.line,
                     error.column, error.position, error.text);
    }
    *data_first = sizeof length + n;

out:
    free(text);
    return st;
}

/* 0 <= integer < 2^48, the format's schema; neither reals such as 1.0 nor strings. */
static bool json_size(const json_t *j, int64_t *out)
{
    *out = json_integer_value(j);
    return json_is_integer(j) && *out >= 0 && *out < INT64_C(1) << 48;
}

static dt_status check_metadata(const dt_safetensors *f, json_t *metadata)
{
    char quoted[DT_QUOTED_CHARS];
    const char *key;
    json_t *value;

    if (!json_is_object(metadata))
        return dt_fail(DT_FORMAT, "%s: __metadata__ is not an object", f->path);
    json_object_foreach (metadata, key, value)
        if (!json_is_string(value))
            return dt_fail(DT_FORMAT, "%s: __metadata__: the value of %s is not a string", f->path,
                           dt_quote(key, quoted));
    return DT_OK;
}

static dt_status parse_shape(const dt_safetensors *f, const char *name, const json_t *shape,
                             dt_tensor *t)
{
    const size_t rank = json_array_size(shape);

    if (!json_is_array(shape) || rank > DT_TENSOR_MAX_RANK)
        return dt_fail(DT_FORMAT,
                       "%s: tensor %s: the shape is not a list of at most %d "
                       "numbers",
                       f->path, name, DT_TENSOR_MAX_RANK);
    t->rank = (int)rank;
    for (size_t i = 0; i < rank; i++)
        if (!json_size(json_array_get(shape, i), &t->shape[i]))
            return dt_fail(DT_FORMAT,
                           "%s: tensor %s: dimension %zu is not a whole number "
                           "from 0 to 2^48-1",
                           f->path, name, i);
    return DT_OK;
}

/* Schema and depth in one: each of the three values has its one form, none nests deeper
 * than an array of integers, and other keys are refused. Offsets become those of the
 * file. */
static dt_status parse_tensor(const dt_safetensors *f, const char *key, const json_t *j,
                              uint64_t data_first, dt_tensor *t)
{
    char name[DT_QUOTED_CHARS], other[DT_QUOTED_CHARS], shape[DT_SHAPE_CHARS];
    const json_t *dtype = json_object_get(j, "dtype");
    const json_t *offsets = json_object_get(j, "data_offsets");
    int64_t begin, end;
    uint64_t bytes = 0;

    dt_quote(key, name);
    if (!json_is_object(j) || json_object_size(j) != 3 || !dtype || !offsets ||
        !json_object_get(j, "shape"))
        return dt_fail(DT_FORMAT,
                       "%s: tensor %s must have the keys dtype, shape and "
                       "data_offsets, and no others",
                       f->path, name);
    const dt_tensor_type *type =
        json_is_string(dtype) ? dt_tensor_type_find(json_string_value(dtype)) : NULL;
    if (!type)
        return dt_fail(
            DT_FORMAT, "%s: tensor %s: dtype %s is not one of the format's", f->path, name,
            json_is_string(dtype) ? dt_quote(json_string_value(dtype), other) : "(not a string)");
    DT_TRY(parse_shape(f, name, json_object_get(j, "shape"), t));
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !json_size(json_array_get(offsets, 0), &begin) ||
        !json_size(json_array_get(offsets, 1), &end) || end < begin)
        return dt_fail(DT_FORMAT,
                       "%s: tensor %s: data_offsets is not [begin, end] with 0 <= "
                       "begin <= end < 2^48",
                       f->path, name);
    if (!dt_tensor_bytes(type, t->rank, t->shape, &bytes))
        return dt_fail(DT_FORMAT,
                       "%s: tensor %s: %s %s is no whole number of bytes below "
                       "2^61",
                       f->path, name, type->name, dt_shape_text(t->rank, t->shape, shape));
    if ((uint64_t)(end - begin) != bytes)
        return dt_fail(DT_FORMAT,
                       "%s: tensor %s: data_offsets [%lld, %lld] hold %lld bytes, "
                       "but %s %s has %llu",
                       f->path, name, (long long)begin, (long long)end, (long long)(end - begin),
                       type->name, dt_shape_text(t->rank, t->shape, shape),
                       (unsigned long long)bytes);
    t->name = key;
    t->dtype = type->name;
    t->offset = data_first + (uint64_t)begin; /* < 2^48 + 2^21 */
    t->bytes = bytes;
    return DT_OK;
}

static int by_offset(const void *a, const void *b)
{
    const dt_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty ones first */
}

/* No holes, no overlap, nothing behind the last tensor. */
static dt_status check_cover(const dt_safetensors *f, uint64_t data_first)
{
    char name[DT_QUOTED_CHARS];
    uint64_t at = data_first;

    for (size_t i = 0; i < f->count; i++) {
        const dt_tensor *t = &f->tensor[i];
        if (t->offset != at)
            return dt_fail(DT_FORMAT,
                           "%s: tensor %s begins at byte %llu of the data, the "
                           "one before it ends at %llu: they must follow each other "
                           "without hole or overlap",
                           f->path, dt_quote(t->name, name),
                           (unsigned long long)(t->offset - data_first),
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
            DT_TRY(check_metadata(f, value));
        else
            DT_TRY(parse_tensor(f, key, value, data_first, &f->tensor[f->count++]));
    }
    qsort(f->tensor, f->count, sizeof *f->tensor, by_offset);
    return check_cover(f, data_first);
}

/* ---- The open file --------------------------------------------------------------- */

static dt_status safetensors_open(dt_safetensors **out, const char *path, const char *bytes,
                                  size_t length)
{
    dt_safetensors *f = NULL;
    uint64_t data_first = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&f, 1, sizeof *f, "a model file"));
    f->fd = -1;
    f->bytes = bytes;
    f->size = length;
    f->path = strdup(path);
    if (!f->path) {
        st = dt_fail(DT_NOMEM, "no memory to open %s", path);
        goto out;
    }
    DT_GO(st, bytes ? DT_OK : file_open(f, path), out);
    DT_GO(st, header_parse(f, &data_first), out);
    DT_GO(st, header_check(f, data_first), out);
    *out = f;
    f = NULL;

out:
    dt_safetensors_close(f);
    return st;
}

dt_status dt_safetensors_open(dt_safetensors **f, const char *path)
{
    return safetensors_open(f, path, NULL, 0);
}

dt_status dt_safetensors_open_bytes(dt_safetensors **f, const char *path, const char *bytes,
                                    size_t length)
{
    return safetensors_open(f, path, bytes, length);
}

void dt_safetensors_close(dt_safetensors *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    json_decref(f->header);
    free(f->tensor);
    free(f->path);
    free(f);
}

size_t dt_safetensors_count(const dt_safetensors *f)
{
    return f->count;
}

const dt_tensor *dt_safetensors_get(const dt_safetensors *f, size_t i)
{
    return &f->tensor[i];
}

const char *dt_safetensors_metadata(const dt_safetensors *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key));
}

dt_status dt_safetensors_read(const dt_safetensors *f, const dt_tensor *t, void *data)
{
    return file_read(f, data, t->bytes, t->offset);
}

dt_status dt_safetensors_read_part(const dt_safetensors *f, const dt_tensor *t, uint64_t first,
                                   uint64_t bytes, void *data)
{
    return file_read(f, data, bytes, t->offset + first);
}

/* ---- Floats ---------------------------------------------------------------------- */

typedef struct float_type {
    const char *dtype;
    float (*widen)(uint16_t bits); /* NULL: it is float32 already */
} float_type;

static const float_type *float_type_find(const dt_tensor *t)
{
    static const float_type rows[] = {
        {"F32", NULL}, {"F16", dt_f16_to_f32}, {"BF16", dt_bf16_to_f32}};
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++)
        if (strcmp(rows[i].dtype, t->dtype) == 0)
            return &rows[i];
    return NULL;
}

bool dt_tensor_is_float(const dt_tensor *t)
{
    return float_type_find(t) != NULL;
}

/* The narrow numbers are read to the room's second half, which widening them from the first
 * on never overtakes. */
dt_status dt_safetensors_read_floats(const dt_safetensors *f, const dt_tensor *t, float *data)
{
    const float_type *type = float_type_find(t);
    const size_t count = t->bytes / sizeof(uint16_t);

    if (!type)
        return dt_fail(DT_BUG, "a tensor of %s is read as floats", t->dtype);
    if (!type->widen)
        return dt_safetensors_read(f, t, data);
    const char *narrow = (const char *)data + t->bytes;
    DT_TRY(dt_safetensors_read(f, t, (char *)data + t->bytes));
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, narrow + i * sizeof bits, sizeof bits);
        data[i] = type->widen(bits);
    }
    return DT_OK;
}

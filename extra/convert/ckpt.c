/* ckpt.c - MindSpore's .ckpt, one message of protobuf:
 *
 *     Checkpoint { repeated Value value = 1; }
 *     Value      { string tag = 1; TensorProto tensor = 2; }
 *     TensorProto { repeated int64 dims = 1; string tensor_type = 2; bytes tensor_content = 3; }
 *
 * and after it, where MindSpore was asked for a checksum, "crc_num" and ten bytes. */
#include "formats.h"

enum { FILE_VALUE = 1, VALUE_TAG = 1, VALUE_TENSOR };
enum { TENSOR_DIMS = 1, TENSOR_TYPE, TENSOR_CONTENT };
enum { TAG_CHARS = 256 };

/* ---- Writing --------------------------------------------------------------------- */

bool dt_tensor_put(dt_message *m, unsigned field, const dt_safetensors_content *c, size_t i)
{
    const dt_tensor *t = &c->tensor[i];
    uint64_t bytes = 0;

    if (strcmp(t->dtype, "F32") != 0 || !dt_tensor_bytes(t, &bytes))
        return false;
    float *data = malloc(bytes); /* in a message it may begin anywhere; fill wants floats */
    m->failed = m->failed || !data || c->fill(c->context, i, data) != DT_OK;
    dt_message_bytes(m, field, data, data ? bytes : 0);
    free(data);
    return true;
}

dt_status dt_ckpt_put(const dt_target *t, const dt_safetensors_content *c, dt_written *w)
{
    dt_message m = {.at = NULL};

    for (size_t i = 0; i < c->tensors; i++) {
        dt_message tensor = {.at = NULL}, value = {.at = NULL};
        for (int k = 0; k < c->tensor[i].rank; k++)
            dt_message_int(&tensor, TENSOR_DIMS, c->tensor[i].shape[k]);
        dt_message_text(&tensor, TENSOR_TYPE, "Float32");
        dt_message_text(&value, VALUE_TAG, c->tensor[i].name);
        if (dt_tensor_put(&tensor, TENSOR_CONTENT, c, i)) {
            dt_message_inner(&value, VALUE_TENSOR, &tensor);
            dt_message_inner(&m, FILE_VALUE, &value);
        }
        dt_message_release(&tensor);
        dt_message_release(&value);
    }
    return dt_message_put(&m, t, w);
}

/* ---- Fields ---------------------------------------------------------------------- */

typedef struct span {
    uint64_t at, end; /* bytes of the file */
} span;

typedef struct field {
    unsigned number;
    bool bytes; /* else the body is one number */
    span body;
} field;

static dt_status misread(const dt_safetensors *f, uint64_t at, const char *what)
{
    return dt_fail(DT_FORMAT,
                   "%s: byte %llu: %s: it was cut short, damaged, or is no checkpoint of MindSpore",
                   f->path, (unsigned long long)at, what);
}

/* A number of at most 64 bits in at most ten bytes. */
static dt_status read_varint(const dt_safetensors *f, span *in, uint64_t *x)
{
    uint8_t b[10] = {0};
    const uint64_t room = DT_MIN(in->end - in->at, sizeof b);

    DT_TRY(dt_safetensors_bytes(f, b, room, in->at));
    *x = 0;
    for (unsigned i = 0; i < room; i++) {
        *x |= (uint64_t)(b[i] & 127) << 7 * i;
        if (b[i] < 128 && (i < 9 || b[i] < 2)) {
            in->at += i + 1;
            return DT_OK;
        }
    }
    return misread(f, in->at, "a number does not end");
}

/* The message's next field, of the two wire types that the format has. */
static dt_status read_field(const dt_safetensors *f, span *in, field *x)
{
    const uint64_t began = in->at;
    uint64_t key = 0, value = 0;

    DT_TRY(read_varint(f, in, &key));
    x->body.at = in->at;
    DT_TRY(read_varint(f, in, &value));
    x->bytes = (key & 7) == DT_WIRE_BYTES;
    if ((!x->bytes && (key & 7) != DT_WIRE_VARINT) || key >> 3 < 1 || key >> 3 > TENSOR_CONTENT)
        return misread(f, began, "a field is none of the format's");
    if (x->bytes && value > in->end - in->at)
        return misread(f, began, "a field is longer than what holds it");
    x->number = (unsigned)(key >> 3);
    if (x->bytes) { /* the value was their number */
        x->body.at = in->at;
        in->at += value;
    }
    x->body.end = in->at;
    return DT_OK;
}

static dt_status read_text(const dt_safetensors *f, const field *x, char out[TAG_CHARS])
{
    const size_t n = x->bytes ? (size_t)(x->body.end - x->body.at) : TAG_CHARS;

    if (n >= TAG_CHARS || out[0])
        return misread(f, x->body.at, "a name is too long, no text, or a second one");
    DT_TRY(dt_safetensors_bytes(f, out, n, x->body.at));
    return n == 0 || strnlen(out, n) < n ? misread(f, x->body.at, "a name is empty or has a zero")
                                         : DT_OK;
}

/* ---- Tensors --------------------------------------------------------------------- */

/* One dimension, or, packed, all. */
static dt_status read_dims(const dt_safetensors *f, span in, dt_tensor *t)
{
    uint64_t dim = 0;

    while (in.at < in.end) {
        DT_TRY(read_varint(f, &in, &dim));
        if (t->rank == DT_TENSOR_MAX_RANK || dim >= UINT64_C(1) << 48)
            return misread(f, in.at, "a shape has more than 8 numbers, or one of 2^48 or more");
        t->shape[t->rank++] = (int64_t)dim;
    }
    return DT_OK;
}

/* dtype stays NULL where the type is none of those that are read. */
static dt_status read_tensor(const dt_safetensors *f, span in, dt_tensor *t)
{
    static const dt_field types[] = {{"Float32", "F32"}, {"Float16", "F16"}, {"BFloat16", "BF16"}};
    char type[TAG_CHARS] = "";
    field x = {0};

    while (in.at < in.end) {
        DT_TRY(read_field(f, &in, &x));
        if (x.number == TENSOR_DIMS)
            DT_TRY(read_dims(f, x.body, t));
        else if (x.number == TENSOR_TYPE)
            DT_TRY(read_text(f, &x, type));
        else if (!x.bytes || t->offset)
            return misread(f, x.body.at, "a tensor's numbers are none, or there twice");
        else
            t->offset = x.body.at, t->bytes = x.body.end - x.body.at;
    }
    for (size_t i = 0; i < DT_COUNT_OF(types); i++)
        if (strcmp(type, types[i].name) == 0)
            t->dtype = types[i].value;
    return DT_OK;
}

static dt_status read_value(dt_safetensors *f, span in)
{
    char tag[TAG_CHARS] = "";
    dt_tensor t = {.name = NULL};
    const uint64_t began = in.at;
    uint64_t bytes = 0;
    bool found = false;
    field x = {0};

    while (in.at < in.end) {
        DT_TRY(read_field(f, &in, &x));
        if (x.number == VALUE_TAG)
            DT_TRY(read_text(f, &x, tag));
        else if (x.number != VALUE_TENSOR || !x.bytes || found)
            return misread(f, x.body.at, "a value is no tensor, or two");
        else
            DT_TRY(read_tensor(f, x.body, &t));
        found = found || x.number == VALUE_TENSOR;
    }
    if (!tag[0] || !found)
        return misread(f, began, "a value has no name or no tensor");
    /* An optimiser's: "moments.conv1.weight", and scalars, which MindSpore 1 writes as [0]. */
    if (!t.dtype || !strchr(tag, '.') || strncmp(tag, "moment", 6) == 0 ||
        strncmp(tag, "accum.", 6) == 0 || strncmp(tag, "stat.", 5) == 0)
        return DT_OK;
    if (!t.offset || !dt_tensor_bytes(&t, &bytes) || bytes != t.bytes)
        return misread(f, began, "a tensor's shape does not fit its numbers");
    if (f->count == DT_TENSOR_MAX_COUNT || json_object_get(f->header, tag) ||
        json_object_set_new(f->header, tag, json_null()) != 0)
        return misread(f, began, "a name is there twice or no UTF-8, or there are more than 4096");
    t.name = json_object_iter_key(json_object_iter_at(f->header, tag));
    f->tensor[f->count++] = t;
    return DT_OK;
}

dt_status dt_ckpt_read(dt_safetensors *f)
{
    static const char mark[] = "crc_num";
    enum { MARK = sizeof mark - 1, TRAILER = MARK + 10 };
    span in = {0, f->size};
    char end[MARK] = "";

    if (f->size > TRAILER)
        DT_TRY(dt_safetensors_bytes(f, end, MARK, f->size - TRAILER));
    if (memcmp(end, mark, MARK) == 0)
        in.end -= TRAILER;
    DT_TRY(dt_calloc(&f->tensor, DT_TENSOR_MAX_COUNT, sizeof *f->tensor, "the list of tensors"));
    f->header = json_object();
    if (!f->header)
        return dt_fail(DT_NOMEM, "%s: no memory for its names", f->path);
    while (in.at < in.end) {
        field x = {0};
        DT_TRY(read_field(f, &in, &x));
        if (x.number != FILE_VALUE || !x.bytes)
            return misread(f, x.body.at, "a field is no value");
        DT_TRY(read_value(f, x.body));
    }
    return f->count > 0 ? DT_OK : misread(f, 0, "there is no tensor");
}

/* safetensors_write.c - header, bytes, and a file that is there whole or not at all. */
#include "safetensors.h"

#include <jansson.h>
#include <stdlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie");

enum { PREFIX = 8 }; /* bytes of the header's length */

/* ---- Header ---------------------------------------------------------------------- */

typedef struct write_row {
    const dt_tensor *tensor;
    const dt_tensor_type *type;
    size_t index; /* in the caller's list */
    uint64_t bytes;
} write_row;

static int by_type_and_name(const void *a, const void *b)
{
    const write_row *x = a, *y = b;
    if (x->type != y->type)
        return x->type > y->type ? -1 : 1;
    return strcmp(x->tensor->name, y->tensor->name);
}

static dt_status rows_create(const dt_safetensors_content *c, write_row **out)
{
    write_row *rows = NULL;

    if (c->tensors > DT_TENSOR_MAX_COUNT)
        return dt_fail(DT_BUG, "%zu tensors in one file", c->tensors);
    DT_TRY(dt_calloc(&rows, c->tensors + 1, sizeof *rows, "the list of tensors"));
    for (size_t i = 0; i < c->tensors; i++) {
        const dt_tensor *t = &c->tensor[i];
        write_row *r = &rows[i];
        *r = (write_row){t, dt_tensor_type_find(t->dtype), i, 0};
        if (!r->type || t->rank > DT_TENSOR_MAX_RANK ||
            !dt_tensor_bytes(r->type, t->rank, t->shape, &r->bytes)) {
            free(rows);
            return dt_fail(DT_BUG, "tensor %s has no size", t->name);
        }
    }
    qsort(rows, c->tensors, sizeof *rows, by_type_and_name);
    *out = rows;
    return DT_OK;
}

/* {"dtype":...,"shape":[...],"data_offsets":[...]}; NULL without memory. */
static json_t *header_entry(const write_row *r, uint64_t begin)
{
    json_t *shape = json_array();
    for (int i = 0; i < r->tensor->rank; i++)
        json_array_append_new(shape, json_integer(r->tensor->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", r->type->name, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + r->bytes));
}

static json_t *header_metadata(const dt_safetensors_content *c)
{
    json_t *j = json_object();
    for (size_t i = 0; j && i < c->fields; i++)
        if (json_object_set_new(j, c->metadata[i].name, json_string(c->metadata[i].value))) {
            json_decref(j);
            j = NULL;
        }
    return j;
}

/* The header's text, padded with spaces to a multiple of 8; *out is freed by free(). */
static dt_status header_text(const dt_safetensors_content *c, const write_row *rows, char **out,
                             size_t *length)
{
    json_t *header = json_object();
    uint64_t at = 0;
    int bad = header ? 0 : -1;
    char *text = NULL;
    dt_status st = DT_OK;

    if (c->fields > 0)
        bad |= json_object_set_new(header, "__metadata__", header_metadata(c));
    for (size_t i = 0; i < c->tensors; i++) {
        bad |= json_object_set_new(header, rows[i].tensor->name, header_entry(&rows[i], at));
        at += rows[i].bytes;
    }
    const size_t n = bad ? 0 : json_dumpb(header, NULL, 0, JSON_COMPACT);
    const size_t padded = dt_align(n, 8);
    if (n == 0 || padded > DT_TENSOR_MAX_HEADER ||
        json_object_size(header) != c->tensors + (c->fields > 0)) {
        st = dt_fail(DT_BUG, "%zu tensors make no safetensors header", c->tensors);
        goto out;
    }
    DT_GO(st, dt_calloc(&text, padded, 1, "the model file's header"), out);
    memset(text, ' ', padded);
    json_dumpb(header, text, n, JSON_COMPACT);
    *out = text;
    *length = padded;

out:
    json_decref(header);
    return st;
}

/* ---- The whole ------------------------------------------------------------------- */

typedef struct write_parts {
    write_row *rows; /* owned, like the next two */
    char *header;
    void *buffer;  /* room for the largest tensor */
    size_t length; /* of the header */
    uint64_t total;
} write_parts;

static void parts_destroy(write_parts *p)
{
    free(p->buffer);
    free(p->header);
    free(p->rows);
}

static dt_status parts_create(write_parts *p, const dt_safetensors_content *c)
{
    uint64_t largest = 1;

    DT_TRY(rows_create(c, &p->rows));
    DT_TRY(header_text(c, p->rows, &p->header, &p->length));
    p->total = PREFIX + p->length;
    for (size_t i = 0; i < c->tensors; i++) {
        p->total += p->rows[i].bytes;
        largest = p->rows[i].bytes > largest ? p->rows[i].bytes : largest;
    }
    return dt_calloc(&p->buffer, largest, 1, "a tensor to write");
}

static dt_status write_content(dt_outfile *f, const dt_safetensors_content *c, const write_parts *p)
{
    unsigned char prefix[PREFIX];

    for (size_t i = 0; i < sizeof prefix; i++)
        prefix[i] = (unsigned char)(p->length >> 8 * i);
    DT_TRY(dt_outfile_write(f, prefix, sizeof prefix));
    DT_TRY(dt_outfile_write(f, p->header, p->length));
    for (size_t i = 0; i < c->tensors; i++) {
        c->fill(c->context, p->rows[i].index, p->buffer);
        DT_TRY(dt_outfile_write(f, p->buffer, p->rows[i].bytes));
    }
    return DT_OK;
}

dt_status dt_safetensors_put(const dt_target *t, const dt_safetensors_content *c, dt_written *w)
{
    write_parts p = {0};
    dt_outfile f = {.fd = -1};
    dt_status st = DT_OK;

    DT_GO(st, parts_create(&p, c), out);
    DT_GO(st, dt_outfile_open(&f, t, p.total), out);
    DT_GO(st, write_content(&f, c, &p), out);
    st = dt_outfile_finish(&f, w);

out:
    dt_outfile_abandon(&f);
    parts_destroy(&p);
    return st;
}

dt_status dt_safetensors_write(const char *path, const dt_safetensors_content *c)
{
    const dt_target t = dt_target_path(path);
    return dt_safetensors_put(&t, c, NULL);
}

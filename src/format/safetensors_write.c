/* safetensors_write.c - writing: the header, then the tensors' bytes. */
#include "tensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie");

enum { PREFIX = 8 }; /* bytes of the header's length */

static int by_type_and_name(const void *a, const void *b)
{
    const dt_tensor *x = *(dt_tensor *const *)a, *y = *(dt_tensor *const *)b;
    const dt_tensor_type *of_x = dt_tensor_type_find(x->dtype);
    const dt_tensor_type *of_y = dt_tensor_type_find(y->dtype);

    return of_x != of_y ? (of_x > of_y ? -1 : 1) : strcmp(x->name, y->name);
}

/* Sort the tensors and place them; *room: bytes of the largest. */
static dt_status place(dt_tensor **sorted, const dt_safetensors_content *c, uint64_t *room)
{
    uint64_t at = 0;

    for (size_t i = 0; i < c->tensors; i++) {
        dt_tensor *t = sorted[i] = &c->tensor[i];
        if (t->rank > DT_TENSOR_MAX_RANK || !dt_tensor_bytes(t, &t->bytes))
            return dt_fail(DT_BUG, "tensor %s has no size", t->name);
        *room = DT_MAX(*room, t->bytes);
    }
    qsort(sorted, c->tensors, sizeof *sorted, by_type_and_name);
    for (size_t i = 0; i < c->tensors; i++) {
        sorted[i]->offset = at;
        at += sorted[i]->bytes;
    }
    return DT_OK;
}

/* {"dtype":...,"shape":[...],"data_offsets":[...]}; NULL without memory. */
static json_t *header_entry(const dt_tensor *t)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->rank; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape, "data_offsets",
                     (json_int_t)t->offset, (json_int_t)(t->offset + t->bytes));
}

/* The length and the header, padded with spaces to a multiple of 8; *out is freed by free(). */
static dt_status header_text(const dt_safetensors_content *c, dt_tensor *const *sorted, char **out,
                             size_t *length)
{
    json_t *header = json_object(), *metadata = json_object();
    int bad = header && metadata ? 0 : -1;
    dt_status st = DT_OK;

    for (size_t i = 0; i < c->fields; i++)
        if (c->metadata[i].value)
            bad |= json_object_set_new(metadata, c->metadata[i].name,
                                       json_string(c->metadata[i].value));
    if (c->fields > 0)
        bad |= json_object_set(header, "__metadata__", metadata);
    for (size_t i = 0; i < c->tensors; i++)
        bad |= json_object_set_new(header, sorted[i]->name, header_entry(sorted[i]));
    const size_t n = bad ? 0 : json_dumpb(header, NULL, 0, JSON_COMPACT);
    const size_t padded = dt_align(n, 8);
    if (n == 0 || padded > DT_TENSOR_MAX_HEADER || c->tensors > DT_TENSOR_MAX_COUNT ||
        json_object_size(header) != c->tensors + (c->fields > 0))
        st = dt_fail(DT_BUG, "%zu tensors make no safetensors header", c->tensors);
    else
        st = dt_calloc(out, PREFIX + padded, 1, "the model file's header");
    if (st == DT_OK) {
        memset(*out + PREFIX, ' ', padded);
        json_dumpb(header, *out + PREFIX, n, JSON_COMPACT);
        memcpy(*out, &(uint64_t){padded}, PREFIX);
        *length = PREFIX + padded;
    }
    json_decref(metadata);
    json_decref(header);
    return st;
}

dt_status dt_safetensors_put(const dt_target *t, const dt_safetensors_content *c, dt_written *w)
{
    dt_tensor **sorted = NULL;
    char *header = NULL;
    char *buffer = NULL;
    uint64_t room = 1;
    size_t length = 0;
    dt_outfile f = {.fd = -1};
    dt_status st = DT_OK;

    DT_GO(st, dt_calloc(&sorted, c->tensors + 1, sizeof *sorted, "the list of tensors"), out);
    DT_GO(st, place(sorted, c, &room), out);
    DT_GO(st, header_text(c, sorted, &header, &length), out);
    DT_GO(st, dt_calloc(&buffer, room, 1, "a tensor to write"), out);
    DT_GO(st, dt_outfile_open(&f, t), out);
    DT_GO(st, dt_outfile_write(&f, header, length), out);
    for (size_t i = 0; i < c->tensors; i++) {
        DT_GO(st, c->fill(c->context, (size_t)(sorted[i] - c->tensor), buffer), out);
        DT_GO(st, dt_outfile_write(&f, buffer, sorted[i]->bytes), out);
    }
    st = dt_outfile_finish(&f, w);

out:
    dt_outfile_abandon(&f);
    DT_FREE(buffer, header, sorted);
    return st;
}

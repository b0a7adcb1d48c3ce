/* tensor_message.c - messages with tensors, written to a file one tensor at a time. */
#include "tensor_message.h"

#include <stdlib.h>

/* Bytes of its numbers; 0: it is none of float32. */
static uint64_t tensor_bytes(const dt_tensor *t)
{
    const dt_tensor_type *type = dt_tensor_type_find("F32");
    uint64_t bytes = 0;

    return strcmp(t->dtype, type->name) == 0 && dt_tensor_bytes(type, t->rank, t->shape, &bytes)
               ? bytes
               : 0;
}

dt_status dt_tensor_message_bytes(const dt_safetensors_content *c, dt_tensor_head *head,
                                  uint64_t *bytes)
{
    dt_message m = {.at = NULL};

    *bytes = 0;
    for (size_t i = 0; i < c->tensors; i++) {
        const uint64_t numbers = tensor_bytes(&c->tensor[i]);
        if (numbers > 0)
            head(&m, &c->tensor[i], numbers);
        *bytes += numbers;
    }
    *bytes += m.bytes;
    const dt_status st = dt_message_check(&m);
    dt_message_release(&m);
    return st;
}

static dt_status put_tensor(dt_outfile *f, const dt_safetensors_content *c, size_t i,
                            dt_tensor_head *head, void *buffer)
{
    const uint64_t bytes = tensor_bytes(&c->tensor[i]);
    dt_message m = {.at = NULL};
    dt_status st = DT_OK;

    if (bytes == 0)
        return DT_OK;
    head(&m, &c->tensor[i], bytes);
    DT_GO(st, dt_message_check(&m), out);
    DT_GO(st, dt_outfile_write(f, m.at, m.bytes), out);
    c->fill(c->context, i, buffer);
    st = dt_outfile_write(f, buffer, bytes);

out:
    dt_message_release(&m);
    return st;
}

dt_status dt_tensor_message_put(const dt_target *t, const dt_message *front,
                                const dt_safetensors_content *c, dt_tensor_head *head,
                                dt_written *w)
{
    void *buffer = NULL;
    uint64_t room = 1;
    dt_outfile f = {.fd = -1};
    dt_status st = DT_OK;

    for (size_t i = 0; i < c->tensors; i++)
        room = DT_MAX(room, tensor_bytes(&c->tensor[i]));
    DT_TRY(dt_message_check(front));
    DT_TRY(dt_calloc(&buffer, room, 1, "a tensor to write"));
    DT_GO(st, dt_outfile_open(&f, t), out);
    DT_GO(st, dt_outfile_write(&f, front->at, front->bytes), out);
    for (size_t i = 0; i < c->tensors; i++)
        DT_GO(st, put_tensor(&f, c, i, head, buffer), out);
    st = dt_outfile_finish(&f, w);

out:
    dt_outfile_abandon(&f);
    free(buffer);
    return st;
}

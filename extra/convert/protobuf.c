/* protobuf.c - messages of Protocol Buffers, written into memory that grows. */
#include "formats.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie");

void dt_message_release(dt_message *m)
{
    free(m->at);
    *m = (dt_message){.at = NULL};
}

dt_status dt_message_check(const dt_message *m)
{
    return m->failed ? dt_fail(DT_NOMEM, "no memory for a message of %zu bytes", m->bytes) : DT_OK;
}

void dt_message_raw(dt_message *m, const void *data, size_t bytes)
{
    if (m->bytes + bytes > m->room && !m->failed) {
        const size_t room = 2 * (m->bytes + bytes);
        uint8_t *at = realloc(m->at, room);
        m->failed = at == NULL;
        m->at = at ? at : m->at;
        m->room = at ? room : m->room;
    }
    if (m->failed || bytes == 0)
        return;
    memcpy(m->at + m->bytes, data, bytes);
    m->bytes += bytes;
}

/* Seven bits a byte, low ones first; the top bit says that more follow. */
static void message_varint(dt_message *m, uint64_t x)
{
    uint8_t bytes[10];
    size_t n = 0;

    for (; x > 127; x >>= 7)
        bytes[n++] = (uint8_t)(x | 128);
    bytes[n++] = (uint8_t)x;
    dt_message_raw(m, bytes, n);
}

void dt_message_int(dt_message *m, unsigned field, int64_t x)
{
    message_varint(m, field << 3 | DT_WIRE_VARINT);
    message_varint(m, (uint64_t)x);
}

void dt_message_float(dt_message *m, unsigned field, float x)
{
    message_varint(m, field << 3 | DT_WIRE_FIXED32);
    dt_message_raw(m, &x, sizeof x);
}

void dt_message_double(dt_message *m, unsigned field, double x)
{
    message_varint(m, field << 3 | DT_WIRE_FIXED64);
    dt_message_raw(m, &x, sizeof x);
}

void dt_message_bytes(dt_message *m, unsigned field, const void *data, size_t bytes)
{
    message_varint(m, field << 3 | DT_WIRE_BYTES);
    message_varint(m, bytes);
    dt_message_raw(m, data, bytes);
}

void dt_message_text(dt_message *m, unsigned field, const char *text)
{
    dt_message_bytes(m, field, text, strlen(text));
}

void dt_message_inner(dt_message *m, unsigned field, dt_message *inner)
{
    m->failed = m->failed || inner->failed;
    dt_message_bytes(m, field, inner->at, inner->bytes);
    dt_message_release(inner);
}

dt_status dt_message_put(dt_message *m, const dt_target *t, dt_written *w)
{
    dt_status st = dt_message_check(m);

    if (st == DT_OK)
        st = dt_outfile_put(t, m->at, m->bytes, w);
    dt_message_release(m);
    return st;
}

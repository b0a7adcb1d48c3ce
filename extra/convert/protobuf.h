/* protobuf.h - writing messages of Protocol Buffers; private to extra/convert. All functions are
 * Local.
 *
 * A message is its fields, one after the other: a key, which is 8 times the field's number plus a
 * wire type, and a value. Encoding: protobuf.dev, "Encoding". */
#ifndef DT_PROTOBUF_H
#define DT_PROTOBUF_H
#include "base/base.h"

enum { DT_WIRE_VARINT, DT_WIRE_FIXED64, DT_WIRE_BYTES, DT_WIRE_FIXED32 = 5 };

/* The fields so far. A zeroed one is empty; what the functions below have filled is to be released.
 * Without memory `failed` is set, and nothing is added any more. */
typedef struct dt_message {
    uint8_t *at; /* owned */
    size_t bytes, room;
    bool failed;
} dt_message;
void dt_message_release(dt_message *m);
/* DT_NOMEM: the message is not whole. */
dt_status dt_message_check(const dt_message *m) DT_MUST_CHECK;

/* Bytes as they are, without a key. */
void dt_message_raw(dt_message *m, const void *data, size_t bytes);
void dt_message_int(dt_message *m, unsigned field, int64_t x);
void dt_message_float(dt_message *m, unsigned field, float x);
void dt_message_double(dt_message *m, unsigned field, double x);
void dt_message_bytes(dt_message *m, unsigned field, const void *data, size_t bytes);
void dt_message_text(dt_message *m, unsigned field, const char *text);
/* A message inside, which is emptied. */
void dt_message_inner(dt_message *m, unsigned field, dt_message *inner);
/* A file of the message, which is emptied. DT_NOMEM, and as dt_outfile_put; w may be NULL. */
dt_status dt_message_put(dt_message *m, const dt_target *t, dt_written *w) DT_MUST_CHECK;

#endif

/* formats.h - ONNX's files and MindSpore's, and messages of Protocol Buffers, which they and
 * TensorBoard's are made of; private to extra/convert. All functions are Local. */
#ifndef DT_FORMATS_H
#define DT_FORMATS_H
#include "format/tensors.h"

/* A message is its fields, one after the other: a key, which is 8 times the field's number plus a
 * wire type, and a value. Encoding: protobuf.dev, "Encoding". */
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

/* Write a whole file, which is one message; tensors that are not of float32 belong to none. An ONNX
 * file holds the network itself, tensors and the metadata of model.safetensors; a .ckpt of
 * MindSpore the tensors alone. Errors as dt_message_put; DT_UNSUPPORTED: a layer has no form in
 * ONNX. */
dt_status dt_onnx_put(const dt_target *t, const dt_safetensors_content *c,
                      dt_written *w) DT_MUST_CHECK;
dt_status dt_ckpt_put(const dt_target *t, const dt_safetensors_content *c,
                      dt_written *w) DT_MUST_CHECK;
/* Tensor i of float32 as a message's field; false: it is of another type. */
bool dt_tensor_put(dt_message *m, unsigned field, const dt_safetensors_content *c, size_t i);
/* As dt_format.read, with the limits of safetensors. What an optimiser keeps is passed over: types
 * that are not read, names without a dot, names that begin with "moment", "accum." or "stat.". */
dt_status dt_ckpt_read(dt_safetensors *f) DT_MUST_CHECK;

#endif

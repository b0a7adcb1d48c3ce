/* tensor_message.h - files that are one message, whose largest fields are tensors; private to
 * src/format. All functions are Local. */
#ifndef DT_TENSOR_MESSAGE_H
#define DT_TENSOR_MESSAGE_H
#include "protobuf.h"
#include "tensors.h"

/* Write the field of a tensor up to its `bytes` bytes, which follow. */
typedef void dt_tensor_head(dt_message *m, const dt_tensor *t, uint64_t bytes);

/* Bytes of the fields of all tensors of float32; others belong to no such file. DT_NOMEM. */
dt_status dt_tensor_message_bytes(const dt_safetensors_content *c, dt_tensor_head *head,
                                  uint64_t *bytes) DT_MUST_CHECK;
/* Write a file: `front`, then these fields, one tensor in memory at a time. Errors as
 * dt_outfile_open and dt_outfile_finish; w may be NULL. */
dt_status dt_tensor_message_put(const dt_target *t, const dt_message *front,
                                const dt_safetensors_content *c, dt_tensor_head *head,
                                dt_written *w) DT_MUST_CHECK;

/* Write a whole file. Errors as above; DT_UNSUPPORTED: a layer has no form in ONNX. */
dt_status dt_onnx_put(const dt_target *t, const dt_safetensors_content *c,
                      dt_written *w) DT_MUST_CHECK;
dt_status dt_ckpt_put(const dt_target *t, const dt_safetensors_content *c,
                      dt_written *w) DT_MUST_CHECK;

/* Read what a .ckpt holds, of which path, size, and fd or bytes are set: fills header (names
 * alone), tensor and count. Every length is bounded before it is used. What an optimiser keeps is
 * passed over: types that are not read, names without a dot, names that begin with "moments.".
 * DT_FORMAT, DT_IO, DT_NOMEM. */
dt_status dt_ckpt_read(dt_safetensors *f) DT_MUST_CHECK;

#endif

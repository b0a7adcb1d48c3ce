/* formats.h - ONNX's files and MindSpore's; private to extra/convert. All functions are Local. */
#ifndef DT_FORMATS_H
#define DT_FORMATS_H
#include "format/tensors.h"
#include "protobuf.h"

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
 * that are not read, names without a dot, names that begin with "moments.". */
dt_status dt_ckpt_read(dt_safetensors *f) DT_MUST_CHECK;

#endif

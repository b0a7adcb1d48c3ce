/* safetensors.h - writing the safetensors container; private to src/format. */
#ifndef DT_SAFETENSORS_H
#define DT_SAFETENSORS_H
#include "tensors.h"

/* Write a file as the reference implementation does: tensors by type (widest first),
 * then by name; the header padded to 8 bytes. Errors as dt_outfile_open and dt_outfile_finish; w
 * may be NULL. */
dt_status dt_safetensors_put(const dt_target *t, const dt_safetensors_content *c,
                             dt_written *w) DT_MUST_CHECK;

#endif

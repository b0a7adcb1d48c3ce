/* fingerprint.h - what must be equal on all ranks before step 0; private to src/train. */
#ifndef DT_FINGERPRINT_H
#define DT_FINGERPRINT_H
#include "run.h"

/* Libraries, instruction set, precision, the data's manifest and content, and every plan:
 * steps, kernels, layouts, offsets. The options have been compared before, one by one
 * (src/cli). DT_MISMATCH names the field, two ranks and both values. Collective. */
dt_status dt_fingerprint_run(dt_run *r) DT_MUST_CHECK;

#endif

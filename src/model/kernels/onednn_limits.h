/* onednn_limits.h - what is known to be wrong in oneDNN, by shape alone; private to the
 * row. All functions are Local. */
#ifndef DT_ONEDNN_LIMITS_H
#define DT_ONEDNN_LIMITS_H
#include "kernel.h"

/* True when version 2's AMX weight gradient of this shape never returns from its
 * creation. */
bool onednn_amx_loops(const dt_conv *c);
/* True when the 1x1 weight gradient of this shape writes behind the scratch it asked for,
 * in versions 2 and 3. */
bool onednn_overruns(const dt_conv *c);
/* True when each tensor of `images` images has fewer elements than 2^31: oneDNN computes
 * many sizes and offsets with int. */
bool onednn_fits(const dt_conv *c, int64_t images);
#endif

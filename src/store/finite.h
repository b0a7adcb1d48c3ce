/* finite.h - numbers that are none, NaN and infinities: looked for before they are saved and
 * where they are read; private to src/store. All functions are Local. */
#ifndef DT_FINITE_H
#define DT_FINITE_H
#include "safetensors.h"

/* The first of x[0], ..., x[n - 1] that is not finite; n: all are. */
size_t dt_finite_floats(const float *x, size_t n);
/* Copy n floats in one pass; false: one of them is not finite (all are copied). */
bool dt_finite_copy(float *to, const float *from, size_t n) DT_MUST_CHECK;

/* Every number of an open file, read in blocks: what is needed does not grow with what its
 * header claims. DT_FORMAT names the first that is not finite; DT_IO; DT_NOMEM. */
dt_status dt_finite_file(const dt_safetensors *f, const char *path) DT_MUST_CHECK;
/* The DT_FORMAT of a tensor's element, for whoever has found it. */
dt_status dt_finite_fail(const char *path, const dt_tensor *t, uint64_t element) DT_MUST_CHECK;

#endif

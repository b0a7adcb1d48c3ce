/* parts.h - the sum of a weight gradient's parts, and the bias gradient.
 *
 * A weight gradient sums over images and pixels. So that its bits do not depend on the number of
 * threads, the lines of all images are cut into parts whose bounds follow from the shape alone
 * (tiles.h). Several units may share a part, but one unit sums each element of it, and the parts
 * are added as a balanced tree. */
#ifndef DT_PARTS_H
#define DT_PARTS_H
#include "kernel.h"

enum { DT_MAX_PARTS = 4 }; /* of a weight gradient */

/* First row (image x pixel) of part i of a bias gradient; part `count` starts at n. */
static inline int64_t dt_part_first(int64_t n, int count, int i)
{
    return n * i / count;
}

/* dbias = the sum over the rows of dy, of these channels; scratch of dt_bias_scratch_bytes. */
size_t dt_bias_scratch_bytes(const dt_conv *c, const dt_channels *some);
void dt_bias_gradient(const dt_conv *c, const dt_channels *some, const void *dy, void *scratch,
                      float *dbias);
#endif

/* spans.h - cutting the gradient slab: buckets of whole tensors, slices of a bucket.
 * Arithmetic, no MPI, all Local; private to src/dist. */
#ifndef DT_SPANS_H
#define DT_SPANS_H
#include "dist.h"

/* Whether tensors are ascending, disjoint and inside the slab. */
dt_status dt_spans_check(const dt_exchange_opts *o) DT_MUST_CHECK;

/* Buckets partition [0, floats): each begins with a tensor, takes the padding behind
 * its last one, and is closed when it reaches its size. The final one is filled from
 * the slab's end: nothing is left to hide it behind, so it should be small.
 *   bucket   [o->tensors]
 *   returns  how many were filled */
size_t dt_spans_buckets(const dt_exchange_opts *o, dt_span *bucket);

/* Part k of `parts` of s, cut at multiples of 16 floats from its start; may be empty */
dt_span dt_spans_slice(dt_span s, int k, int parts);
#endif

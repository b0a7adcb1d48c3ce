/* spans.h - cuts the gradient slab into buckets of whole tensors, and buckets into slices. It uses
 * no MPI; every function is Local. Private to src/dist and extra/lib. */
#ifndef DT_SPANS_H
#define DT_SPANS_H
#include "dist.h"

/* Buckets partition [0, floats): each begins with a tensor, includes the padding after its last
 * one, and is closed when it reaches its size. The last one is measured from the slab's end, so
 * that it is small: no computation is left to hide its sending.
 *   bucket   [o->tensors]
 *   returns  how many were filled */
size_t dt_spans_buckets(const dt_exchange_opts *o, dt_span *bucket);

/* Part k of `parts` of s, cut at multiples of 16 floats from its start; it may be empty. */
dt_span dt_spans_slice(dt_span s, int k, int parts);
#endif

/* star.h - what the two exchanges around rank 0 share; private to src/dist. */
#ifndef DT_STAR_H
#define DT_STAR_H
#include "exchange_row.h"

/* Rank 0 receives the others' partial sums of one tensor, one behind the other, in the
 * order of the fold's operands. */
size_t dt_star_extra(const dt_exchange *x, int rank);
/* On rank 0: the tree over its own slots and what was received, into x->sum. */
void dt_star_sum(dt_exchange *x, dt_span tensor);
#endif

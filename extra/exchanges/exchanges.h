/* exchanges.h - the four methods of the CS744 tutorial, rows beside the core's; the public header
 * of extra/exchanges. Everything is Local, except the last. */
#ifndef DT_EXCHANGES_H
#define DT_EXCHANGES_H
#include "dist/exchange_row.h"

void dt_extra_exchanges(void);

extern const dt_exchange_row dt_exchange_row_gather, dt_exchange_row_p2p, dt_exchange_row_allreduce,
    dt_exchange_row_buckets;

/* The `extra` of rows in which rank 0 gathers a tensor's partial sums there, in the order of the
 * operands of x->fold. */
size_t dt_exchange_star_extra(const dt_exchange *x, int rank);
/* On rank 0: x->sum = the sum of these and this rank's partial sums. */
void dt_exchange_star_sum(dt_exchange *x, dt_span tensor);

/* Start MPI's allreduce of this rank's partial sums of the span into x->sum, which is beside them:
 * in place Open MPI 4.1 would take a binomial tree, whose root carries log2(world)
 * as much. MPI does not say what it moves: counted is the least, 2 (world - 1) / world of the span
 * each way. Collective. */
dt_status dt_exchange_allreduce(dt_exchange *x, dt_span span, MPI_Request *r) DT_MUST_CHECK;
#endif

/* exchange_p2p.c - the course's second method, after backward: per tensor, a star of isend and
 * irecv around rank 0, which sums in the order of the tree, with waits. */
#include "exchanges.h"

size_t dt_exchange_star_extra(const dt_exchange *x, int rank)
{
    const int received = x->fold.operands - dt_fold_held(&x->fold, 0);
    const size_t most = (size_t)DT_MAX(received, x->comm->world - 1); /* the sum to each, too */
    size_t longest = 0;

    for (size_t i = 0; i < x->tensors; i++)
        longest = DT_MAX(longest, x->tensor[i].count);
    return rank == 0 ? most * longest : 0;
}

void dt_exchange_star_sum(dt_exchange *x, dt_span tensor)
{
    void *sum = x->sum + tensor.first;

    for (int i = 0; i < x->fold.operands; i++)
        x->operand[i] = (dt_operand){.at = i < x->partials ? dt_exchange_slot(x, i) + tensor.first
                                                           : x->extra + (size_t)(i - x->partials) *
                                                                            tensor.count};
    dt_fold_run(&x->fold, &dt_fold_f32, x->operand, &sum, tensor.count, x->scratch, 1);
}

static dt_status p2p_tensor(dt_exchange *x, dt_span tensor)
{
    const bool hub = x->comm->rank == 0;
    const int first = hub ? 1 : x->comm->rank, end = hub ? x->comm->world : first + 1;
    float *sum = x->sum + tensor.first;
    MPI_Request *r = x->request;
    int n = 0;

    for (int of = first; of < end; of++)
        for (int part = 0; part < dt_fold_held(&x->fold, of); part++, n++) {
            float *partial = hub ? x->extra + (size_t)n * tensor.count
                                 : dt_exchange_slot(x, part) + tensor.first;
            DT_TRY(dt_exchange_message(x, !hub, partial, tensor.count, NULL, hub ? of : 0, part,
                                       &r[n]));
        }
    DT_TRY(dt_comm_wait(x->comm, r, n));
    if (hub)
        dt_exchange_star_sum(x, tensor);
    for (int of = first; of < end; of++)
        DT_TRY(
            dt_exchange_message(x, hub, sum, tensor.count, NULL, hub ? of : 0, 0, &r[of - first]));
    return dt_comm_wait(x->comm, r, end - first);
}

const dt_exchange_row dt_exchange_row_p2p = {
    .name = "p2p",
    .exact = true,
    .extra = dt_exchange_star_extra,
    .tensor = p2p_tensor,
};

/* exchange_p2p.c - the course's second method: per tensor, a star of isend and irecv
 * around rank 0 with waits. After backward; exact, because rank 0 sums in the order of
 * the tree. */
#include "exchange_row.h"

size_t dt_exchange_star_extra(const dt_exchange *x, int rank)
{
    const int received = x->fold.operands - dt_exchange_partials(x, 0);
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

/* x->state: requests, as many as any phase has: of partial sums, or one of each rank */
static dt_status p2p_open(dt_exchange *x)
{
    const int most = DT_MAX(x->fold.operands, x->comm->world);
    MPI_Request *r = NULL;

    DT_TRY(dt_calloc(&r, (size_t)most, sizeof *r, "the exchange"));
    x->state = r;
    return DT_OK;
}

static dt_status p2p_hub(dt_exchange *x, dt_span tensor)
{
    MPI_Request *request = x->state;
    const int world = x->comm->world;
    int n = 0;

    for (int r = 1; r < world; r++)
        for (int part = 0; part < dt_exchange_partials(x, r); part++, n++)
            DT_TRY(dt_exchange_message(x, false, x->extra + (size_t)n * tensor.count, tensor.count,
                                       DT_LEAF_PLAIN, r, part, &request[n]));
    DT_TRY(dt_comm_wait(x->comm, request, n));
    dt_exchange_star_sum(x, tensor);
    for (int r = 1; r < world; r++)
        DT_TRY(dt_exchange_message(x, true, x->sum + tensor.first, tensor.count, DT_LEAF_PLAIN, r,
                                   0, &request[r - 1]));
    return dt_comm_wait(x->comm, request, world - 1);
}

static dt_status p2p_spoke(dt_exchange *x, dt_span tensor)
{
    MPI_Request *request = x->state;

    for (int part = 0; part < x->partials; part++)
        DT_TRY(dt_exchange_message(x, true, dt_exchange_slot(x, part) + tensor.first, tensor.count,
                                   DT_LEAF_PLAIN, 0, part, &request[part]));
    DT_TRY(dt_comm_wait(x->comm, request, x->partials));
    DT_TRY(dt_exchange_message(x, false, x->sum + tensor.first, tensor.count, DT_LEAF_PLAIN, 0, 0,
                               &request[0]));
    return dt_comm_wait(x->comm, request, 1);
}

static dt_status p2p_finish(dt_exchange *x)
{
    for (size_t i = 0; i < x->tensors; i++)
        DT_TRY(x->comm->rank == 0 ? p2p_hub(x, x->tensor[i]) : p2p_spoke(x, x->tensor[i]));
    return DT_OK;
}

const dt_exchange_row dt_exchange_row_p2p = {
    .name = "p2p",
    .exact = true,
    .extra = dt_exchange_star_extra,
    .open = p2p_open,
    .finish = p2p_finish,
};

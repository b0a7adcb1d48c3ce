/* exchange_p2p.c - the course's second method: per tensor, a star of isend and irecv
 * around rank 0 with waits. After backward; exact, because rank 0 sums in the order of
 * the tree. */
#include "star.h"

#include <stdlib.h>

/* x->state: requests [fold.operands], more than any phase has */
static dt_status p2p_open(dt_exchange *x)
{
    MPI_Request *r = NULL;

    DT_TRY(dt_calloc(&r, (size_t)x->fold.operands, sizeof *r, "the exchange"));
    x->state = r;
    return DT_OK;
}

static dt_status p2p_hub(dt_exchange *x, dt_span tensor, int count)
{
    MPI_Request *request = x->state;
    int n = 0;

    for (int r = 1; r < x->comm->world; r++)
        for (int part = 0; part < dt_exchange_partials(x, r); part++, n++) {
            DT_MPI(MPI_Irecv(x->extra + (size_t)n * tensor.count, count, MPI_FLOAT, r, part, x->mpi,
                             &request[n]));
            dt_exchange_count_received(x, tensor.count * sizeof(float));
        }
    DT_TRY(dt_comm_wait(x->comm, request, n));
    dt_star_sum(x, tensor);

    for (int r = 1; r < x->comm->world; r++) {
        DT_MPI(MPI_Isend(x->sum + tensor.first, count, MPI_FLOAT, r, 0, x->mpi, &request[r - 1]));
        dt_exchange_count_sent(x, tensor.count * sizeof(float));
    }
    return dt_comm_wait(x->comm, request, x->comm->world - 1);
}

static dt_status p2p_spoke(dt_exchange *x, dt_span tensor, int count)
{
    MPI_Request *request = x->state;

    for (int part = 0; part < x->partials; part++) {
        DT_MPI(MPI_Isend(dt_exchange_partial(x, part) + tensor.first, count, MPI_FLOAT, 0, part,
                         x->mpi, &request[part]));
        dt_exchange_count_sent(x, tensor.count * sizeof(float));
    }
    DT_TRY(dt_comm_wait(x->comm, request, x->partials));
    DT_MPI(MPI_Irecv(x->sum + tensor.first, count, MPI_FLOAT, 0, 0, x->mpi, &request[0]));
    dt_exchange_count_received(x, tensor.count * sizeof(float));
    return dt_comm_wait(x->comm, request, 1);
}

static dt_status p2p_finish(dt_exchange *x)
{
    int count = 0;

    for (size_t i = 0; i < x->tensors; i++) {
        DT_TRY(dt_comm_count(x->tensor[i].count, &count));
        DT_TRY(x->comm->rank == 0 ? p2p_hub(x, x->tensor[i], count)
                                  : p2p_spoke(x, x->tensor[i], count));
    }
    return DT_OK;
}

static void p2p_close(dt_exchange *x)
{
    free(x->state);
}

const dt_exchange_row dt_exchange_row_p2p = {
    .name = "p2p",
    .exact = true,
    .extra = dt_star_extra,
    .longest = dt_star_longest,
    .open = p2p_open,
    .finish = p2p_finish,
    .close = p2p_close,
};

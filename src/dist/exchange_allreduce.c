/* exchange_allreduce.c - the course's third method: an MPI_Allreduce per tensor,
 * after backward. MPI chooses the order of addition, so bits belong to np. */
#include "exchange_row.h"

size_t dt_exchange_allreduce_extra(const dt_exchange *x, int rank)
{
    (void)rank;
    return x->floats;
}

dt_status dt_exchange_allreduce(dt_exchange *x, dt_span span, MPI_Request *r)
{
    const size_t world = (size_t)x->comm->world, bytes = span.count * sizeof(float);
    int count = 0;

    DT_TRY(dt_comm_count(span.count, &count));
    dt_exchange_fold_partials(x, span);
    DT_MPI(MPI_Iallreduce(dt_exchange_slot(x, 0) + span.first, x->sum + span.first, count,
                          MPI_FLOAT, MPI_SUM, x->mpi, r));
    dt_exchange_count(x, 2 * (world - 1) * bytes / world, 1, 1);
    return DT_OK;
}

static dt_status allreduce_open(dt_exchange *x)
{
    x->sum = x->extra;
    return DT_OK;
}

static dt_status allreduce_finish(dt_exchange *x)
{
    MPI_Request request;

    for (size_t i = 0; i < x->tensors; i++) {
        DT_TRY(dt_exchange_allreduce(x, x->tensor[i], &request));
        DT_TRY(dt_comm_wait(x->comm, &request, 1));
    }
    return DT_OK;
}

const dt_exchange_row dt_exchange_row_allreduce = {
    .name = "allreduce",
    .extra = dt_exchange_allreduce_extra,
    .open = allreduce_open,
    .finish = allreduce_finish,
};

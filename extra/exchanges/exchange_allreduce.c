/* exchange_allreduce.c - the course's third method: an MPI_Allreduce per tensor, after backward. */
#include "exchanges.h"

dt_status dt_exchange_allreduce(dt_exchange *x, dt_span span, MPI_Request *r)
{
    const size_t world = (size_t)x->comm->world, bytes = span.count * sizeof(float);
    float *own = dt_exchange_slot(x, 0) + span.first;
    int count = 0;

    DT_TRY(dt_comm_count(span.count, &count));
    for (int part = 1; part < x->partials; part++) /* left to right */
        dt_fold_f32.add(own, own, dt_exchange_slot(x, part) + span.first, span.count);
    DT_MPI(MPI_Iallreduce(own, x->sum + span.first, count, MPI_FLOAT, MPI_SUM, x->mpi, r));
    dt_exchange_count(x, 2 * (world - 1) * bytes / world, 1, 1);
    return DT_OK;
}

static dt_status allreduce_tensor(dt_exchange *x, dt_span tensor)
{
    DT_TRY(dt_exchange_allreduce(x, tensor, x->request));
    return dt_comm_wait(x->comm, x->request, 1);
}

const dt_exchange_row dt_exchange_row_allreduce = {
    .name = "allreduce",
    .beside = true,
    .tensor = allreduce_tensor,
};

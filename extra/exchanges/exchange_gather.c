/* exchange_gather.c - the course's first method, after backward: per tensor, gather to rank 0, sum
 * in the order of the tree, scatter. Blocking. */
#include "exchanges.h"

/* x->state: floats and displacements for MPI, [2][world] */
static dt_status gather_open(dt_exchange *x)
{
    int *count = NULL, most = 0; /* floats, which MPI takes as int */

    DT_TRY(dt_calloc(&count, 2 * (size_t)x->comm->world, sizeof *count, "the exchange"));
    x->state = count;
    return dt_comm_count(dt_exchange_star_extra(x, 0), &most);
}

/* The partial sums of all ranks but 0, in their order. */
static dt_status gather_partials(dt_exchange *x, dt_span tensor)
{
    const int rank = x->comm->rank, floats = (int)tensor.count;
    const int some = x->partials > 0; /* one element of nothing is a message, which none receives */
    int *count = x->state, *displace = count + x->comm->world;
    MPI_Datatype mine; /* this rank's, which lie in slots */
    MPI_Request request;

    for (int r = 1; r < x->comm->world; r++) {
        count[r] = dt_fold_held(&x->fold, r) * floats;
        displace[r] = (x->fold.start[r] - x->fold.start[1]) * floats;
        if (rank == 0 || rank == r)
            dt_exchange_count(x, (size_t)count[r] * sizeof(float), rank == r, rank == 0);
    }
    DT_MPI(MPI_Type_create_hvector(x->partials, floats, (MPI_Aint)(x->floats * sizeof(float)),
                                   MPI_FLOAT, &mine));
    DT_MPI(MPI_Type_commit(&mine));
    DT_MPI(MPI_Igatherv(rank == 0 ? MPI_IN_PLACE : x->memory + tensor.first, some, mine, x->extra,
                        count, displace, MPI_FLOAT, 0, x->mpi, &request));
    DT_TRY(dt_comm_wait(x->comm, &request, 1));
    DT_MPI(MPI_Type_free(&mine));
    return DT_OK;
}

/* The course's scatter hands out one copy of the sum per rank; so does this. */
static dt_status gather_scatter(dt_exchange *x, dt_span tensor)
{
    const int rank = x->comm->rank, floats = (int)tensor.count;
    int *count = x->state, *displace = count + x->comm->world;
    float *sum = x->sum + tensor.first;
    MPI_Request request;

    for (int r = 1; r < x->comm->world; r++) {
        count[r] = floats;
        displace[r] = (r - 1) * floats;
        if (rank == 0)
            memcpy(x->extra + displace[r], sum, tensor.count * sizeof *sum);
        if (rank == 0 || rank == r)
            dt_exchange_count(x, tensor.count * sizeof(float), rank == 0, rank == r);
    }
    count[0] = 0;
    DT_MPI(MPI_Iscatterv(x->extra, count, displace, MPI_FLOAT, rank == 0 ? MPI_IN_PLACE : sum,
                         rank == 0 ? 0 : floats, MPI_FLOAT, 0, x->mpi, &request));
    return dt_comm_wait(x->comm, &request, 1);
}

static dt_status gather_tensor(dt_exchange *x, dt_span tensor)
{
    DT_TRY(gather_partials(x, tensor));
    if (x->comm->rank == 0)
        dt_exchange_star_sum(x, tensor);
    return gather_scatter(x, tensor);
}

const dt_exchange_row dt_exchange_row_gather = {
    .name = "gather",
    .exact = true,
    .extra = dt_exchange_star_extra,
    .open = gather_open,
    .tensor = gather_tensor,
};

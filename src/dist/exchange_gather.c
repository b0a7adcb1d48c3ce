/* exchange_gather.c - the course's first method: per tensor, gather to rank 0, sum,
 * scatter. Blocking, after backward; exact, because rank 0 sums in the order of the
 * tree. */
#include "exchange_row.h"

/* x->state: floats and displacements for MPI, [2][world] */
static dt_status gather_open(dt_exchange *x)
{
    int *count = NULL, most = 0; /* floats, which MPI takes as int */

    DT_TRY(dt_calloc(&count, 2 * (size_t)x->comm->world, sizeof *count, "the exchange"));
    x->state = count;
    return dt_comm_count(dt_exchange_star_extra(x, 0), &most);
}

/* Every rank's partial sum number `part`; ranks with fewer take part with nothing. */
static dt_status gather_part(dt_exchange *x, dt_span tensor, int part)
{
    const int rank = x->comm->rank, floats = (int)tensor.count;
    const bool mine = rank > 0 && part < x->partials;
    int *count = x->state, *displace = count + x->comm->world;

    for (int r = 1; r < x->comm->world; r++) {
        const bool has = part < dt_exchange_partials(x, r);
        count[r] = has ? floats : 0;
        displace[r] = has ? (x->fold.start[r] + part - x->fold.start[1]) * floats : 0;
        if (has && (rank == 0 || rank == r))
            dt_exchange_count(x, tensor.count * sizeof(float), rank == r, rank == 0);
    }
    DT_MPI(
        MPI_Gatherv(rank == 0 ? MPI_IN_PLACE : dt_exchange_slot(x, mine ? part : 0) + tensor.first,
                    mine ? floats : 0, MPI_FLOAT, x->extra, count, displace, MPI_FLOAT, 0, x->mpi));
    return DT_OK;
}

/* The course's scatter hands out one copy of the sum per rank; so does this. */
static dt_status gather_scatter(dt_exchange *x, dt_span tensor)
{
    const int rank = x->comm->rank, floats = (int)tensor.count;
    int *count = x->state, *displace = count + x->comm->world;
    float *sum = x->sum + tensor.first;

    for (int r = 1; r < x->comm->world; r++) {
        count[r] = floats;
        displace[r] = (r - 1) * floats;
        if (rank == 0)
            memcpy(x->extra + displace[r], sum, tensor.count * sizeof *sum);
        if (rank == 0 || rank == r)
            dt_exchange_count(x, tensor.count * sizeof(float), rank == 0, rank == r);
    }
    count[0] = 0;
    DT_MPI(MPI_Scatterv(x->extra, count, displace, MPI_FLOAT, rank == 0 ? MPI_IN_PLACE : sum,
                        rank == 0 ? 0 : floats, MPI_FLOAT, 0, x->mpi));
    return DT_OK;
}

static dt_status gather_finish(dt_exchange *x)
{
    int most = 0; /* partial sums of any rank but 0 */

    for (int r = 1; r < x->comm->world; r++)
        most = DT_MAX(most, dt_exchange_partials(x, r));
    for (size_t i = 0; i < x->tensors; i++) {
        for (int part = 0; part < most; part++)
            DT_TRY(gather_part(x, x->tensor[i], part));
        if (x->comm->rank == 0)
            dt_exchange_star_sum(x, x->tensor[i]);
        DT_TRY(gather_scatter(x, x->tensor[i]));
    }
    return DT_OK;
}

const dt_exchange_row dt_exchange_row_gather = {
    .name = "gather",
    .exact = true,
    .extra = dt_exchange_star_extra,
    .open = gather_open,
    .finish = gather_finish,
};

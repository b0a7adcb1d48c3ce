/* exchange_gather.c - the course's first method: per tensor, gather to rank 0, sum,
 * scatter. Blocking, after backward; exact, because rank 0 sums in the order of the
 * tree. */
#include "star.h"

#include <stdlib.h>

typedef struct gather_state {
    int *count, *displace; /* [world] floats; for MPI */
} gather_state;

static dt_status gather_open(dt_exchange *x)
{
    const size_t world = (size_t)x->comm->world;
    gather_state *g = NULL;

    DT_TRY(dt_calloc(&g, 1, sizeof *g, "the exchange"));
    x->state = g;
    DT_TRY(dt_calloc(&g->count, world, sizeof *g->count, "the exchange"));
    return dt_calloc(&g->displace, world, sizeof *g->displace, "the exchange");
}

/* Every rank's partial sum number `part`; ranks with fewer take part with nothing. */
static dt_status gather_part(dt_exchange *x, dt_span tensor, int part)
{
    const gather_state *g = x->state;
    const int rank = x->comm->rank;
    const bool mine = rank > 0 && part < x->partials;
    int count = 0;

    DT_TRY(dt_comm_count(tensor.count, &count));
    for (int r = 1; r < x->comm->world; r++) {
        const bool has = part < dt_exchange_partials(x, r);
        g->count[r] = has ? count : 0;
        g->displace[r] = has ? (x->fold.start[r] + part - x->fold.start[1]) * count : 0;
        if (has && rank == 0)
            dt_exchange_count_received(x, tensor.count * sizeof(float));
    }
    if (mine)
        dt_exchange_count_sent(x, tensor.count * sizeof(float));
    DT_MPI(MPI_Gatherv(
        rank == 0 ? MPI_IN_PLACE : dt_exchange_partial(x, mine ? part : 0) + tensor.first,
        mine ? count : 0, MPI_FLOAT, x->extra, g->count, g->displace, MPI_FLOAT, 0, x->mpi));
    return DT_OK;
}

/* The course's scatter hands out one copy of the sum per rank; so does this. */
static dt_status gather_scatter(dt_exchange *x, dt_span tensor)
{
    const gather_state *g = x->state;
    const int rank = x->comm->rank;
    float *sum = x->sum + tensor.first;
    int count = 0;

    DT_TRY(dt_comm_count(tensor.count, &count));
    for (int r = 1; r < x->comm->world && rank == 0; r++) {
        g->count[r] = count;
        g->displace[r] = (r - 1) * count;
        memcpy(x->extra + g->displace[r], sum, tensor.count * sizeof *sum);
        dt_exchange_count_sent(x, tensor.count * sizeof(float));
    }
    if (rank > 0)
        dt_exchange_count_received(x, tensor.count * sizeof(float));
    DT_MPI(MPI_Scatterv(x->extra, g->count, g->displace, MPI_FLOAT, rank == 0 ? MPI_IN_PLACE : sum,
                        rank == 0 ? 0 : count, MPI_FLOAT, 0, x->mpi));
    return DT_OK;
}

static dt_status gather_finish(dt_exchange *x)
{
    int most = 0; /* partial sums of any rank but 0 */

    for (int r = 1; r < x->comm->world; r++)
        if (dt_exchange_partials(x, r) > most)
            most = dt_exchange_partials(x, r);
    for (size_t i = 0; i < x->tensors; i++) {
        for (int part = 0; part < most; part++)
            DT_TRY(gather_part(x, x->tensor[i], part));
        if (x->comm->rank == 0)
            dt_star_sum(x, x->tensor[i]);
        DT_TRY(gather_scatter(x, x->tensor[i]));
    }
    return DT_OK;
}

static void gather_close(dt_exchange *x)
{
    gather_state *g = x->state;

    free(g->count);
    free(g->displace);
    free(g);
}

const dt_exchange_row dt_exchange_row_gather = {
    .name = "gather",
    .exact = true,
    .extra = dt_star_extra,
    .longest = dt_star_longest,
    .open = gather_open,
    .finish = gather_finish,
    .close = gather_close,
};

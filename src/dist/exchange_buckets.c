/* exchange_buckets.c - the course's fourth method, as DistributedDataParallel does it:
 * a non-blocking allreduce per bucket, started as backward completes it, awaited after
 * the last. MPI chooses the order of addition, so the bits belong to np. */
#include "exchange_row.h"

/* With MPI_IN_PLACE Open MPI would take its binomial tree, which is slow for large
 * buckets; so the sums get a slab of their own. */
static size_t buckets_extra(const dt_exchange *x, int rank)
{
    (void)rank;
    return x->floats;
}

/* x->state: requests [buckets] */
static dt_status buckets_open(dt_exchange *x)
{
    MPI_Request *r = NULL;

    DT_TRY(dt_calloc(&r, x->buckets, sizeof *r, "the exchange"));
    x->state = r;
    x->sum = x->extra;
    return DT_OK;
}

static dt_status buckets_start(dt_exchange *x, size_t b)
{
    const dt_span span = x->bucket[b];
    int count = 0;

    DT_TRY(dt_comm_count(span.count, &count));
    dt_exchange_fold_partials(x, span);
    DT_MPI(MPI_Iallreduce(dt_exchange_slot(x, 0) + span.first, x->sum + span.first, count,
                          MPI_FLOAT, MPI_SUM, x->mpi, (MPI_Request *)x->state + b));
    dt_exchange_count_allreduce(x, span.count);
    return DT_OK;
}

static dt_status buckets_advance(dt_exchange *x, size_t b, bool *done)
{
    int complete = 0;

    DT_MPI(MPI_Test((MPI_Request *)x->state + b, &complete, MPI_STATUS_IGNORE));
    *done = complete != 0;
    return DT_OK;
}

const dt_exchange_row dt_exchange_row_buckets = {
    .name = "buckets",
    .extra = buckets_extra,
    .open = buckets_open,
    .start = buckets_start,
    .advance = buckets_advance,
};

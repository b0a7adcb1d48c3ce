/* exchange_buckets.c - the course's fourth method, as DistributedDataParallel does it:
 * a non-blocking allreduce per bucket, started as backward completes it, awaited after
 * the last. MPI chooses the order of addition, so the bits belong to np. */
#include "exchange_row.h"
#include "spans.h"

#include <stdlib.h>

typedef struct buckets_state {
    MPI_Request *request; /* [buckets] */
    int started;
} buckets_state;

/* With MPI_IN_PLACE Open MPI would take its binomial tree, which is slow for large
 * buckets; so the sums get a slab of their own. */
static size_t buckets_extra(const dt_exchange *x, int rank)
{
    (void)rank;
    return x->floats;
}

static size_t buckets_longest(const dt_exchange *x)
{
    return dt_spans_longest(x->bucket, x->buckets);
}

static dt_status buckets_open(dt_exchange *x)
{
    buckets_state *s = NULL;

    DT_TRY(dt_calloc(&s, 1, sizeof *s, "the exchange"));
    x->state = s;
    x->sum = x->extra;
    return dt_calloc(&s->request, x->buckets, sizeof *s->request, "the exchange");
}

static dt_status buckets_start(dt_exchange *x, size_t b)
{
    buckets_state *s = x->state;
    const dt_span span = x->bucket[b];
    int count = 0;

    DT_TRY(dt_comm_count(span.count, &count));
    dt_exchange_fold_partials(x, span);
    DT_MPI(MPI_Iallreduce(dt_exchange_slot(x, 0) + span.first, x->sum + span.first, count,
                          MPI_FLOAT, MPI_SUM, x->mpi, &s->request[s->started]));
    s->started++;
    dt_exchange_count_allreduce(x, span.count);
    return DT_OK;
}

static dt_status buckets_poll(dt_exchange *x)
{
    buckets_state *s = x->state;
    int complete = 0;

    DT_MPI(MPI_Testall(s->started, s->request, &complete, MPI_STATUSES_IGNORE));
    return DT_OK;
}

static dt_status buckets_finish(dt_exchange *x)
{
    buckets_state *s = x->state;

    DT_TRY(dt_comm_wait(x->comm, s->request, s->started));
    s->started = 0;
    return DT_OK;
}

/* MPI knows no way to take back a collective: one that is under way after a failure is
 * left alone. */
static void buckets_close(dt_exchange *x)
{
    buckets_state *s = x->state;

    free(s->request);
    free(s);
}

const dt_exchange_row dt_exchange_row_buckets = {
    .name = "buckets",
    .extra = buckets_extra,
    .longest = buckets_longest,
    .open = buckets_open,
    .start = buckets_start,
    .poll = buckets_poll,
    .finish = buckets_finish,
    .close = buckets_close,
};

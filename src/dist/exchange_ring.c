/* exchange_ring.c - the textbook's ring: per bucket a reduce-scatter, then an allgather.
 *
 * A bucket is cut into one slice per rank. In step k of the first half, rank r sends
 * slice r - k to its right neighbour and adds what comes from the left to slice
 * r - k - 1, so that after world - 1 steps slice r + 1 is complete on rank r; the second
 * half hands complete slices round. Each element is added in the order of the ring, from
 * a rank that depends on np: equal on all ranks, but not across np. Buckets are under way
 * at once, one step of each at a time; they move when ready() or finish() looks. */
#include "exchange_row.h"
#include "spans.h"

#include <stdlib.h>

typedef struct ring_bucket {
    MPI_Request request[2]; /* to the right, from the left */
    float *received;        /* [longest slice] */
    int step;               /* of 2 * (world - 1) */
} ring_bucket;

typedef struct ring_state {
    size_t oldest, started; /* buckets [oldest, started) are under way */
    ring_bucket bucket[];   /* [buckets] */
} ring_state;

static int ring_steps(const dt_exchange *x)
{
    return 2 * (x->comm->world - 1);
}

/* The last slice is the longest. */
static size_t ring_slice_floats(const dt_exchange *x, size_t b)
{
    const int world = x->comm->world;
    return dt_align(dt_spans_slice(x->bucket[b], world - 1, world).count, 16);
}

static size_t ring_extra(const dt_exchange *x, int rank)
{
    size_t floats = 0;

    (void)rank;
    for (size_t b = 0; b < x->buckets; b++)
        floats += ring_slice_floats(x, b);
    return floats;
}

static size_t ring_longest(const dt_exchange *x)
{
    return dt_spans_longest(x->bucket, x->buckets) / (size_t)x->comm->world +
           16 * (size_t)x->comm->world;
}

static dt_status ring_open(dt_exchange *x)
{
    float *received = x->extra;
    ring_state *s = NULL;

    DT_TRY(dt_calloc(&s, 1, sizeof *s + x->buckets * sizeof *s->bucket, "the exchange"));
    x->state = s;
    for (size_t b = 0; b < x->buckets; b++) {
        s->bucket[b].request[0] = s->bucket[b].request[1] = MPI_REQUEST_NULL;
        s->bucket[b].received = received;
        received += ring_slice_floats(x, b);
    }
    return DT_OK;
}

/* The slice that is sent in this step; the one that is received lies before it. In the
 * second half, step world - 1 + j sends slice r + 1 - j: the same formula. */
static int ring_slice(const dt_exchange *x, int step)
{
    const int world = x->comm->world;
    return (x->comm->rank + 2 * world - step) % world;
}

static dt_span ring_arriving(const dt_exchange *x, size_t b, int step)
{
    const int world = x->comm->world;
    return dt_spans_slice(x->bucket[b], (ring_slice(x, step) + world - 1) % world, world);
}

/* Steps of a bucket match by order: a tag has one sender and one receiver. */
static dt_status ring_post(dt_exchange *x, size_t b)
{
    ring_state *s = x->state;
    ring_bucket *k = &s->bucket[b];
    const int world = x->comm->world, rank = x->comm->rank, tag = (int)b;
    const dt_span out = dt_spans_slice(x->bucket[b], ring_slice(x, k->step), world),
                  in = ring_arriving(x, b, k->step);
    float *to = k->step < world - 1 ? k->received : x->sum + in.first;
    int count = 0;

    if (in.count > 0) {
        DT_TRY(dt_comm_count(in.count, &count));
        DT_MPI(MPI_Irecv(to, count, MPI_FLOAT, (rank + world - 1) % world, tag, x->mpi,
                         &k->request[1]));
        dt_exchange_count_received(x, in.count * sizeof(float));
    }
    if (out.count > 0) {
        DT_TRY(dt_comm_count(out.count, &count));
        DT_MPI(MPI_Isend(x->sum + out.first, count, MPI_FLOAT, (rank + 1) % world, tag, x->mpi,
                         &k->request[0]));
        dt_exchange_count_sent(x, out.count * sizeof(float));
    }
    return DT_OK;
}

static dt_status ring_start(dt_exchange *x, size_t b)
{
    ring_state *s = x->state;

    dt_exchange_fold_partials(x, x->bucket[b]);
    s->bucket[b].step = 0;
    s->started = b + 1;
    return ring_post(x, b);
}

/* As many steps as have arrived. */
static dt_status ring_advance(dt_exchange *x, size_t b)
{
    ring_state *s = x->state;
    ring_bucket *k = &s->bucket[b];
    int complete = 0;

    while (k->step < ring_steps(x)) {
        DT_MPI(MPI_Testall(2, k->request, &complete, MPI_STATUSES_IGNORE));
        if (!complete)
            return DT_OK;
        const dt_span in = ring_arriving(x, b, k->step);
        if (k->step < x->comm->world - 1)
            dt_add_f32(x->sum + in.first, k->received, in.count);
        if (++k->step < ring_steps(x))
            DT_TRY(ring_post(x, b));
    }
    return DT_OK;
}

static dt_status ring_poll(dt_exchange *x)
{
    ring_state *s = x->state;

    for (size_t b = s->oldest; b < s->started; b++) {
        DT_TRY(ring_advance(x, b));
        if (b == s->oldest && s->bucket[b].step == ring_steps(x))
            s->oldest++;
    }
    return DT_OK;
}

static dt_status ring_finish(dt_exchange *x)
{
    ring_state *s = x->state;

    DT_TRY(dt_exchange_drain(x, &s->oldest, ring_poll));
    s->oldest = s->started = 0;
    return DT_OK;
}

/* After a failure messages may be under way: nothing waits for them any more. */
static void ring_close(dt_exchange *x)
{
    ring_state *s = x->state;

    for (size_t i = 0; i < 2 * x->buckets; i++) {
        MPI_Request *r = &s->bucket[i / 2].request[i % 2];
        if (*r == MPI_REQUEST_NULL)
            continue;
        MPI_Cancel(r);
        MPI_Request_free(r);
    }
    free(s);
}

const dt_exchange_row dt_exchange_row_ring = {
    .name = "ring",
    .extra = ring_extra,
    .longest = ring_longest,
    .open = ring_open,
    .start = ring_start,
    .poll = ring_poll,
    .finish = ring_finish,
    .close = ring_close,
};

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

typedef struct ring_bucket {
    MPI_Request request[2]; /* to the right, from the left */
    float *received;        /* [longest slice] */
    int step;               /* of 2 * (world - 1) */
} ring_bucket;

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

/* x->state: [buckets] */
static dt_status ring_open(dt_exchange *x)
{
    float *received = x->extra;
    ring_bucket *k = NULL;

    DT_TRY(dt_calloc(&k, x->buckets, sizeof *k, "the exchange"));
    x->state = k;
    for (size_t b = 0; b < x->buckets; b++) {
        k[b].request[0] = k[b].request[1] = MPI_REQUEST_NULL;
        k[b].received = received;
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
    ring_bucket *k = (ring_bucket *)x->state + b;
    const int world = x->comm->world, rank = x->comm->rank, tag = (int)b;
    const dt_span out = dt_spans_slice(x->bucket[b], ring_slice(x, k->step), world),
                  in = ring_arriving(x, b, k->step);
    float *to = k->step < world - 1 ? k->received : x->sum + in.first;

    DT_TRY(dt_exchange_receive(x, to, in.count, MPI_FLOAT, (rank + world - 1) % world, tag,
                               &k->request[1]));
    return dt_exchange_send(x, x->sum + out.first, out.count, MPI_FLOAT, (rank + 1) % world, tag,
                            &k->request[0]);
}

static dt_status ring_start(dt_exchange *x, size_t b)
{
    ((ring_bucket *)x->state)[b].step = 0;
    dt_exchange_fold_partials(x, x->bucket[b]);
    return ring_post(x, b);
}

/* As many steps as have arrived. */
static dt_status ring_advance(dt_exchange *x, size_t b, bool *done)
{
    ring_bucket *k = (ring_bucket *)x->state + b;
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
    *done = true;
    return DT_OK;
}

static void ring_close(dt_exchange *x)
{
    ring_bucket *k = x->state;

    for (size_t b = 0; b < x->buckets; b++)
        dt_exchange_cancel(k[b].request, 2);
}

const dt_exchange_row dt_exchange_row_ring = {
    .name = "ring",
    .extra = ring_extra,
    .open = ring_open,
    .start = ring_start,
    .advance = ring_advance,
    .close = ring_close,
};

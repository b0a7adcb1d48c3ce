/* exchange_tree.c - the exact exchange that overlaps with backward.
 *
 * Each bucket is cut into one slice per rank. Every rank sends its partial sums of
 * slice k to rank k, which completes the tree on it and sends the sum back to all: a
 * reduce-scatter and an allgather whose order of addition depends on S alone. Messages
 * of many buckets are under way at once; they move when ready() or finish() looks. */
#include "exchange.h"
#include "spans.h"

#include <stdlib.h>

typedef struct tree_bucket {
    MPI_Request *in;   /* [operands - parts] partial sums of my slice, from others */
    MPI_Request *out;  /* [(world - 1) * parts] mine of others' slices */
    MPI_Request *back; /* [2 * (world - 1)] sums: mine to others, then theirs to me */
    float *received;   /* [operands - parts][slice] */
    bool summed;       /* my slice is complete and on its way */
    bool sent;         /* others have my partial sums: slot 0 may take their sums */
    bool done;
} tree_bucket;

typedef struct tree_state {
    tree_bucket *bucket;  /* [buckets] */
    MPI_Request *request; /* all of them */
    size_t requests;
    size_t oldest, started; /* buckets [oldest, started) are under way */
    int in, out, back;      /* requests of one bucket, by group */
} tree_state;

static dt_span tree_slice(const dt_exchange *x, size_t b, int rank)
{
    return dt_spans_slice(x->bucket[b], rank, x->comm->world);
}

static int tree_foreign(const dt_exchange *x, int rank)
{
    return x->fold.operands - dt_exchange_parts(x, rank);
}

/* Received slices begin at multiples of 16 floats. */
static size_t tree_received(const dt_exchange *x, size_t b, int rank)
{
    return (size_t)tree_foreign(x, rank) * dt_align(tree_slice(x, b, rank).count, 16);
}

static size_t tree_extra(const dt_exchange *x, int rank)
{
    size_t floats = 0;

    for (size_t b = 0; b < x->buckets; b++)
        floats += tree_received(x, b, rank);
    return floats;
}

static size_t tree_longest(const dt_exchange *x)
{
    return dt_spans_longest(x->bucket, x->buckets) / (size_t)x->comm->world + 16;
}

static dt_status tree_open(dt_exchange *x)
{
    const int others = x->comm->world - 1;
    float *received = x->extra;
    tree_state *t = NULL;

    DT_TRY(dt_calloc(&t, 1, sizeof *t, "the exchange"));
    x->state = t;
    t->in = tree_foreign(x, x->comm->rank);
    DT_TRY(dt_exchange_scratch(x, x->fold.depth));
    t->out = others * x->parts;
    t->back = 2 * others;
    const size_t each = (size_t)(t->in + t->out + t->back);
    t->requests = x->buckets * each;
    DT_TRY(dt_calloc(&t->bucket, x->buckets, sizeof *t->bucket, "the exchange"));
    DT_TRY(dt_calloc(&t->request, t->requests, sizeof *t->request, "the exchange"));
    for (size_t i = 0; i < t->requests; i++)
        t->request[i] = MPI_REQUEST_NULL;
    for (size_t b = 0; b < x->buckets; b++) {
        MPI_Request *r = t->request + b * each;
        t->bucket[b] = (tree_bucket){.in = r,
                                     .out = r + t->in,
                                     .back = r + t->in + t->out,
                                     .received = received};
        received += tree_received(x, b, x->comm->rank);
    }
    return DT_OK;
}

/* ---- Messages: 0 carries a partial sum, 1 a sum ---------------------------------- */

static int tree_tag(size_t b, int kind)
{
    return (int)(2 * b) + kind;
}

static dt_status tree_send(dt_exchange *x, const float *data, size_t floats, int to,
                           int tag, MPI_Request *r)
{
    int count = 0;

    if (floats == 0)
        return DT_OK;
    DT_TRY(dt_comm_count(floats, &count));
    DT_MPI(MPI_Isend(data, count, MPI_FLOAT, to, tag, x->mpi, r));
    dt_exchange_count_sent(x, floats * sizeof *data);
    return DT_OK;
}

static dt_status tree_receive(dt_exchange *x, float *data, size_t floats, int from,
                              int tag, MPI_Request *r)
{
    int count = 0;

    if (floats == 0)
        return DT_OK;
    DT_TRY(dt_comm_count(floats, &count));
    DT_MPI(MPI_Irecv(data, count, MPI_FLOAT, from, tag, x->mpi, r));
    dt_exchange_count_received(x, floats * sizeof *data);
    return DT_OK;
}

/* Where operand i of my slice lies: own partial sums in slots, others' received. */
static float *tree_operand(const dt_exchange *x, size_t b, dt_span mine, int i)
{
    const int own = x->fold.start[x->comm->rank];

    if (i >= own && i < own + x->parts)
        return dt_exchange_part(x, i - own) + mine.first;
    const tree_state *t = x->state;
    const size_t place = (size_t)(i < own ? i : i - x->parts);
    return t->bucket[b].received + place * dt_align(mine.count, 16);
}

static dt_status tree_receive_parts(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const dt_span mine = tree_slice(x, b, x->comm->rank);
    MPI_Request *r = t->bucket[b].in;

    for (int from = 0; from < x->comm->world; from++)
        for (int i = x->fold.start[from]; i < x->fold.start[from + 1]; i++)
            if (from != x->comm->rank)
                DT_TRY(tree_receive(x, tree_operand(x, b, mine, i), mine.count, from,
                                    tree_tag(b, 0), r++));
    return DT_OK;
}

/* Rank after rank, beginning behind me, so that not all send to rank 0 first. */
static dt_status tree_send_parts(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const int world = x->comm->world;
    MPI_Request *r = t->bucket[b].out;

    for (int step = 1; step < world; step++) {
        const int to = (x->comm->rank + step) % world;
        const dt_span slice = tree_slice(x, b, to);
        for (int part = 0; part < x->parts; part++)
            DT_TRY(tree_send(x, dt_exchange_part(x, part) + slice.first, slice.count,
                             to, tree_tag(b, 0), r++));
    }
    return DT_OK;
}

static dt_status tree_start(dt_exchange *x, size_t b)
{
    tree_state *t = x->state;

    t->bucket[b].summed = t->bucket[b].sent = t->bucket[b].done = false;
    t->started = b + 1;
    DT_TRY(tree_receive_parts(x, b));
    return tree_send_parts(x, b);
}

/* ---- Progress -------------------------------------------------------------------- */

static dt_status tree_sum(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const int rank = x->comm->rank, world = x->comm->world;
    const dt_span mine = tree_slice(x, b, rank);
    float *sum = x->sum + mine.first;

    for (int i = 0; i < x->fold.operands; i++)
        x->operand[i].at = tree_operand(x, b, mine, i);
    dt_fold_f32(&x->fold, x->operand, &sum, mine.count, x->scratch);
    for (int step = 1; step < world; step++)
        DT_TRY(tree_send(x, sum, mine.count, (rank + step) % world, tree_tag(b, 1),
                         &t->bucket[b].back[step - 1]));
    return DT_OK;
}

static dt_status tree_receive_sums(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const int rank = x->comm->rank, world = x->comm->world;

    for (int step = 1; step < world; step++) {
        const int from = (rank + step) % world;
        const dt_span slice = tree_slice(x, b, from);
        DT_TRY(tree_receive(x, x->sum + slice.first, slice.count, from, tree_tag(b, 1),
                            &t->bucket[b].back[world - 2 + step]));
    }
    return DT_OK;
}

/* A finished group is asked once only: its flag says so. */
static dt_status tree_complete(MPI_Request *r, int count, bool *complete)
{
    int flag = 0;

    DT_MPI(MPI_Testall(count, r, &flag, MPI_STATUSES_IGNORE));
    *complete = flag != 0;
    return DT_OK;
}

static dt_status tree_advance(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    tree_bucket *k = &t->bucket[b];

    if (!k->summed) {
        DT_TRY(tree_complete(k->in, t->in, &k->summed));
        if (k->summed)
            DT_TRY(tree_sum(x, b));
    }
    if (!k->sent) {
        DT_TRY(tree_complete(k->out, t->out, &k->sent));
        if (k->sent)
            DT_TRY(tree_receive_sums(x, b));
    }
    if (k->summed && k->sent && !k->done)
        DT_TRY(tree_complete(k->back, t->back, &k->done));
    return DT_OK;
}

static dt_status tree_poll(dt_exchange *x)
{
    tree_state *t = x->state;

    for (size_t b = t->oldest; b < t->started; b++) {
        DT_TRY(tree_advance(x, b));
        if (b == t->oldest && t->bucket[b].done)
            t->oldest++;
    }
    return DT_OK;
}

static dt_status tree_finish(dt_exchange *x)
{
    tree_state *t = x->state;

    for (unsigned looks = 0; t->oldest < x->buckets; dt_comm_idle(x->comm, &looks)) {
        const size_t before = t->oldest;
        DT_TRY(tree_poll(x));
        if (t->oldest != before)
            looks = 0;
    }
    t->oldest = t->started = 0;
    return DT_OK;
}

/* After a failure messages may be under way: nothing waits for them any more. */
static void tree_close(dt_exchange *x)
{
    tree_state *t = x->state;

    for (size_t i = 0; t->request && i < t->requests; i++) {
        if (t->request[i] == MPI_REQUEST_NULL)
            continue;
        MPI_Cancel(&t->request[i]);
        MPI_Request_free(&t->request[i]);
    }
    free(t->request);
    free(t->bucket);
    free(t);
}

const dt_exchange_row dt_exchange_row_tree = {
    .name = "tree",
    .exact = true,
    .extra = tree_extra,
    .longest = tree_longest,
    .open = tree_open,
    .start = tree_start,
    .poll = tree_poll,
    .finish = tree_finish,
    .close = tree_close,
};

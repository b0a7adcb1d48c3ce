/* exchange_shared.c - the exact exchange of one node, without messages.
 *
 * Every rank's slots lie in memory that all ranks see. Each bucket is cut into one slice
 * per rank, and a rank folds its slice of all ranks' partial sums, in the order of the
 * tree, straight out of their slots into its own: no gradient is copied. Its optimizer
 * then updates that slice of the one copy of the weights. A bucket is folded as soon as
 * all ranks have it, so a rank that is early does its share while it would wait. */
#include "exchange_row.h"

#include <stdlib.h>

/* x->state: how far the step's buckets are */
typedef struct shared_state {
    size_t oldest, started; /* buckets [oldest, started) wait for other ranks */
} shared_state;

static bool shared_shares(const dt_exchange *x)
{
    return x->comm->nodes == 1;
}

static dt_status shared_open(dt_exchange *x)
{
    shared_state *s = NULL;

    DT_TRY(dt_calloc(&s, 1, sizeof *s, "the exchange"));
    x->state = s;
    return dt_exchange_own_slices(x);
}

static dt_status shared_start(dt_exchange *x, size_t b)
{
    shared_state *s = x->state;

    s->started = b + 1;
    dt_exchange_tell(x, DT_FOLDED, x->step * x->buckets + b + 1);
    return DT_OK;
}

static void shared_sum(dt_exchange *x, size_t b)
{
    const dt_span mine = dt_exchange_own_slice(x, b);
    void *sum = x->sum + mine.first;

    dt_exchange_team_operands(x, &x->fold, mine.first);
    dt_fold_run(&x->fold, &dt_fold_f32, x->operand, &sum, mine.count, x->scratch);
}

static dt_status shared_poll(dt_exchange *x)
{
    shared_state *s = x->state;

    for (; s->oldest < s->started; s->oldest++) {
        if (!dt_exchange_all(x, DT_FOLDED, x->step * x->buckets + s->oldest + 1))
            return DT_OK;
        shared_sum(x, s->oldest);
    }
    return DT_OK;
}

static dt_status shared_finish(dt_exchange *x)
{
    shared_state *s = x->state;

    DT_TRY(dt_exchange_drain(x, &s->oldest, shared_poll));
    s->oldest = s->started = 0;
    return DT_OK;
}

static void shared_close(dt_exchange *x)
{
    free(x->state);
}

const dt_exchange_row dt_exchange_row_shared = {
    .name = "shared",
    .exact = true,
    .shares = shared_shares,
    .only_shared = true,
    .open = shared_open,
    .start = shared_start,
    .poll = shared_poll,
    .finish = shared_finish,
    .close = shared_close,
};

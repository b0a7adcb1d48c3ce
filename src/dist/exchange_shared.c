/* exchange_shared.c - the exact exchange of one node, without messages: a rank folds its slice of
 * each bucket straight out of all ranks' slots into its own, in the order of the tree, and its
 * optimizer updates that slice of the one copy of the weights. A bucket is folded as soon as all
 * ranks have it, so a rank that is early does its share while it would wait. */
#include "exchange_row.h"

static dt_status shared_advance(dt_exchange *x, size_t b, bool *done)
{
    const dt_span mine = dt_exchange_own_slice(x, b);
    void *sum = x->sum + mine.first;

    dt_exchange_team_operands(x, &x->fold, mine.first);
    dt_fold_run(&x->fold, &dt_fold_f32, x->operand, &sum, mine.count, x->scratch, x->threads);
    *done = true;
    return DT_OK;
}

const dt_exchange_row dt_exchange_row_shared = {
    .name = "shared",
    .exact = true,
    .shares = DT_SHARES_NODE,
    .advance = shared_advance,
};

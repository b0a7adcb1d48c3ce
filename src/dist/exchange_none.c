/* exchange_none.c - no exchange: every rank goes on with its own shards' sum. The ranks
 * diverge, so it trains nothing; it measures what compute alone would take. */
#include "exchange_row.h"

static dt_status none_open(dt_exchange *x)
{
    dt_warn("exchange none: ranks do NOT exchange gradients and diverge from the first "
            "step; use it only to measure compute (%d ranks)",
            x->comm->world);
    return DT_OK;
}

static dt_status none_start(dt_exchange *x, size_t b)
{
    dt_exchange_fold_partials(x, x->bucket[b]);
    return DT_OK;
}

const dt_exchange_row dt_exchange_row_none = {
    .name = "none",
    .open = none_open,
    .start = none_start,
};

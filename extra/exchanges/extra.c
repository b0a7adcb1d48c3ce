/* extra.c - the rows of extra/exchanges. */
#include "exchanges.h"

void dt_extra_exchanges(void)
{
    static const dt_exchange_row *const rows[] = {&dt_exchange_row_gather, &dt_exchange_row_p2p,
                                                  &dt_exchange_row_allreduce,
                                                  &dt_exchange_row_buckets};

    _Static_assert(DT_COUNT_OF(rows) == DT_EXCHANGES - DT_EXCHANGES_CORE, "all of the list");
    memcpy(dt_exchange_rows + DT_EXCHANGES_CORE, rows, sizeof rows);
}

/* account.c - where the time went: phases of the record, without what was waited in them, and what
 * was waited. */
#include "run.h"

dt_status dt_account_take(dt_comm *c, double account[DT_ACCOUNTS])
{
    static const int of[DT_ACTIVITY_COUNT] = {
        [DT_AT_begin] = DT_ACCOUNT_rest,        [DT_AT_data] = DT_ACCOUNT_data,
        [DT_AT_forward] = DT_ACCOUNT_compute,   [DT_AT_backward] = DT_ACCOUNT_compute,
        [DT_AT_exchange] = DT_ACCOUNT_exchange, [DT_AT_checks] = DT_ACCOUNT_rest,
        [DT_AT_update] = DT_ACCOUNT_compute,    [DT_AT_test] = DT_ACCOUNT_compute,
        [DT_AT_save] = DT_ACCOUNT_saving,       [DT_AT_between] = DT_ACCOUNT_rest,
        [DT_AT_end] = DT_ACCOUNT_rest,
    };
    const double ready = dt_record_seconds(DT_LANE_LAYER, DT_CLOCKED_READY, DT_CLOCKED);
    double waits = 0;

    memset(account, 0, DT_ACCOUNTS * sizeof *account);
    for (int p = 0; p < DT_ACTIVITY_COUNT; p++) {
        account[of[p]] +=
            dt_record_seconds(DT_LANE_PHASE, p, DT_RECORD_KINDS) - dt_record_waited(p);
        waits += dt_record_waited(p);
    }
    const int64_t own = (int64_t)(1e9 * waits);
    int64_t least = -own;
    DT_TRY(dt_comm_max_i64(c, &least, 1));
    account[DT_ACCOUNT_compute] -= ready;
    account[DT_ACCOUNT_exchange] += ready - 1e-9 * (double)least;
    account[DT_ACCOUNT_waiting] = 1e-9 * (double)(own + least);
    return DT_OK;
}

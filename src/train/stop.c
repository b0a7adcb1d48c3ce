/* stop.c - leaving off together. */
#include "stop.h"

#include "signals.h"

dt_status dt_stop_listen(void *run)
{
    dt_run *r = run;
    dt_stop *s = &r->stop;
    bool heard = false;

    if (!s->listens)
        return DT_OK;
    if (s->signal == 0 && dt_signals_stop() != 0) {
        s->signal = dt_signals_stop();
        s->hails = 1;
        DT_TRY(dt_comm_hail(r->comm, s->signal));
    }
    if (s->signal == 0) {
        DT_TRY(dt_comm_hear(r->comm, &s->signal, &heard));
        s->heard += heard;
    }
    return s->signal != 0 ? DT_PREEMPTED : DT_OK;
}

dt_status dt_stop_agree(dt_run *r)
{
    int64_t signal = dt_signals_stop();

    DT_TRY(dt_comm_max_i64(r->comm, &signal, 1));
    r->stop.signal = (int)signal;
    return signal != 0 ? DT_PREEMPTED : DT_OK;
}

dt_status dt_stop_settle(dt_run *r, int64_t hails)
{
    dt_stop *s = &r->stop;
    int word = 0;

    for (; s->hails + s->heard < hails; s->heard++) {
        DT_TRY(dt_comm_await_hail(r->comm, &word));
        if (s->signal == 0)
            s->signal = word;
    }
    return DT_OK;
}

/* observer.c - the table of those who observe runs. */
#include "observer.h"

const dt_run_observer *dt_run_observers[DT_OBSERVERS];

void dt_observer_add(const dt_run_observer *o)
{
    static int count;

    if (count < DT_OBSERVERS) /* there are fewer extras */
        dt_run_observers[count++] = o;
}

void dt_observers_close(void **observed, int code)
{
    DT_OBSERVE(observed, close, code);
    memset(observed, 0, DT_OBSERVERS * sizeof *observed);
}

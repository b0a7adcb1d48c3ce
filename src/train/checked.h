/* checked.h - a run as its checks see it; private to src/train. */
#ifndef DT_CHECKED_H
#define DT_CHECKED_H
#include "run.h"

/* Complete once memory is bound and the exchange open. Local. */
dt_check_subject dt_run_subject(dt_run *r);
#endif

/* trace.h - --trace: what all ranks did in some steps, on rank 0's clock, as JSON for Perfetto and
 * Chrome; private to src/train. */
#ifndef DT_TRACE_H
#define DT_TRACE_H
#include "run.h"

typedef struct dt_trace dt_trace;
/* *t stays NULL without --trace, and is freed by free(), whatever the outcome. DT_CANTCREATE,
 * DT_NOMEM, DT_USAGE; agreed. Collective. */
dt_status dt_trace_open(dt_trace **t, const dt_run *r) DT_MUST_CHECK;
/* Before each step, and after the last one (over): `done` steps of this start are done (all same).
 * After the last step of the range the file is written, whole or not at all; what prevents that is
 * a warning. t: NULL does nothing. Collective. */
dt_status dt_trace_at(dt_trace *t, int64_t done, bool over) DT_MUST_CHECK;
#endif

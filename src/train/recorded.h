/* recorded.h - files that are made of all ranks' records (base.h): --comm-log, --trace; private to
 * src/train. */
#ifndef DT_RECORDED_H
#define DT_RECORDED_H
#include "run.h"

/* Lines of JSON, a collective each, that rank 0 appends. */
typedef struct dt_collectives dt_collectives;
/* path (same): the file, which may have been such a log before. *l is to be closed whatever the
 * outcome. DT_CANTCREATE, DT_NOMEM; agreed. Collective. */
dt_status dt_collectives_open(dt_collectives **l, dt_comm *c, const char *path) DT_MUST_CHECK;
/* The lines of `step` (same): what was called since the last time. What cannot be written is a
 * warning, and the end of the log. l: NULL does nothing. Collective. */
dt_status dt_collectives_step(dt_collectives *l, int64_t step) DT_MUST_CHECK;
/* In which rank's row event i of all [world][count] is the shortest: the others waited for it. */
int dt_collectives_last(const dt_event *all, int64_t count, int world, int64_t i);
void dt_collectives_close(dt_collectives *l); /* Local */

/* What all ranks did in some steps, on rank 0's clock, as JSON for Perfetto and Chrome. */
typedef struct dt_trace dt_trace;
/* *t stays NULL without --trace, and is freed by free(), whatever the outcome. DT_CANTCREATE,
 * DT_NOMEM, DT_USAGE; agreed. Collective. */
dt_status dt_trace_open(dt_trace **t, const dt_run *r) DT_MUST_CHECK;
/* Before each step, and after the last one (over): `done` steps of this start are done (all same).
 * After the last step of the range the file is written, whole or not at all; what prevents that is
 * a warning. t: NULL does nothing. Collective. */
dt_status dt_trace_at(dt_trace *t, int64_t done, bool over) DT_MUST_CHECK;
#endif

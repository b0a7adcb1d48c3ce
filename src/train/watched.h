/* watched.h - the training loop under watch (src/watch); private to src/train. */
#ifndef DT_WATCHED_H
#define DT_WATCHED_H
#include "run.h"
#include "watch/watch.h"

/* Seconds after which a rank that stands still is named; 0: never. */
double dt_watched_warn_s(const dt_options *o);
/* Watch the ranks of a run that is set up; folder: the run's, on rank 0. Collective. */
dt_status dt_watched_open(dt_watch **w, const dt_run *r, const char *folder) DT_MUST_CHECK;
/* From the seconds that each rank was in collectives. *late: the rank with the fewest, if half of
 * the others have more by a tenth of `seconds` (same); else -1. *cost: how much more half
 * of the others have, at least. Collective. */
dt_status dt_watched_late(dt_comm *c, double waited, double seconds, int *late,
                          double *cost) DT_MUST_CHECK;
/* At an epoch's end, whose training took `seconds` (same): one line where a rank was late,
 * once for each: *named is the last one, -1: none. Collective. */
dt_status dt_watched_epoch(const dt_run *r, double waited, double seconds,
                           int *named) DT_MUST_CHECK;
#endif

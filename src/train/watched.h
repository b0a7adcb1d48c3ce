/* watched.h - the training loop under watch (src/watch); private to src/train. */
#ifndef DT_WATCHED_H
#define DT_WATCHED_H
#include "run.h"
#include "watch/watch.h"

/* Of all ranks while the run is set up: who keeps the others waiting is said, and nobody is ended.
 * Collective. */
dt_status dt_watched_setup(dt_watch **w, dt_comm *c, const dt_options *o) DT_MUST_CHECK;
/* Of the run's ranks, from now on; folder: the run's, on rank 0. Collective. */
dt_status dt_watched_open(dt_watch **w, const dt_run *r, const char *folder) DT_MUST_CHECK;
/* Who waited least is who the others waited for; it counts where half of them waited longer by a
 * tenth of the `seconds`: that rank, or -1. *cost: what half of them waited longer.
 *   waited, sorted  [world]: seconds; room for the same. Local. */
int dt_late_rank(const double *waited, double *sorted, int world, double seconds, double *cost);
/* The rank that the others wait for, by what they waited in stretches of some seconds. Zeroed at
 * first, on rank 0; released by dt_straggler_release. */
typedef struct dt_straggler {
    double *seconds; /* [3][world]: waited in all at the stretch's begin, in it, and these sorted */
    double since, cost; /* the stretch's begin; what rank `late` has cost in this epoch */
    int *late;          /* [world] stretches in which it was later than the others */
    int stretches;      /* of this epoch */
} dt_straggler;
/* After each step. w: NULL does nothing. Local. */
void dt_watched_step(dt_straggler *s, const dt_watch *w, const dt_run *r);
/* At an epoch's end: one line where one rank was late in most stretches. Local. */
void dt_watched_epoch(dt_straggler *s, const dt_run *r);
void dt_straggler_release(dt_straggler *s);
#endif

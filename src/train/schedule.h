/* schedule.h - the learning rate of every step; private to src/train.
 *
 * A rate is computed in float64 from the step's number alone, so a run that is cut and
 * continued has the rates of one that was not. All functions are Local. */
#ifndef DT_SCHEDULE_H
#define DT_SCHEDULE_H
#include "train.h"

typedef struct dt_schedule {
    double (*rate)(const struct dt_schedule *s, int64_t step);
    double lr; /* effective: --lr after --lr-scale */
    double to, gamma, peak;
    int64_t warmup; /* steps of linear warm-up */
    int64_t steps;  /* that the schedule spans after the warm-up, at least 1 */
    int64_t milestone[DT_MAX_MILESTONES]; /* steps of the run */
    int milestones;
} dt_schedule;

/* Read the options lr, lr_to, lr_scale, global_batch (resolved), schedule, warmup, milestones,
 * gamma, peak.
 *   total_steps   of the schedule, warm-up included; >= 0 */
void dt_schedule_open(dt_schedule *s, const dt_options *o, int64_t steps_per_epoch,
                      int64_t total_steps);
/* The rate of step 0, 1, ... of the run. */
double dt_schedule_lr(const dt_schedule *s, int64_t step);

#endif

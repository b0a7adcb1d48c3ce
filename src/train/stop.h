/* stop.h - how ranks leave off together, in the middle of a step or of a test pass; private to
 * src/train.
 *
 * Two ranks are never at the same place, so nobody can say "here". A rank that a signal asks to
 * stop leaves off where it is and hails the others, who leave off when they hear it. What all
 * have begun they still end together: sums are taken over whatever is there, and the one that
 * every pass ends with also counts the ranks that left off and those that hailed. If any left
 * off, all discard the pass, whose outcome is then as if it had not begun. */
#ifndef DT_STOP_H
#define DT_STOP_H
#include "base/base.h"

typedef struct dt_run dt_run;
typedef struct dt_stop {
    bool listens;     /* a pass is under way that this rank may leave off by itself */
    bool left;        /* and it has */
    int signal;       /* that asks for it, on this rank or another; 0: none */
    int hails, heard; /* sent by this rank (0 or 1), and received */
} dt_stop;

/* DT_PREEMPTED, without a record, where this rank is to leave off. Given to dt_exec_watch.
 * Local. */
dt_status dt_stop_listen(void *run) DT_MUST_CHECK;
/* The same for ranks that must leave off at the same place. Collective. */
dt_status dt_stop_agree(dt_run *r) DT_MUST_CHECK;
/* All ranks know how many have hailed: hear the rest, so that all know why. Local. */
dt_status dt_stop_settle(dt_run *r, int64_t hails) DT_MUST_CHECK;

#endif

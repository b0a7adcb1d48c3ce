/* watch.h - which rank keeps the others waiting; the public header of extra/watch.
 *
 * Each rank writes where it is (dt_activity in base.h) on a board that its node's ranks share. A
 * monitor, a thread of each rank that never calls MPI, looks at the board twice a second; a node's
 * first rank that still runs leads it: its monitor speaks and acts for the node, tells the other
 * nodes, and on rank 0's node writes the text `progress` in the run folder twice a second. If all
 * ranks are killed, the file stays, and says where they were up to half a second before. */
#ifndef DT_WATCH_H
#define DT_WATCH_H
#include "dist/dist.h"

typedef struct dt_watch dt_watch;

typedef struct dt_watch_opts {
    const char *folder; /* on rank 0: where `progress` goes; needed by open alone */
    /* The name of a step of the plan, which is borrowed until close; called by any thread (same) */
    const char *(*name)(const void *plan, int step);
    const void *plan;
    int names;                  /* (same) */
    int64_t total_steps, batch; /* of the run; images of a step (same) */
    double warn_s, abort_s;     /* a rank stands still: until a warning; until the run is ended,
                                 * sooner if its host is silent. 0: never (same) */
    /* NULL: a run is watched. Else the calls of a library, and this is what its users know abort_s
     * by: a place is a call's number and name (step and layer), and a rank is late only once
     * another has waited for abort_s, because what it does between calls is the program's (same) */
    const char *library;
} dt_watch_opts;

/* From now on the rank's changes of place are seen and judged. Collective. */
dt_status dt_watch_open(dt_watch **w, dt_comm *c, const dt_watch_opts *opts) DT_MUST_CHECK;
/* The run has ended with that exit code, as others may see. w: NULL does nothing. Local. */
void dt_watch_close(dt_watch *w, int code);

/* From the seconds that each rank was in collectives. *late: the rank with the fewest, if half of
 * the others have more by a tenth of `seconds` (same); else -1. *cost: how much more half
 * of the others have, at least. Collective. */
dt_status dt_watch_late(dt_comm *c, double waited, double seconds, int *late,
                        double *cost) DT_MUST_CHECK;

/* Whether `progress` is written: looks 1.2 s apart. For disks whose locks say nothing. Local. */
bool dt_watch_writes(const char *run);
/* Print where each rank of the run is, or was when it ended. going: a live run has the folder.
 * DT_NOINPUT: there is no `progress`; DT_FORMAT: it is none. Local. */
dt_status dt_watch_status(const char *run, bool going, FILE *f) DT_MUST_CHECK;

void dt_extra_watch(void);
#endif

/* watch.h - which rank keeps the others waiting; the public header of src/watch.
 *
 * Each rank writes where it is (dt_place in base.h) on a board that its node's ranks share. A
 * monitor, a thread of each rank that never calls MPI, looks at the board twice a second; the first
 * rank of a node that runs leads it: its monitor speaks and acts for the node, tells the other
 * nodes, and on rank 0's node writes the file `progress` of the run folder, a text for people,
 * which is right up to half a second also after everything was killed. */
#ifndef DT_WATCH_H
#define DT_WATCH_H
#include "dist/dist.h"

#include <limits.h>
#include <stdio.h>

typedef struct dt_watch dt_watch;

typedef struct dt_watch_opts {
    const char *folder;         /* on rank 0: where `progress` goes */
    const char *const *name;    /* [names] of the plan's steps; copied (same) */
    int names;                  /* (same) */
    int64_t total_steps, batch; /* of the run; images of a step (same) */
    double warn_s, abort_s;     /* a rank stands still: say so; end the run, but sooner
                                 * where its host is silent. 0: never (same) */
} dt_watch_opts;

/* From now on the rank's changes of place are seen and judged. Collective. */
dt_status dt_watch_open(dt_watch **w, dt_comm *c, const dt_watch_opts *opts) DT_MUST_CHECK;
/* The run has ended with that exit code, as others may see. w: NULL does nothing. Local. */
void dt_watch_close(dt_watch *w, int code);

/* ---- Judging ------------------------------------------------------------------------ */

enum {
    DT_WATCH_HEARD_S = 3,   /* a monitor that is silent for so long does not run */
    DT_WATCH_SILENT_S = 45, /* a host that is silent for so long, while others wait, is lost */
};

/* A rank as it is seen. */
typedef struct dt_watch_view {
    bool runs;        /* its process does: its own monitor was heard */
    bool waits;       /* for other ranks */
    double still_s;   /* since its last change, or since it waits, or since it was heard */
    double allowed_s; /* what it took before between two changes; in waiting, for a step; where it
                       * does not run, until others of its node would tell */
} dt_watch_view;

/* A rank is late if it does not run, or if it neither waits nor changes its place for longer than
 * `warn_s` beyond what it took before; it counts where others wait for half as long, or there are
 * no others. If no rank is late and all wait for that long, and for DT_WATCH_HEARD_S more, in
 * which a rank that does not run would show, the run cannot continue.
 * Source: the stall inspector of Horovod asks who has not come; here all say where they are. */
typedef struct dt_watch_verdict {
    enum { DT_WATCH_FINE, DT_WATCH_LATE, DT_WATCH_ALL_WAIT } kind;
    int rank;       /* the one that is late for longest, or that waits for longest */
    double still_s; /* that one */
    int ranks;      /* that are late, or that wait for so long */
    int waits;      /* that wait, for half of warn_s or longer */
    double waits_s; /* the one that waits for longest */
} dt_watch_verdict;
dt_watch_verdict dt_watch_judge(const dt_watch_view *view, int count, double warn_s);

/* ---- Reading ------------------------------------------------------------------------ */

/* Print where each rank of the run is, or was when it ended. going: the run folder is locked.
 * DT_NOINPUT: there is no `progress`; DT_FORMAT: it is none. Local. */
dt_status dt_watch_status(const char *run, bool going, FILE *f) DT_MUST_CHECK;
#endif

/* rundir.h - the folder of one run; private to src/train. All functions are Local; rank
 * 0 alone calls them. */
#ifndef DT_RUNDIR_H
#define DT_RUNDIR_H
#include "train.h"
#include <limits.h>

typedef struct dt_rundir {
    char path[PATH_MAX - 64]; /* what it is called; 64: room for the names of files in it */
    char at[PATH_MAX - 64];   /* what leads to it, whatever becomes of its name: by its descriptor */
    int folder, lock;         /* descriptors, of the lock file; -1: closed */
    bool open, created; /* created: by us, so to be removed if nothing came of it */
    bool resumed;       /* an older run's: what is in it must stay */
} dt_rundir;

/* Take --out DIR, which must be new or empty, or make
 * runs/<YYYYmmdd-HHMMSS>-<net>-np<N>, with -2, -3, ... where that is taken. Missing
 * parents are made, and are on disk when this returns.
 *   --resume auto  also takes over the remains of a run in --out: a folder with
 *                  options.yaml or checkpoints, or with nothing but a lock
 *   --resume PATH  takes over the run folder that PATH is or lies in, when --out is that
 *                  folder or not given; with another --out a new one begins
 * The folder is held by flock on its file `lock` until close: a lock file whose process is
 * dead holds nothing. Of processes that want one folder at once, one gets it.
 * DT_CANTCREATE: not empty, held by another run, or not writable; DT_NOINPUT: PATH does
 * not exist. */
dt_status dt_rundir_open(dt_rundir *d, const dt_options *o, int world) DT_MUST_CHECK;
/* Give up the lock; a folder that we made and that is still empty goes. A zeroed d is
 * allowed. */
void dt_rundir_close(dt_rundir *d);
/* Whether a live run holds the folder, by its lock file. */
bool dt_rundir_held(const char *folder);
/* A folder that was moved is found again, and a warning tells; path is its new name then. Where
 * there is no /proc, DT_IO: a name is all that leads to it, and what has it now is another's. */
dt_status dt_rundir_find(dt_rundir *d) DT_MUST_CHECK;
/* The path of a file in the folder, by `at`; the name has at most 63 characters. Returns out. */
const char *dt_rundir_file(const dt_rundir *d, const char *name, char out[PATH_MAX]);

#endif

/* rundir.h - the folder of one run; private to src/train. All functions are Local; rank
 * 0 alone calls them. */
#ifndef DT_RUNDIR_H
#define DT_RUNDIR_H
#include "train.h"
#include <limits.h>

typedef struct dt_rundir {
    char path[PATH_MAX - 64]; /* 64: room for the names of files in it */
    int lock;                 /* descriptor of the lock file */
    bool open, created; /* created: by us, so to be removed if nothing came of it */
} dt_rundir;

/* Take --out DIR, which must be new or empty, or make
 * runs/<YYYYmmdd-HHMMSS>-<net>-np<N>, with -2, -3, ... where that is taken. Missing
 * parents are made. The folder is held by flock on its file `lock` until close.
 * DT_CANTCREATE: not empty, held by another run, or not writable. */
dt_status dt_rundir_open(dt_rundir *d, const dt_options *o, int world) DT_MUST_CHECK;
/* Give up the lock; a folder that we made and that is still empty goes. A zeroed d is
 * allowed. */
void dt_rundir_close(dt_rundir *d);
/* The path of a file in the folder; the name has at most 63 characters. Returns out. */
const char *dt_rundir_file(const dt_rundir *d, const char *name, char out[PATH_MAX]);

#endif

/* launch.h - starting a run with one command; the public header of src/launch.
 *
 * Hosts and their ranks come from a list, a file of mpirun's or a rank table; what is started is
 * mpirun, with everything that it needs to know. Nothing here talks to another rank: all is
 * Local. */
#ifndef DT_LAUNCH_H
#define DT_LAUNCH_H
#include "base/base.h"

#include <stdio.h>

/* ---- Hosts ---------------------------------------------------------------------------- */

enum { DT_MOST_HOSTS = 4096, DT_MOST_SLOTS = 4096, DT_HOST_NAME = 256 };

typedef struct dt_host {
    char name[DT_HOST_NAME]; /* letters, digits, '.', '-', '_' */
    int slots;               /* ranks there, from 1 */
} dt_host;

typedef struct dt_hosts {
    dt_host *host; /* [count], in the order of their ranks; owned */
    int count, ranks;
} dt_hosts;

void dt_hosts_release(dt_hosts *h);
/* One host more. DT_USAGE: its name is not one, is there already, or has no sensible number of
 * ranks. DT_NOMEM. Local, like all here. */
dt_status dt_hosts_add(dt_hosts *h, const char *name, size_t length, int64_t slots) DT_MUST_CHECK;
/* Those of the option --hosts, "a:8,b:8"; without a number, `slots`. The caller releases h, also
 * where it fails. DT_USAGE; DT_NOMEM. */
dt_status dt_hosts_parse(dt_hosts *h, const char *text, int slots) DT_MUST_CHECK;

/* ---- Rank tables ----------------------------------------------------------------------- */

/* The Ascend tutorial's JSON, version 1.0: servers with 1, 2, 4 or 8 devices each, whose rank ids
 * run from 0 without gaps, in the lexical order of the servers' ids. A server is a host, a device
 * a rank. DT_NOINPUT; DT_CONFIG names file, place and value. */
dt_status dt_ranktable_read(dt_hosts *h, const char *path) DT_MUST_CHECK;
/* One that dt_ranktable_read takes, of hosts in lexical order. DT_USAGE: they are in another order,
 * or have other numbers of ranks. */
dt_status dt_ranktable_write(FILE *f, const dt_hosts *h) DT_MUST_CHECK;

/* ---- Commands -------------------------------------------------------------------------- */

/* dtrain launch ARGS; argv[0] is the first of them. It starts mpirun, or its daemon, and stays
 * until that ends: *code. */
dt_status dt_launch(int argc, char **argv, int *code) DT_MUST_CHECK;
/* dtrain ranktable ARGS: print a table, or check one. */
dt_status dt_ranktable(int argc, char **argv, int *code) DT_MUST_CHECK;
#endif

/* launch.h - starting a run with one command; the public header of extra/launch.
 *
 * Hosts and their ranks come from a list, a file of mpirun's or a rank table; what is started is
 * mpirun, with everything that it needs to know. Nothing here talks to another rank: all is
 * Local. */
#ifndef DT_LAUNCH_H
#define DT_LAUNCH_H
#include "base/base.h"

void dt_extra_launch(void);

/* ---- Hosts ---------------------------------------------------------------------------- */

enum { DT_MOST_HOSTS = 4096, DT_MOST_SLOTS = 4096, DT_HOST_NAME = 256 };

typedef struct dt_hosts {
    char *list; /* in the order of their ranks, as mpirun takes it: "a:8,b:8"; to be freed by
                 * free(), also where a call fails. NULL: none */
    int count, ranks;
} dt_hosts;

/* One host more. DT_USAGE: its name has other characters than letters, digits, '.', '-' and '_',
 * or it has no sensible number of ranks. DT_NOMEM. */
dt_status dt_hosts_add(dt_hosts *h, const char *name, size_t length, int64_t slots) DT_MUST_CHECK;
/* Those of the option --hosts, "a:8,b:8"; without a number, `slots`. DT_USAGE; DT_NOMEM. */
dt_status dt_hosts_parse(dt_hosts *h, const char *text, int slots) DT_MUST_CHECK;
/* Those of a rank table, the Ascend tutorial's JSON, version 1.0: servers with 1, 2, 4 or 8
 * devices each, whose rank ids run from 0 without gaps, in the lexical order of the servers' ids.
 * A server is a host, a device a rank. DT_NOINPUT; DT_CONFIG names file, place and value. */
dt_status dt_ranktable_read(dt_hosts *h, const char *path) DT_MUST_CHECK;

/* ---- Commands -------------------------------------------------------------------------- */

/* dtrain launch ARGS; argv[0] is the first of them, argv[-1] is there. It runs mpirun, or, on other
 * hosts than the first, mpirun's daemon, until the run ends; *code is the run's exit code.
 *   by     whose mpirun it is
 *   check  whether dtrain knows the words that are its own
 *   peers  a launcher has started the same command beside this one */
dt_status dt_launch(int argc, char **argv, const dt_launcher *by,
                    dt_status (*check)(int argc, char **argv, bool *alone), bool peers,
                    int *code) DT_MUST_CHECK;
/* dtrain ranktable FILE: check it. */
dt_status dt_ranktable(int argc, char **argv, int *code) DT_MUST_CHECK;
#endif

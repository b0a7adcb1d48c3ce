/* meet.h - a run whose hosts are started one by one; private to src/launch.
 *
 *     first host                          other hosts
 *     waits until all have come     <-    connect, prove the token
 *     starts mpirun
 *     mpirun asks its agent         ->    start Open MPI's daemon, and say when it ends
 *     mpirun ends                   ->    end with its code
 *
 * mpirun starts daemons by an agent, which is this program again (dt_agent); it hands the request
 * to the first host's process over a Unix socket. Messages, by their one member:
 *
 *     to a host    start: words of a daemon    end: exit code, also where it is refused
 *     from it      done: its daemon's exit code    signal: one for the run */
#ifndef DT_LAUNCH_MEET_H
#define DT_LAUNCH_MEET_H
#include "wire.h"

#include <sys/socket.h>
#include <sys/types.h>

enum {
    DT_WINDOW_S = 120,     /* in which all hosts are to come, as in the Ascend tutorial */
    DT_PATIENCE_S = 11,    /* with a host that is silent: keep-alive's, see launch.c */
    DT_PATIENCE_MS = 2000, /* between two looks for new connections */
    DT_NO_DAEMON = 255,    /* exit code of one that was not started or is lost, as ssh's */
};
/* The name of the agents' Unix socket, an abstract one of five letters, which the system gives
 * (unix(7), autobind). DTRAIN_* are options. */
#define DT_AGENT_VARIABLE "LAUNCH_AGENT_SOCKET"
#define DT_AGENT_ADDRESS (sizeof(sa_family_t) + 1 + 5)

typedef struct dt_meeting {
    char master[DT_HOST_NAME + 8]; /* HOST:PORT of the first one */
    dt_hello own;
    dt_token token;
} dt_meeting;

/* ---- The two kinds of hosts (first.c, join.c) ------------------------------------------------ */

/* m->own.nodes 1: the only host that is started here; mpirun reaches the others, if any, by itself.
 * Else it waits for the others; *h is all of them, the first one by the master's address. m is
 * borrowed. DT_COMM: one has not come, or has left again, which is said by its number. */
typedef struct dt_first dt_first;
dt_status dt_first_open(dt_first **f, const dt_meeting *m, dt_hosts *h) DT_MUST_CHECK;
/* Run mpirun's words, and serve its agent until it ends: its exit code; that of DT_COMM where it
 * ends with 0 after one of the hosts that have met is gone. DT_NOMEM. */
dt_status dt_first_run(dt_first *f, char **word, int *code) DT_MUST_CHECK;
void dt_first_close(dt_first *f);
/* DT_AGENT_VARIABLE's value for mpirun's environment; "": it needs no agent. */
const char *dt_first_socket(const dt_first *f);

/* Another host: until the run's end; its exit code. DT_COMM: the first host is not there, or not
 * any more. */
dt_status dt_join(const dt_meeting *m, int *code) DT_MUST_CHECK;
/* The words of a message, which end up in argv. NULL: they do not start Open MPI's daemon by its
 * bare name. To be freed by free(); the texts are the message's. */
char **dt_daemon_words(const json_t *words);

/* ---- The agent (agent.c) --------------------------------------------------------------------- */

/* As mpirun's agent: argv is the host and the daemon's words. The daemon's exit code. */
int dt_agent(int argc, char **argv);
/* The request that it sends, an array: the host, then the daemon's words as argv wants them: mpirun
 * writes for a shell, and there is none. NULL: no memory, or not UTF-8. Changes the words. */
json_t *dt_agent_request(int argc, char **argv);

/* ---- Signals (child.c) ----------------------------------------------------------------------- */

/* From now on signals that are for the run, and ends of children, make this descriptor readable. */
dt_status dt_signals_open(int *fd) DT_MUST_CHECK;
/* The next signal that is for the run; 0: there is none. */
int dt_signals_next(int fd);
/* Whether one has come before the run began: a failure DT_PREEMPTED then. */
dt_status dt_signals_stopped(int fd) DT_MUST_CHECK;

/* ---- The process that is started (child.c) --------------------------------------------------- */

/* Start the words, found by PATH, in a session of its own: a terminal's signals come to it by this
 * process alone. It gets SIGTERM when this process is gone. errors: its standard error. A program
 * that is not there is a child that says so and ends with DT_NOINPUT's exit code. DT_NOMEM. */
dt_status dt_child_start(char **word, int errors, pid_t *child) DT_MUST_CHECK;
/* Whether it has ended: *code is its exit code, or 128 + its signal. */
bool dt_child_ended(pid_t child, int *code);
/* mpirun's TCP connections, those that it has now, give up after DT_PATIENCE_S. Where the system
 * does not let us, nothing happens. */
void dt_child_bound(pid_t child);
#endif

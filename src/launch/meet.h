/* meet.h - a run whose hosts are started one by one; private to src/launch.
 *
 *     first host                          other hosts
 *     waits until all have come     <-    connect, prove the token
 *     starts mpirun
 *     mpirun asks its agent         ->    start Open MPI's daemon, and say when it ends
 *     mpirun ends                   ->    end with its code
 *
 * The agent is this program again (dt_agent), because mpirun wants one to start daemons by; it asks
 * the first host's over a socket in a folder of its own. */
#ifndef DT_LAUNCH_MEET_H
#define DT_LAUNCH_MEET_H
#include "wire.h"

#include <sys/types.h>

enum {
    DT_WINDOW_S = 120,     /* in which all hosts are to come, as in the Ascend tutorial */
    DT_PATIENCE_S = 11,    /* with a host that is silent: keep-alive's, see launch.c */
    DT_PATIENCE_MS = 2000, /* between two looks for new connections */
};
#define DT_AGENT_VARIABLE "LAUNCH_AGENT_SOCKET" /* DTRAIN_* are options */

typedef struct dt_meeting {
    const char *master; /* ADDRESS:PORT of the first host */
    dt_hello own;
    dt_token token;
} dt_meeting;

/* The first host: waits for the others; *h is all of them, the first one by the master's address.
 * DT_COMM: one has not come, which is said by its number. */
typedef struct dt_server dt_server;
/* The only host that is started here: mpirun reaches the others, if any, by itself. */
dt_status dt_server_alone(dt_server **s) DT_MUST_CHECK;
dt_status dt_server_open(dt_server **s, const dt_meeting *m, dt_hosts *h) DT_MUST_CHECK;
/* Run mpirun's words, and serve its agent until it ends: its exit code, DT_OK; that of DT_COMM
 * where it has lost one of several hosts and ends with 0. */
dt_status dt_server_run(dt_server *s, char **word, bool several, int *code) DT_MUST_CHECK;
void dt_server_close(dt_server *s);
/* What mpirun's environment has to say: DT_AGENT_VARIABLE's value; "": it needs no agent. */
const char *dt_server_socket(const dt_server *s);

/* Another host: until the run's end; its exit code. DT_COMM: the first host is not there, or not
 * any more. */
dt_status dt_join(const dt_meeting *m, int *code) DT_MUST_CHECK;

/* As mpirun's agent: words are the host and the daemon's. The daemon's exit code. */
int dt_agent(int argc, char **argv);

/* A socket bound or connected to "ADDRESS:PORT". what: for messages. DT_USAGE; DT_COMM. */
dt_status dt_meeting_socket(const char *master, bool binds, int *fd) DT_MUST_CHECK;
/* Signals that are for the run, and the ends of children, come by this descriptor from now on. */
dt_status dt_meeting_signals(int *fd) DT_MUST_CHECK;
/* The next one; false: there is none. of_terminal: all of its group have got it. */
bool dt_meeting_signal(int fd, int *number, bool *of_terminal);
/* Whether one has come before the run began: a failure DT_PREEMPTED then. */
dt_status dt_meeting_stopped(int fd) DT_MUST_CHECK;
/* TCP connections of a child give up after DT_PATIENCE_S: those that it has now. Where the system
 * does not let us, nothing happens. */
void dt_patience_bound(pid_t child);
/* What comes from a pipe goes to standard error. lost_host: mpirun has said that. */
typedef struct dt_relay {
    int from; /* owned; -1: there is none, or nobody writes to it any more */
    size_t matched;
    bool lost_host;
} dt_relay;
/* As much as there is, up to a page; false: there was nothing. Where standard error is full, it
 * returns within 0.1 s. */
bool dt_relay_pass(dt_relay *r);
/* In a child that is to become another program: SIGTERM when `parent`, its own, is gone. */
void dt_meeting_child(pid_t parent);
#endif

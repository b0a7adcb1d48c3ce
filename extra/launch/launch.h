/* launch.h - starting a run with one command, on one host or several; the header of extra/launch.
 *
 * Hosts and their ranks come from a list, a file of mpirun's or a rank table; what is started is
 * mpirun, with everything that it needs to know. Nothing here talks to another rank: all is Local.
 * Where hosts are started one by one:
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
#ifndef DT_LAUNCH_H
#define DT_LAUNCH_H
#include "base/base.h"

#include <jansson.h>
#include <netinet/in.h>
#include <sys/types.h>

/* ---- Commands -------------------------------------------------------------------------------- */

void dt_extra_launch(void);

/* What mpirun reads from the environment: always; if --interface or --agent is given, that; where
 * hosts have met. */
typedef enum dt_launch_when { DT_ALWAYS, DT_INTERFACE, DT_AGENT, DT_MET, DT_WHENS } dt_launch_when;
typedef struct dt_launch_variable {
    dt_launch_when when;
    const char *name, *value; /* value NULL: what was given */
} dt_launch_variable;

/* An mpirun that dtrain starts. */
typedef struct dt_mpirun {
    const char *library;      /* first words of its MPI's version text, a space before each */
    const char *sign;         /* a variable that all its ranks have, and nothing else */
    const char *hosts, *file; /* options; file NULL: its own files are others, hosts are named */
    const char *export;       /* likewise, of a variable; NULL: ranks get them all */
    const char *yields;       /* a setting by which ranks that wait leave their core; or NULL */
    int ends;                 /* the signal to it that ends its ranks at once */
    bool bare;    /* of a rank that a signal has ended its code is the signal, without 128 */
    bool daemons; /* started by an agent of ours: hosts need no ssh; with files in TMPDIR */
    const dt_launch_variable *variables; /* up to one without a name */
} dt_mpirun;
/* Whose mpirun belongs to the MPI library that says this of itself; Open MPI's, if unknown. */
const dt_mpirun *dt_mpirun_of(const char *library);
/* dtrain launch ARGS; argv[0] is the first of them, argv[-1] is there. It runs mpirun, whose it is
 * says `by`, or, on other hosts than the first, mpirun's daemon, until the run ends; *code is the
 * run's exit code. */
dt_status dt_launch(int argc, char **argv, const dt_mpirun *by, int *code) DT_MUST_CHECK;

/* ---- Hosts ----------------------------------------------------------------------------------- */

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

/* ---- Hosts that meet ------------------------------------------------------------------------- */

enum {
    DT_WINDOW_S = 120,     /* in which all hosts are to come, as in the Ascend tutorial */
    DT_PATIENCE_S = 11,    /* with a host that is silent: keep-alive's, see mpirun.c */
    DT_PATIENCE_MS = 2000, /* of a poll, at most: no deadline or connection of mpirun's ends it */
    DT_NO_DAEMON = 255,    /* exit code of one that was not started or is lost, as ssh's */
};
/* In mpirun's environment, where hosts have met: the name of the agents' Unix socket, an abstract
 * one, which the system gives (unix(7), autobind). Not DTRAIN_*: ranks read options there. */
#define DT_AGENT_VARIABLE "LAUNCH_AGENT_SOCKET"

/* ---- A connection between two hosts that hold the same token (wire.c) -------------------------
 *
 * TLS 1.3 (RFC 8446) with one cipher suite and, in place of certificates, the SHA-256 of the token
 * as external pre-shared key: OpenSSL authenticates both ends, encrypts, and refuses bytes that
 * were changed or repeated. The client's identity of the key says which host it is. A message is
 * a JSON object with one member, named like what it says. */

enum {
    DT_WIRE_KEY = 32,
    DT_WIRE_PATIENCE_S = 3, /* for a handshake */
};

typedef struct dt_token {
    uint8_t key[DT_WIRE_KEY]; /* SHA-256 of its text */
} dt_token;

#define DT_TOKEN_VARIABLE "DTRAIN_TOKEN" /* no option: removed before anything is started */

/* From the file, or where path is NULL, from the variable. DT_USAGE: there is neither; DT_CONFIG:
 * it is too short or too long, or others may read the file; DT_NOINPUT. Local. */
dt_status dt_token_read(dt_token *t, const char *path) DT_MUST_CHECK;

/* Which host of the run it is, of how many, and its ranks. */
typedef struct dt_hello {
    int nodes, node, slots;
} dt_hello;

typedef struct dt_wire { /* it stays where it is until the handshake is over */
    int fd;              /* owned; -1: closed */
    struct ssl_st *ssl;  /* OpenSSL's SSL */
    const dt_token *token;
    dt_hello hello;             /* the client's; on the server, what it has said */
    char peer[INET_ADDRSTRLEN]; /* the other end's address */
} dt_wire;

/* A TCP socket connected to "ADDRESS:PORT"; or, unless own is NULL, one that is bound to it,
 * listens and does not block: own is the numeric address. DT_USAGE; DT_COMM. Local. */
dt_status dt_wire_socket(const char *master, int *fd, char own[INET_ADDRSTRLEN]) DT_MUST_CHECK;
/* One end of the connected socket fd, which it owns from now on, also where it fails. own: a
 * client's first message; NULL: the server's end. DT_NOMEM. Local. */
dt_status dt_wire_open(dt_wire *w, int fd, const dt_token *t, const dt_hello *own) DT_MUST_CHECK;
void dt_wire_close(dt_wire *w);

typedef enum dt_greeting {
    DT_GREETED,  /* both ends have the token; w->hello is true */
    DT_GREETING, /* more has to come: the socket does not block, or a signal or limit came first */
    DT_STRANGER, /* the ends have different tokens */
    DT_LEFT      /* the other end has closed, is silent, or does not speak this protocol */
} dt_greeting;
/* Continue the handshake. When it is over, the socket blocks, and keep-alive is on. Local. */
dt_greeting dt_wire_greet(dt_wire *w);

/* How long a call may wait for the other end; 0: without a limit. Local. */
void dt_wire_limit(int fd, int seconds);
/* Send the message, which it takes; NULL: there was no memory for it. False: the connection is
 * over. Local. */
bool dt_wire_say(dt_wire *w, json_t *message);
/* Wait for the next message, to be freed by json_decref. NULL: the connection is over. Local. */
json_t *dt_wire_hear(dt_wire *w);

/* ---- The two kinds of hosts (first.c, join.c) ------------------------------------------------ */

typedef struct dt_meeting {
    const dt_mpirun *by;
    char master[DT_HOST_NAME + 8]; /* HOST:PORT of the first one */
    dt_hello own;
    dt_token token;
} dt_meeting;

/* If m->own.nodes is 1, no host has to come: mpirun reaches others, if any, by itself. Else this
 * waits for the other hosts; *h lists all hosts, the first by the master's address. m is borrowed.
 * DT_COMM gives the number of a host that has not come or has left again. */
typedef struct dt_first dt_first;
dt_status dt_first_open(dt_first **f, const dt_meeting *m, dt_hosts *h) DT_MUST_CHECK;
/* Run mpirun's words, and serve its agent until it ends. trains: the ranks write a checkpoint when
 * they get USR1, which INT, TERM and HUP become; a second INT or TERM ends them, a third one kills
 * mpirun. *code: mpirun's exit code; 128 + the signal that has ended the ranks; or DT_COMM's
 * where mpirun ends with 0 although a host was lost. DT_NOMEM. */
dt_status dt_first_run(dt_first *f, char **word, bool trains, int *code) DT_MUST_CHECK;
void dt_first_close(dt_first *f);
/* Run another host until the run ends; *code is the run's exit code. DT_COMM: the first host is not
 * there, or not any more. */
dt_status dt_join(const dt_meeting *m, int *code) DT_MUST_CHECK;
/* The words of a message, which end up in argv. NULL: they do not start Open MPI's daemon by its
 * bare name. To be freed by free(); the texts are the message's. */
char **dt_daemon_words(const json_t *words);

/* ---- The agent (join.c) ---------------------------------------------------------------------- */

/* Be mpirun's agent: argv is the host and the daemon's words. Returns the daemon's exit code. */
int dt_agent(int argc, char **argv);
/* The request that it sends, an array: the host, then the daemon's words without the quotes that
 * mpirun writes for a shell. NULL: no memory, or not UTF-8. Changes the words. */
json_t *dt_agent_request(int argc, char **argv);

/* ---- Signals (child.c) ----------------------------------------------------------------------- */

/* From now on signals that are for the run, and ends of children, make this descriptor readable. */
dt_status dt_signals_open(int *fd) DT_MUST_CHECK;
/* The next signal that is for the run; 0: there is none. */
int dt_signals_next(int fd);
const char *dt_signals_word(int number); /* of one of them: "INT" */
/* DT_PREEMPTED: a signal has come before the run began; TSTP stops this process. */
dt_status dt_signals_stopped(int fd) DT_MUST_CHECK;

/* ---- The process that is started (child.c) --------------------------------------------------- */

/* Whether there is room for the files that Open MPI keeps on this host. DT_IO; DT_CANTCREATE. */
dt_status dt_child_room(void) DT_MUST_CHECK;
/* Start the words, found by PATH, in a new session: only this process passes a terminal's signals
 * on. It gets SIGTERM when this process is gone. errors: its standard error. A program
 * that is not there is a child that says so and ends with DT_NOINPUT's exit code. DT_NOMEM. */
dt_status dt_child_start(char **word, int errors, pid_t *child) DT_MUST_CHECK;
/* Whether it has ended: *code is its exit code, or 128 + its signal. */
bool dt_child_ended(pid_t child, int *code);
/* Whether mpirun has had ranks on this host, and none is left. *began: one was seen, by now. */
bool dt_child_idle(pid_t child, const dt_mpirun *by, bool *began);
/* Its ranks stand still, or go on: this host's, and where mpirun does so by TSTP, others'. */
void dt_child_hold(pid_t child, const dt_mpirun *by, bool on);
/* Let mpirun's present TCP connections give up after DT_PATIENCE_S. Where the system
 * does not let us, nothing happens. */
void dt_child_bound(pid_t child);
#endif

/* join.c - another host of a run: it starts Open MPI's daemon when the first one says so. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "meet.h"

enum {
    RETRY_MS = 200,
    LEAVE_S = 15, /* a daemon whose mpirun is gone ends by itself, or is ended after that */
};

typedef struct joined {
    dt_wire wire;
    int signals;
    pid_t daemon;       /* 0: none */
    bool begun;         /* there was one */
    const char *master; /* ADDRESS:PORT of the first host */
    dt_frame frame;
} joined;

/* The first host may be started last. */
static dt_status find_first(const dt_meeting *m, int signals, double until, int *fd)
{
    for (;;) {
        DT_TRY(dt_meeting_stopped(signals));
        const dt_status st = dt_meeting_socket(m->master, false, fd);
        if (st != DT_COMM || dt_seconds() > until)
            return st;
        dt_fail_clear();
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
    }
}

/* And may hear others out for seconds before it hears this one. */
static dt_status meet_first(joined *j, const dt_meeting *m, int *fd)
{
    const double until = dt_seconds() + DT_WINDOW_S;

    for (;;) {
        DT_TRY(find_first(m, j->signals, until, fd));
        if (dt_wire_connect(&j->wire, *fd, &m->token, &m->own))
            return DT_OK;
        if (errno != ETIMEDOUT || dt_seconds() > until)
            return dt_fail(DT_COMM,
                           "--master %s: who answers there has another token, or is no dtrain "
                           "launch that waits for host %u of %u",
                           m->master, m->own.node, m->own.nodes);
        close(*fd);
        *fd = -1;
    }
}

/* The process, or -1, with what is wrong said. */
static pid_t fork_daemon(char **word)
{
    const pid_t own = getpid(), daemon = fork();

    if (daemon == 0) {
        dt_meeting_child(own);
        setsid(); /* a terminal's signals come to it by mpirun alone */
        execvp(word[0], word);
        dt_log_error("cannot start %s: %s; install openmpi-bin", word[0], strerror(errno));
        _exit(127);
    }
    if (daemon < 0)
        dt_log_error("cannot start %s: %s; raise ulimit -u", word[0], strerror(errno));
    return daemon;
}

/* The first host's mpirun waits for the daemon: what does not start has ended. */
static void start_daemon(joined *j)
{
    const uint8_t failed = 255;

    if (j->daemon) {
        dt_log_error("the first host asks for a second daemon: not started");
        return;
    }
    char **word = dt_daemon_words((char *)j->frame.payload, j->frame.bytes);
    if (!word)
        dt_log_error("the first host asks for what is not Open MPI's daemon: not started");
    const pid_t daemon = word ? fork_daemon(word) : -1;
    if (daemon > 0)
        j->daemon = daemon;
    else
        (void)dt_wire_send(&j->wire, DT_FRAME_DONE, &failed, 1);
    free(word);
}

/* The daemon's exit code, or 128 + its signal, to the first host. */
static void reap(joined *j)
{
    int status = 0;

    if (!j->daemon || waitpid(j->daemon, &status, WNOHANG) != j->daemon)
        return;
    const uint8_t code =
        (uint8_t)(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    j->daemon = 0;
    (void)dt_wire_send(&j->wire, DT_FRAME_DONE, &code, 1);
}

static void pass_on(joined *j)
{
    bool of_terminal;
    int number;

    while (dt_meeting_signal(j->signals, &number, &of_terminal)) {
        const uint8_t byte = (uint8_t)number;
        if (number == SIGCHLD)
            reap(j);
        else
            (void)dt_wire_send(&j->wire, DT_FRAME_SIGNAL, &byte, 1);
    }
}

/* False: it is over here, with *code, or *st. */
static bool obey(joined *j, dt_status *st, int *code)
{
    enum { WHY = 200 }; /* bytes of a reason that are shown */

    if (!dt_wire_receive(&j->wire, &j->frame)) {
        *st = dt_fail(DT_COMM, "the first host, %s, is gone: the run is over here, too", j->master);
        return false;
    }
    if (j->frame.type == DT_FRAME_REFUSED) {
        *st = dt_fail(DT_COMM, "--master %s: the first host refuses this one: %.*s", j->master,
                      (int)DT_MIN(j->frame.bytes, WHY), (const char *)j->frame.payload);
        return false;
    }
    if (j->frame.type == DT_FRAME_START)
        start_daemon(j);
    j->begun = j->begun || j->frame.type == DT_FRAME_START;
    if (j->frame.type != DT_FRAME_END || j->frame.bytes != 1)
        return true;
    *code = j->frame.payload[0];
    shutdown(j->wire.fd, SHUT_WR); /* heard */
    if (!j->begun && *code == dt_status_exit_code(DT_PREEMPTED))
        *st = dt_fail(DT_PREEMPTED, "stopped before all hosts had come: start it again");
    return false;
}

static void leave(joined *j)
{
    const double began = dt_seconds();

    while (j->daemon && dt_seconds() - began < LEAVE_S) {
        struct pollfd p = {.fd = j->signals, .events = POLLIN};
        if (poll(&p, 1, 100) > 0)
            pass_on(j);
    }
    if (j->daemon)
        kill(j->daemon, SIGKILL); /* its ranks follow it */
}

static dt_status serve(joined *j, int *code)
{
    dt_status st = DT_OK;

    for (;;) {
        struct pollfd p[2] = {{.fd = j->wire.fd, .events = POLLIN},
                              {.fd = j->signals, .events = POLLIN}};
        const int news = poll(p, 2, DT_PATIENCE_MS);
        if (news == 0 && j->daemon)
            dt_patience_bound(j->daemon);
        if (news <= 0)
            continue;
        if (p[1].revents)
            pass_on(j);
        if (p[0].revents && !obey(j, &st, code))
            return st;
    }
}

dt_status dt_join(const dt_meeting *m, int *code)
{
    joined *j = NULL;
    int fd = -1;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&j, 1, sizeof *j, "a host's connection"));
    j->signals = -1;
    j->master = m->master;
    DT_GO(st, dt_meeting_signals(&j->signals), out);
    DT_GO(st, meet_first(j, m, &fd), out);
    st = serve(j, code);
    leave(j);
out:
    if (fd >= 0)
        close(fd);
    free(j);
    return st;
}

/* meet.c - sockets and signals of both kinds of hosts. */
#include "meet.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static dt_status resolve(const char *master, struct addrinfo **found)
{
    char host[DT_HOST_NAME];
    const char *colon = strrchr(master, ':'), *end = NULL;
    const size_t length = colon ? (size_t)(colon - master) : 0;
    const struct addrinfo want = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    int64_t port = 0;

    if (length == 0 || length >= sizeof host || !dt_whole_parse(colon + 1, &end, &port) || *end ||
        port < 1 || port > 65535)
        return dt_fail(DT_USAGE, "--master: '%.80s' is not HOST:PORT", master);
    snprintf(host, sizeof host, "%.*s", (int)length, master);
    const int error = getaddrinfo(host, colon + 1, &want, found);
    if (error != 0)
        return dt_fail(DT_COMM, "--master: no address of '%s': %s", host, gai_strerror(error));
    return DT_OK;
}

dt_status dt_meeting_socket(const char *master, bool binds, int *fd)
{
    const int one = 1, kind = SOCK_STREAM | SOCK_CLOEXEC | (binds ? SOCK_NONBLOCK : 0);
    struct addrinfo *found = NULL;
    dt_status st = DT_OK;
    bool done;

    DT_TRY(resolve(master, &found));
    *fd = socket(AF_INET, kind, 0);
    if (binds)
        done = setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
               bind(*fd, found->ai_addr, found->ai_addrlen) == 0 && listen(*fd, SOMAXCONN) == 0;
    else {
        dt_wire_limit(*fd, DT_WIRE_PATIENCE_S);
        done = connect(*fd, found->ai_addr, found->ai_addrlen) == 0;
    }
    if (!done)
        st = dt_fail(DT_COMM, "--master %s: cannot %s: %s", master,
                     binds ? "wait there for the other hosts; is it an address of this host?"
                           : "connect",
                     errno == EINPROGRESS ? "no answer" : strerror(errno));
    freeaddrinfo(found);
    if (!done && *fd >= 0)
        close(*fd);
    return st;
}

/* ---- Signals --------------------------------------------------------------------------------- */

/* By handlers, not blocked: libraries have threads of their own, which do not block them. */
static const int run_signals[] = {SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGCHLD};
static int signal_pipe[2];

static void note_signal(int number)
{
    const uint8_t byte = (uint8_t)number;
    const int error = errno;

    (void)!write(signal_pipe[1], &byte, 1);
    errno = error;
}

/* SIGPIPE: neither a host that is gone nor an output without a reader ends this process. */
dt_status dt_meeting_signals(int *fd)
{
    struct sigaction before, action = {.sa_flags = SA_RESTART};
    bool failed =
        pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR;

    action.sa_handler = note_signal;
    for (size_t i = 0; i < DT_COUNT_OF(run_signals); i++)
        failed = failed || sigaction(run_signals[i], &action, &before) != 0 ||
                 (run_signals[i] == SIGHUP && before.sa_handler == SIG_IGN &&
                  signal(SIGHUP, SIG_IGN) == SIG_ERR); /* nohup is meant */
    *fd = signal_pipe[0];
    return failed ? dt_fail(DT_BUG, "signals: %s", strerror(errno)) : DT_OK;
}

int dt_meeting_signal(int fd)
{
    uint8_t byte;

    return read(fd, &byte, 1) == 1 ? byte : 0;
}

dt_status dt_meeting_stopped(int fd)
{
    for (int number; (number = dt_meeting_signal(fd)) != 0;)
        if (number != SIGCHLD)
            return dt_fail(DT_PREEMPTED,
                           "stopped by SIG%s before all hosts had come: start it again",
                           sigabbrev_np(number));
    return DT_OK;
}

/* meet.c - sockets and signals of both sides, and the agent. */
#include "meet.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const int run_signals[] = {SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGCHLD};

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
    memcpy(host, master, length);
    host[length] = '\0';
    const int error = getaddrinfo(host, colon + 1, &want, found);
    if (error != 0)
        return dt_fail(DT_COMM, "--master: no address of '%s': %s", host, gai_strerror(error));
    return DT_OK;
}

dt_status dt_meeting_socket(const char *master, bool binds, int *fd)
{
    struct addrinfo *found = NULL;
    const int one = 1;
    dt_status st = DT_OK;

    DT_TRY(resolve(master, &found));
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0 && binds)
        (void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (*fd < 0 ||
        (binds ? bind(*fd, found->ai_addr, found->ai_addrlen) != 0 || listen(*fd, 64) != 0
               : connect(*fd, found->ai_addr, found->ai_addrlen) != 0)) {
        st = dt_fail(DT_COMM, "--master %s: cannot %s: %s", master,
                     binds ? "wait there for the other hosts; is it an address of this host?"
                           : "connect",
                     strerror(errno));
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
    }
    freeaddrinfo(found);
    return st;
}

/* By handlers, not blocked: libraries have threads of their own, which do not block them. */
static int signal_pipe[2];
enum { OF_TERMINAL = 0x80 };

static void note_signal(int number, siginfo_t *info, void *context)
{
    const uint8_t byte = (uint8_t)(number | (info->si_code == SI_KERNEL ? OF_TERMINAL : 0));
    const int error = errno;

    (void)context;
    (void)!write(signal_pipe[1], &byte, 1);
    errno = error;
}

dt_status dt_meeting_signals(int *fd)
{
    struct sigaction before, action = {.sa_flags = SA_RESTART | SA_SIGINFO};
    bool failed = pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0;

    action.sa_sigaction = note_signal;
    for (size_t i = 0; i < DT_COUNT_OF(run_signals); i++)
        failed = failed || sigaction(run_signals[i], &action, &before) != 0 ||
                 (run_signals[i] == SIGHUP && before.sa_handler == SIG_IGN &&
                  signal(SIGHUP, SIG_IGN) == SIG_ERR); /* nohup is meant */
    *fd = signal_pipe[0];
    return failed ? dt_fail(DT_BUG, "signals: %s", strerror(errno)) : DT_OK;
}

bool dt_meeting_signal(int fd, int *number, bool *of_terminal)
{
    uint8_t byte;

    if (read(fd, &byte, 1) != 1)
        return false;
    *number = byte & ~OF_TERMINAL;
    *of_terminal = (byte & OF_TERMINAL) != 0;
    return true;
}

dt_status dt_meeting_stopped(int fd)
{
    bool of_terminal;
    int number;

    while (dt_meeting_signal(fd, &number, &of_terminal))
        if (number != SIGCHLD)
            return dt_fail(DT_PREEMPTED,
                           "stopped by SIG%s before all hosts had come: start it again",
                           sigabbrev_np(number));
    return DT_OK;
}

void dt_meeting_child(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) { /* it was gone before */
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM);
    }
}

/* ---- The agent ------------------------------------------------------------------------------- */

/* The words go over as they came, each with its zero byte; back comes the daemon's exit code. */
int dt_agent(int argc, char **argv)
{
    enum { FAILED = 255 }; /* as ssh's */
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *path = getenv(DT_AGENT_VARIABLE);
    uint8_t code = FAILED;

    if (!path || strlen(path) >= sizeof to.sun_path)
        return FAILED;
    memcpy(to.sun_path, path, strlen(path) + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) != 0)
        return FAILED;
    for (int i = 0; i < argc; i++) {
        const size_t bytes = strlen(argv[i]) + 1;
        if (send(fd, argv[i], bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
            return FAILED;
    }
    shutdown(fd, SHUT_WR);
    return recv(fd, &code, 1, MSG_WAITALL) == 1 ? code : FAILED;
}

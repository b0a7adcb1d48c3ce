/* child.c - mpirun, or its daemon on another host: its start, its words, its patience. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meet.h"

/* ---- Starting -------------------------------------------------------------------------------- */

static void become(char **word, int errors, pid_t parent)
{
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) { /* it was gone before */
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM);
    }
    setsid();
    if (errors >= 0)
        dup2(errors, STDERR_FILENO);
    execvp(word[0], word);
}

/* What the program cannot be started for comes back through a pipe that execvp closes. */
dt_status dt_child_start(char **word, int errors, pid_t *child)
{
    const pid_t own = getpid();
    int pipe[2], error = 0;

    if (pipe2(pipe, O_CLOEXEC) != 0)
        return dt_fail(DT_NOMEM, "no pipe: %s", strerror(errno));
    *child = fork();
    if (*child == 0) {
        become(word, errors, own);
        (void)!write(pipe[1], &errno, sizeof errno);
        _exit(127);
    }
    if (*child < 0)
        error = errno;
    close(pipe[1]);
    const bool failed = *child > 0 && read(pipe[0], &error, sizeof error) > 0;
    close(pipe[0]);
    if (failed) {
        (void)waitpid(*child, NULL, 0);
        return dt_fail(DT_NOINPUT, "cannot start %s: %s; install openmpi-bin, or put it into PATH",
                       word[0], strerror(error));
    }
    if (*child < 0)
        return dt_fail(DT_NOMEM, "cannot start %s: %s; raise ulimit -u", word[0], strerror(error));
    return DT_OK;
}

bool dt_child_ended(pid_t child, int *code)
{
    int status = 0;

    if (waitpid(child, &status, WNOHANG) != child)
        return false;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

/* ---- Patience -------------------------------------------------------------------------------- */

/* Keep-alive, which mpirun sets by itself, finds out only where nothing is under way. Bytes that
 * are not acknowledged are sent again for a quarter of an hour (tcp(7), tcp_retries2), unless
 * TCP_USER_TIMEOUT bounds it, for which mpirun has no option. A process may set it for its
 * descendants (pidfd_getfd(2), Linux 5.6), unless the system forbids that: then they wait. */
static void bound(int process, int number)
{
    const unsigned patience_ms = 1000 * DT_PATIENCE_S;
    const int fd = pidfd_getfd(process, number, 0);

    if (fd < 0)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
    close(fd);
}

void dt_child_bound(pid_t child)
{
    char path[64], to[16];
    const char *end = NULL;
    int64_t number = 0;

    snprintf(path, sizeof path, "/proc/%ld/fd", (long)child);
    DIR *dir = opendir(path);
    const int process = dir ? pidfd_open(child, 0) : -1;
    for (struct dirent *e = process < 0 ? NULL : readdir(dir); e; e = readdir(dir))
        if (readlinkat(dirfd(dir), e->d_name, to, sizeof to) > 0 &&
            strncmp(to, "socket:", 7) == 0 && dt_whole_parse(e->d_name, &end, &number))
            bound(process, (int)number);
    if (process >= 0)
        close(process);
    if (dir)
        closedir(dir);
}

/* ---- Its standard error ---------------------------------------------------------------------- */

/* mpirun of Open MPI 5.0.7 that has lost a host's daemon says so, ends the ranks, and then itself
 * with exit code 0, as if the run were complete. The text is of prte's and orte's
 * help-errmgr-base.txt, node-died. Its first letter does not come again: where the text continues
 * otherwise, the search begins anew. */
static const char lost[] = "lost communication with a remote daemon";

static void look_for_loss(dt_relay *r, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && !r->lost_host; i++) {
        r->matched = text[i] == lost[r->matched] ? r->matched + 1 : text[i] == lost[0];
        r->lost_host = lost[r->matched] == '\0';
    }
}

/* Text for an output without a reader is dropped. */
bool dt_relay_pass(dt_relay *r)
{
    char text[4096];
    struct pollfd from = {.fd = r->from, .events = POLLIN};

    if (r->from < 0 || poll(&from, 1, 0) <= 0)
        return false;
    const ssize_t n = read(r->from, text, sizeof text);
    if (n > 0) {
        look_for_loss(r, text, (size_t)n);
        for (ssize_t at = 0, m;
             at < n && (m = write(STDERR_FILENO, text + at, (size_t)(n - at))) > 0; at += m)
            ;
    } else if (n == 0 || errno != EINTR) {
        close(r->from);
        r->from = -1;
    }
    return r->from >= 0;
}

/* child.c - mpirun, or its daemon on another host: its room, start and end, its patience; and the
 * signals that come while it runs. */
#include <glob.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "launch.h"

/* ---- Starting -------------------------------------------------------------------------------- */

/* Without it, for two files of 4 MB and small ones, ranks end and mpirun does not. Where it is: by
 * Open MPI 4's variable, 5's, everybody's. */
dt_status dt_child_room(void)
{
    static const char *const names[] = {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base",
                                        "TMPDIR", "TEMP", "TMP"};
    enum { FILES = 64 };
    const char *folder = NULL;
    char path[PATH_MAX];
    struct statvfs disk;

    for (size_t i = 0; i < DT_COUNT_OF(names) && !(folder && folder[0]); i++)
        folder = getenv(names[i]);
    snprintf(path, sizeof path, "%s/dtrain-XXXXXX", folder && folder[0] ? folder : "/tmp");
    if (dt_parents_make(path) != DT_OK) /* as mpirun does */
        dt_fail_clear();
    signal(SIGXFSZ, SIG_IGN);
    const int fd = mkostemp(path, O_CLOEXEC);
    int error = fd < 0 || unlink(path) != 0 ? errno : posix_fallocate(fd, 0, 10 << 20);
    if (error == 0 && fstatvfs(fd, &disk) == 0 && disk.f_files > 0 && disk.f_favail < FILES)
        error = ENOSPC;
    close(fd);
    return error == 0 ? DT_OK
                      : dt_fail(DT_IO,
                                "%.*s: no room for Open MPI's files, 64 of 10 MB: %s; make room "
                                "(ulimit -f, too), or let TMPDIR name another folder",
                                (int)strlen(path) - 14, path, strerror(error));
}

/* mpirun would read all of the caller's input, for ranks that read none. */
static void become(char **word, pid_t parent, int errors)
{
    signal(SIGPIPE, SIG_DFL);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    dup2(errors, STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it was gone before */
        _exit(128 + SIGTERM);
    setsid();
    execvp(word[0], word);
    dt_log_error("cannot start %s: %s; install openmpi-bin, or put it into PATH", word[0],
                 strerror(errno));
    _exit(dt_status_exit_code(DT_NOINPUT));
}

dt_status dt_child_start(char **word, int errors, pid_t *child)
{
    const pid_t own = getpid();

    *child = fork();
    if (*child == 0)
        become(word, own, errors);
    return *child > 0 ? DT_OK
                      : dt_fail(DT_NOMEM, "cannot start %s: %s; raise ulimit -u", word[0],
                                strerror(errno));
}

bool dt_child_ended(pid_t child, int *code)
{
    int status = 0;

    if (waitpid(child, &status, WNOHANG) != child)
        return false;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

/* Ranks among the children of process `parent`, and theirs, where a process stands between: each
 * gets the signal (0: none). Each thread has its own: from 32 ranks on, Open MPI starts them by
 * several. A child that has ended, but for its parent, has an empty environment. Returns how many
 * there are. */
static int each_rank(pid_t parent, const dt_mpirun *by, int number, bool between, bool *ended)
{
    static char text[1 << 18];
    char path[64], sign[64];
    int pid, live = 0;
    glob_t of = {.gl_pathc = 0};

    snprintf(sign, sizeof sign, "%s=", by->sign);
    snprintf(path, sizeof path, "/proc/%d/task/*/children", (int)parent);
    (void)glob(path, 0, NULL, &of);
    for (size_t i = 0; i < of.gl_pathc; i++) {
        FILE *f = fopen(of.gl_pathv[i], "re");
        while (f && fscanf(f, "%9d", &pid) == 1) {
            snprintf(path, sizeof path, "/proc/%d/environ", pid);
            const int fd = open(path, O_RDONLY | O_CLOEXEC);
            const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
            close(fd);
            *ended |= n == 0;
            if (n > 0 && memmem(text, (size_t)n, sign, strlen(sign)))
                live += kill(pid, number) == 0;
            else if (between)
                live += each_rank(pid, by, number, false, ended);
        }
        if (f)
            fclose(f);
    }
    globfree(&of);
    return live;
}

bool dt_child_idle(pid_t child, const dt_mpirun *by, bool *began)
{
    bool ended = *began;
    const bool live = each_rank(child, by, 0, true, &ended) > 0;

    *began |= live;
    return ended && !live;
}

void dt_child_hold(pid_t child, const dt_mpirun *by, bool on)
{
    bool ended = false;

    kill(child, on ? SIGTSTP : SIGCONT);
    (void)each_rank(child, by, on ? SIGSTOP : SIGCONT, true, &ended);
}

/* Keep-alive, which mpirun sets by itself, finds out only where nothing is under way. Bytes that
 * are not acknowledged are sent again for a quarter of an hour (tcp(7), tcp_retries2), unless
 * TCP_USER_TIMEOUT bounds it, for which mpirun has no option. A process may set it for its
 * descendants (pidfd_getfd(2), Linux 5.6); where the system forbids that, nothing happens. */
void dt_child_bound(pid_t child)
{
    enum { MOST_FILES = 8192 };
    const unsigned patience_ms = 1000 * DT_PATIENCE_S;
    enum { PIDFD_OPEN = 434, PIDFD_GETFD = 438 }; /* everywhere; glibc has them from 2.36 on */
    const int process = (int)syscall(PIDFD_OPEN, child, 0);

    for (int i = 0, fd; process >= 0 && i < MOST_FILES; i++)
        if ((fd = (int)syscall(PIDFD_GETFD, process, i, 0)) >= 0) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
            close(fd);
        }
    close(process);
}

/* ---- Signals --------------------------------------------------------------------------------- */

/* By handlers, not blocked: libraries have threads of their own, which do not block them. */
#define ROW(name) {SIG##name, #name}
static const struct {
    int number;
    const char *name;
} run_signals[] = {ROW(HUP),  ROW(USR1), ROW(USR2), ROW(XCPU),
                   ROW(TERM), ROW(INT),  ROW(TSTP), ROW(CHLD)};
static int signal_pipe[2];

const char *dt_signals_word(int number)
{
    size_t i = 0;

    while (i < DT_COUNT_OF(run_signals) - 1 && run_signals[i].number != number)
        i++;
    return run_signals[i].name;
}

static void note_signal(int number)
{
    const uint8_t byte = (uint8_t)number;
    const int error = errno;

    (void)!write(signal_pipe[1], &byte, 1);
    errno = error;
}

/* SIGPIPE: neither a host that is gone nor an output without a reader ends this process. */
dt_status dt_signals_open(int *fd)
{
    const struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};

    if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return dt_fail(DT_NOMEM, "no pipe: %s", strerror(errno));
    *fd = signal_pipe[0];
    signal(SIGPIPE, SIG_IGN);
    const bool nohup = signal(SIGHUP, SIG_IGN) == SIG_IGN;
    for (size_t i = nohup; i < DT_COUNT_OF(run_signals); i++)
        (void)sigaction(run_signals[i].number, &action, NULL);
    return DT_OK;
}

int dt_signals_next(int fd)
{
    uint8_t byte;

    while (read(fd, &byte, 1) == 1)
        if (byte != SIGCHLD)
            return byte;
    return 0;
}

dt_status dt_signals_stopped(int fd)
{
    int number;

    while ((number = dt_signals_next(fd)) == SIGTSTP)
        raise(SIGSTOP);
    return number == 0
               ? DT_OK
               : dt_fail(DT_PREEMPTED, "stopped by SIG%s before all hosts had come: start it again",
                         dt_signals_word(number));
}

/* backtrace.c - each thread writes its own calls, in a signal's handler, one after the other. */
#include "backtrace.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 64, PATIENCE_MS = 500 };

static sem_t written;

static int ask_signal(void)
{
    return SIGRTMIN + 7; /* the C library keeps the first ones, nobody here uses others */
}

static void write_calls(int number)
{
    void *call[DEPTH];
    const int depth = backtrace(call, DEPTH);

    (void)number;
    backtrace_symbols_fd(call, depth, STDERR_FILENO);
    sem_post(&written);
}

void dt_backtraces_prepare(void)
{
    void *call[1];
    struct sigaction action = {.sa_flags = SA_RESTART};

    action.sa_handler = write_calls;
    sem_init(&written, 0, 0);
    sigaction(ask_signal(), &action, NULL);
    (void)backtrace(call, 1); /* loads the unwinder */
}

bool dt_wait_ms(sem_t *s, int ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int error;
    do
        error = sem_timedwait(s, &until);
    while (error != 0 && errno == EINTR);
    return error == 0;
}

static void ask_thread(int rank, pid_t thread)
{
    dprintf(STDERR_FILENO, "dtrain: rank %d, thread %d:\n", rank, (int)thread);
    if (syscall(SYS_tgkill, getpid(), thread, ask_signal()) == 0 &&
        !dt_wait_ms(&written, PATIENCE_MS))
        dprintf(STDERR_FILENO, "(it takes no signals)\n");
}

void dt_backtraces(int rank, const char *place)
{
    const pid_t self = (pid_t)syscall(SYS_gettid);
    DIR *tasks = opendir("/proc/self/task");

    dprintf(STDERR_FILENO, "dtrain: rank %d (pid %d) is in %s\n", rank, (int)getpid(), place);
    for (struct dirent *e = tasks ? readdir(tasks) : NULL; e; e = readdir(tasks)) {
        const pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
        if (thread > 0 && thread != self)
            ask_thread(rank, thread);
    }
    if (tasks)
        closedir(tasks);
}

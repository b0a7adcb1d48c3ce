/* signals.c - once a run is set up the handler only leaves a note, and the loop looks at it. */
#include "signals.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

/* A handler has no printf: the lines are made here. */
#define ROW(signal, name)                                                                          \
    {                                                                                              \
        signal, name,                                                                              \
            "dtrain: stopped by " #signal                                                          \
            " while the run was set up: nothing has changed; start it again\n"                     \
    }
static const struct {
    int number;
    const char *name, *set_up;
} signal_table[] = {ROW(SIGUSR1, "SIGUSR1"), ROW(SIGTERM, "SIGTERM"), ROW(SIGINT, "SIGINT"),
                    ROW(SIGUSR2, "SIGUSR2"), ROW(SIGXCPU, "SIGXCPU"), ROW(SIGHUP, "SIGHUP"),
                    ROW(SIGALRM, "--stop-after")};
enum { SIGNALS = DT_COUNT_OF(signal_table), ASKED_ALONE_S = 2, SECOND_NS = 1000000000 };

static volatile sig_atomic_t stop_signal, save_asked, deferred;
static void (*leave_process)(const char *line);
static bool follows; /* not the launcher's first rank */
static _Atomic int64_t interrupted_ns; /* by the first SIGINT */

const char *dt_signals_name(int number)
{
    for (int i = 0; i < SIGNALS; i++)
        if (signal_table[i].number == number)
            return signal_table[i].name;
    return "a signal";
}

/* A signal to mpirun reaches all ranks: the first one reports it, and mpirun then ends the others.
 * One that is still there after a while was asked alone. */
static void leave(int number)
{
    if (follows)
        sleep(ASKED_ALONE_S);
    for (int i = 0; i < SIGNALS; i++)
        if (signal_table[i].number == number)
            leave_process(signal_table[i].set_up);
}

static void note_signal(int number)
{
    const int64_t now = dt_activity_clock();
    int64_t first = 0;

    if (number == SIGHUP) {
        save_asked = 1;
        return;
    }
    if (!stop_signal)
        stop_signal = number;
    /* timeout(1) sends its signal twice at once, and another thread may take the second. */
    if (number == SIGINT && !atomic_compare_exchange_strong(&interrupted_ns, &first, now) &&
        now - first >= SECOND_NS) {
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
    if (!deferred)
        leave(number);
}

/* A rank that ends while MPI_Init talks with mpirun has made that wait for ever, for a lock (one
 * time in 30; Open MPI 4.1.4 with PMIx 4.2.2): signals wait until MPI is started. */
static void block(int how)
{
    sigset_t set;

    sigemptyset(&set);
    for (int i = 0; i < SIGNALS; i++)
        sigaddset(&set, signal_table[i].number);
    sigprocmask(how, &set, NULL);
}

void dt_signals_catch(void (*leave_by)(const char *line))
{
    const struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    struct rlimit cpu;
    int64_t rank;

    (void)dt_comm_launcher(&rank);
    follows = rank > 0;
    leave_process = leave_by;
    interrupted_ns = stop_signal = save_asked = deferred = 0;
    block(SIG_BLOCK);
    /* At the soft limit of CPU time (ulimit -t) the kernel sends SIGXCPU, once a second; at the
     * hard one it kills. Where both are one, a tenth is kept for the checkpoint. */
    if (getrlimit(RLIMIT_CPU, &cpu) == 0 && cpu.rlim_max != RLIM_INFINITY && cpu.rlim_max > 1) {
        cpu.rlim_cur = DT_MIN(cpu.rlim_cur, cpu.rlim_max - DT_MIN(cpu.rlim_max / 10 + 1, 600));
        (void)setrlimit(RLIMIT_CPU, &cpu);
    }
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signal_table[i].number, &action, NULL);
}

void dt_signals_started(void)
{
    block(SIG_UNBLOCK);
}

void dt_signals_defer(void)
{
    deferred = 1;
}

void dt_signals_stop_after(double seconds)
{
    const time_t whole = (time_t)seconds;
    const struct itimerval clock = {
        .it_value = {whole, (suseconds_t)(1e6 * (seconds - (double)whole))}};

    setitimer(ITIMER_REAL, &clock, NULL);
}

int dt_signals_stop(void)
{
    return stop_signal;
}

bool dt_signals_save(void)
{
    const bool asked = save_asked != 0;

    if (asked)
        save_asked = 0;
    return asked;
}

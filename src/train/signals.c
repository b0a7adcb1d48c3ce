/* signals.c - while a run is set up, a signal ends it at once, or as soon as MPI is started. Then
 * handlers only leave a note, and the loop looks at it. */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
    int number;
    const char *name;
} signal_table[] = {
    {SIGUSR1, "SIGUSR1"},
    {SIGTERM, "SIGTERM"},
    {SIGINT, "SIGINT"},
    {SIGHUP, "SIGHUP"},
};
enum { SIGNALS = DT_COUNT_OF(signal_table) };

static volatile sig_atomic_t stop_signal, save_wished, starting, deferred;
static void (*leave_process)(const char *line);
static bool follows; /* a rank behind the launcher's first */

const char *dt_signals_name(int number)
{
    for (int i = 0; i < SIGNALS; i++)
        if (signal_table[i].number == number)
            return signal_table[i].name;
    return "a signal";
}

/* ---- While the run is set up ----------------------------------------------------------- */

/* What a handler may call is little: no printf. */
static void leave(int number)
{
    const char *const part[] = {"dtrain: stopped by ", dt_signals_name(number),
                                " while the run was set up: nothing has changed; start it again\n"};
    char line[160];
    size_t at = 0;

    for (size_t i = 0; i < DT_COUNT_OF(part); i++) {
        const size_t n = strlen(part[i]);
        memcpy(line + at, part[i], n);
        at += n;
    }
    line[at] = '\0';
    leave_process(line);
}

static void note_alarm(int number)
{
    (void)number;
    if (!deferred)
        leave(stop_signal);
}

/* A signal to mpirun reaches all ranks: the first one says it, and mpirun ends the others. But
 * one of them that is still there after a while was asked alone. A rank that ends while MPI_Init
 * talks with mpirun has made that wait for ever, for a lock (one time in 30; Open MPI 4.1.4 with
 * PMIx 4.2.2): so it first hears MPI_Init out, where that does not last. */
static void leave_set_up(int number)
{
    enum { ASKED_ALONE_S = 2, MPI_INIT_S = 10 };

    if (starting || follows)
        alarm(starting ? MPI_INIT_S : ASKED_ALONE_S);
    else
        leave(number);
}

void dt_signals_started(void)
{
    starting = 0;
    if (stop_signal && !deferred)
        leave_set_up(stop_signal);
}

/* ---- Always ---------------------------------------------------------------------------- */

static void note_signal(int number)
{
    if (number == SIGHUP) {
        save_wished = 1;
        return;
    }
    if (!stop_signal)
        stop_signal = number;
    if (number == SIGINT)
        signal(SIGINT, SIG_DFL); /* the second one is meant */
    if (!deferred)
        leave_set_up(number);
}

static dt_status catch_signal(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_flags = SA_RESTART};

    action.sa_handler = handler;
    if (sigemptyset(&action.sa_mask) != 0 || sigaction(number, &action, NULL) != 0)
        return dt_fail(DT_BUG, "cannot catch %s: %s", dt_signals_name(number), strerror(errno));
    return DT_OK;
}

dt_status dt_signals_catch(void (*leave_by)(const char *line))
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    if (!rank)
        rank = getenv("PMIX_RANK");
    follows = rank && strcmp(rank, "0") != 0;
    leave_process = leave_by;
    stop_signal = save_wished = deferred = 0;
    starting = 1;
    for (int i = 0; i < SIGNALS; i++)
        DT_TRY(catch_signal(signal_table[i].number, note_signal));
    return catch_signal(SIGALRM, note_alarm);
}

void dt_signals_defer(void)
{
    deferred = 1;
}

int dt_signals_stop(void)
{
    return stop_signal;
}

bool dt_signals_save(void)
{
    const bool wished = save_wished != 0;

    if (wished)
        save_wished = 0;
    return wished;
}

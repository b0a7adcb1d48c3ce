/* Handlers only leave a note; the loop reads it between steps. */
#include "signals.h"

#include <errno.h>
#include <signal.h>

static const struct {
    int number;
    const char *name;
} signal_table[] = {
    {SIGUSR1, "SIGUSR1"},
    {SIGTERM, "SIGTERM"},
    {SIGINT, "SIGINT"},
    {SIGHUP, "SIGHUP"},
};
enum { SIGNALS = sizeof signal_table / sizeof *signal_table };

static volatile sig_atomic_t stop_wished, save_wished, last_signal;

static void note_signal(int number)
{
    last_signal = number;
    if (number == SIGHUP) {
        save_wished = 1;
        return;
    }
    stop_wished = 1;
    if (number == SIGINT)
        signal(SIGINT, SIG_DFL); /* the second one is meant */
}

dt_status dt_signals_catch(void)
{
    stop_wished = save_wished = last_signal = 0;
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction action = {.sa_flags = SA_RESTART};
        action.sa_handler = note_signal;
        if (sigemptyset(&action.sa_mask) != 0 ||
            sigaction(signal_table[i].number, &action, NULL) != 0)
            return dt_fail(DT_BUG, "cannot catch %s: %s", signal_table[i].name,
                           strerror(errno));
    }
    return DT_OK;
}

dt_wishes dt_signals_take(void)
{
    const dt_wishes w = {.save = save_wished != 0, .stop = stop_wished != 0};
    if (w.save)
        save_wished = 0;
    return w;
}

const char *dt_signals_name(void)
{
    for (int i = 0; i < SIGNALS; i++)
        if (signal_table[i].number == last_signal)
            return signal_table[i].name;
    return "";
}

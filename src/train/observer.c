/* observer.c - the table of those who observe runs. */
#include "observer.h"

const dt_run_observer *dt_run_observers[DT_OBSERVERS];

void dt_observer_add(const dt_run_observer *o)
{
    static int count;

    if (count < DT_OBSERVERS) /* there are fewer extras */
        dt_run_observers[count++] = o;
}

void dt_observers_close(void **observed, int code)
{
    DT_OBSERVE(observed, close, code);
    memset(observed, 0, DT_OBSERVERS * sizeof *observed);
}

dt_status dt_observers_check(const dt_options *o)
{
    static const char *const option[] = {"check_every", "replay_every", "stall_abort",
                                         "trace",       "log_style",    "dry_run"};
    char said[DT_OPTION_CHARS], usual[DT_OPTION_CHARS];

    for (size_t k = 0; k < DT_COUNT_OF(option); k++) {
        const dt_option_row *row = dt_option_find(option[k]);
        dt_option_text(row, o, said, sizeof said);
        dt_option_text(row, NULL, usual, sizeof usual);
        bool done = strcmp(said, usual) == 0 || strcmp(said, "0") == 0;
        for (int i = 0; i < DT_OBSERVERS && dt_run_observers[i]; i++)
            done = done || (dt_run_observers[i]->options &&
                            dt_words_have(dt_run_observers[i]->options, option[k]));
        if (!done)
            return dt_fail(DT_CONFIG, "this build has no part for %s=%s", option[k], said);
    }
    return DT_OK;
}

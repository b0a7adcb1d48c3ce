/* cmd_status.c - where each rank of a run is, once or until the run is over. */
#include "cli.h"
#include "watch/watch.h"
#include <time.h>
#include <unistd.h>

static dt_status show(const char *run, bool going)
{
    char name[DT_CHECKPOINT_NAME];
    double age_s = 0;

    DT_TRY(dt_watch_status(run, going, stdout));
    DT_TRY(dt_checkpoint_last(run, name, &age_s));
    if (name[0])
        printf("last checkpoint: %s, %.0f s ago\n", name, age_s);
    else
        printf("no checkpoint\n");
    return DT_OK;
}

/* On a terminal each look takes the place of the one before. */
static dt_status show_again(const char *run)
{
    const struct timespec pause = {.tv_sec = 2};
    const bool screen = isatty(STDOUT_FILENO);

    for (;; nanosleep(&pause, NULL)) {
        const bool going = dt_rundir_held(run);
        if (screen)
            printf("\033[H\033[2J");
        const dt_status st = show(run, going);
        if (st != DT_OK && !going)
            return st;
        if (st != DT_OK) { /* it has not begun its first step */
            printf("%s\n", dt_fail_text());
            dt_fail_clear();
        }
        if (going && !screen)
            printf("\n");
        if (fflush(stdout) != 0 || !going)
            return DT_OK;
    }
}

/* Of a run that is going on, too: nothing is changed. */
static dt_status status_run(dt_comm *c, const dt_settings *s)
{
    const char *run = s->operand[0];
    dt_status st = DT_OK;

    if (dt_comm_rank(c) == 0)
        st = s->options.watch ? show_again(run) : show(run, dt_rundir_held(run));
    return dt_comm_agree(c, st);
}

const dt_command dt_command_status = {
    .name = "status", .run = status_run, .operands = "RUN", .least = 1, .most = 1};

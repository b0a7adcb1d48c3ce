/* cmd_tensorboard.c - runs' records as files of TensorBoard, once or until the runs are over. */
#include "cli.h"
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* D/NAME, by the folder's own name. */
static dt_status events_of(dt_events *e, const char *run, const char *logdir)
{
    char own[PATH_MAX];

    if (!realpath(run, own))
        return dt_fail(DT_NOINPUT, "%s: there is no such run folder", run);
    DT_TRY(dt_path_join(e->metrics, run, "metrics.jsonl"));
    return dt_path_join(e->folder, logdir, basename(own));
}

static dt_status open_all(dt_events *all, const dt_settings *s)
{
    for (int i = 0; i < s->operands; i++) {
        DT_TRY(events_of(&all[i], s->operand[i], s->options.logdir));
        for (int k = 0; k < i; k++)
            if (strcmp(all[k].folder, all[i].folder) == 0)
                return dt_fail(DT_USAGE,
                               "%s and %s would both be written to %s: rename one, or "
                               "give each a --logdir of its own",
                               s->operand[k], s->operand[i], all[i].folder);
    }
    return DT_OK;
}

/* What a run has recorded before it was seen to be over is converted. While runs are on, what fails
 * is tried again. */
static dt_status convert_all(dt_events *all, const dt_settings *s)
{
    const struct timespec pause = {.tv_sec = 2};

    for (bool held = true; held; nanosleep(&pause, NULL)) {
        held = false;
        for (int i = 0; i < s->operands && s->options.watch; i++)
            held = held || dt_rundir_held(s->operand[i]);
        for (int i = 0; i < s->operands; i++) {
            const dt_status st = dt_events_update(&all[i]);
            if (st != DT_OK && !held)
                return st;
            dt_fail_clear();
        }
        if (!held)
            break;
    }
    return DT_OK;
}

static dt_status tensorboard(const dt_settings *s)
{
    dt_events *all = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&all, (size_t)s->operands, sizeof *all, "the list of runs"));
    DT_GO(st, open_all(all, s), out);
    printf("look at them with: tensorboard --logdir %s\n", s->options.logdir);
    fflush(stdout);
    st = convert_all(all, s);

out:
    free(all);
    return st;
}

static dt_status tensorboard_run(dt_comm *c, const dt_settings *s)
{
    return dt_comm_agree(c, dt_comm_rank(c) == 0 ? tensorboard(s) : DT_OK);
}

const dt_command dt_command_tensorboard = {.name = "tensorboard",
                                           .run = tensorboard_run,
                                           .operands = "RUN... [--logdir DIR] [--watch]",
                                           .least = 1,
                                           .most = INT_MAX};

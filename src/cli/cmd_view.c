/* cmd_view.c - the commands that look at runs. Files are for rank 0 alone. */
#include "cli.h"
#include "view/view.h"

/* Into one room for all runs, one after the other. */
static dt_status read_options(void *context, const char *path, const dt_options **o)
{
    dt_settings *s = context;

    dt_settings_release(s);
    *s = (dt_settings){.command = &dt_command_train};
    DT_TRY(dt_settings_try(s, path));
    *o = &s->options;
    return DT_OK;
}

static dt_status plot_run(dt_comm *c, const dt_settings *s)
{
    const bool leads = dt_comm_rank(c) == 0;
    return dt_comm_agree(c, leads ? dt_view_plot(&s->options, s->operand, (size_t)s->operands)
                                  : DT_OK);
}

static dt_status runs_run(dt_comm *c, const dt_settings *s)
{
    dt_settings saved = {.command = &dt_command_train};
    const dt_status st =
        dt_comm_rank(c) == 0
            ? dt_view_runs(&s->options, s->operand, (size_t)s->operands, read_options, &saved)
            : DT_OK;

    dt_settings_release(&saved);
    return dt_comm_agree(c, st);
}

static dt_status report_run(dt_comm *c, const dt_settings *s)
{
    dt_settings saved = {.command = &dt_command_train};
    const dt_status st = dt_comm_rank(c) == 0
                             ? dt_view_report(&s->options, s->operand[0], read_options, &saved)
                             : DT_OK;

    dt_settings_release(&saved);
    return dt_comm_agree(c, st);
}

const dt_command dt_command_plot = {
    .name = "plot", .run = plot_run, .operands = "RUN...", .least = 1, .most = INT_MAX};
const dt_command dt_command_runs = {
    .name = "runs", .run = runs_run, .operands = "[DIR] | RUN...", .most = INT_MAX};
const dt_command dt_command_report = {
    .name = "report", .run = report_run, .operands = "RUN --out FILE.html", .least = 1, .most = 1};

/* extra.c - the commands of extra/view. */
#include "view.h"

/* clang-format off */
static const dt_command commands[] = {
    {.name = "status", .help = "RUN: where each rank of a run is, or was when it ended",
     .lead = dt_status_show, .operands = "RUN", .least = 1, .most = 1},
    {.name = "runs", .help = "[DIR]: a row for each run; A B...: what differs between runs",
     .lead = dt_view_runs, .operands = "[DIR] | RUN...", .most = INT_MAX},
    {.name = "plot", .help = "RUN...: curves of runs; of what bench --json wrote",
     .lead = dt_view_plot, .operands = "RUN...", .options = " out exchange engine", .least = 1,
     .most = INT_MAX},
    {.name = "report", .help = "RUN --out FILE.html: a run as one page", .lead = dt_view_report,
     .operands = "RUN --out FILE.html", .options = " out", .least = 1, .most = 1},
    {.name = "tensorboard", .help = "RUN...: records of runs as files that TensorBoard reads",
     .lead = dt_tensorboard, .operands = "RUN... [--out DIR] [--watch]", .options = " out",
     .least = 1, .most = INT_MAX},
};
/* clang-format on */

void dt_extra_view(void)
{
    dt_commands_add(commands, DT_COUNT_OF(commands));
}

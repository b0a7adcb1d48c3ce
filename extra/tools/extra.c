/* extra.c - the commands of extra/tools, and --dry-run. */
#include "tools.h"

/* clang-format off */
static const dt_command commands[] = {
    {.name = "eval", .help = "MODEL: loss and accuracy of a saved model on the test images",
     .run = dt_eval, .operands = "MODEL [OPTION...]",
     .options = " data holdout precision engine threads", .least = 1, .most = 1, .computes = true,
     .models = true},
    {.name = "verify", .help = "PATH: is a checkpoint, a run folder or a model file whole?",
     .lead = dt_verify, .operands = "PATH", .least = 1, .most = 1},
    {.name = "env", .help = "this machine: CPU, AMX, packages, cores, ranks, library versions",
     .call = dt_env},
    {.name = "predict", .help = "MODEL PICTURE...: the most likely classes of pictures",
     .run = dt_predict, .operands = "MODEL PICTURE...", .options = " precision engine threads",
     .least = 2, .most = INT_MAX, .computes = true, .models = true},
    {.name = "summary", .help = "layers, parameters and work of the network, or of a MODEL's",
     .call = dt_summary, .operands = "[MODEL] [OPTION...]", .options = DT_NETWORK_OPTIONS,
     .most = 1, .looks = true, .models = true},
    {.name = "plan", .help = "compiled steps: kernels, bytes, offsets, shares of threads",
     .call = dt_plan_print, .operands = "[MODEL] [OPTION...]", .options = DT_NETWORK_OPTIONS,
     .most = 1, .computes = true, .looks = true, .models = true},
    {.name = "lr-find", .help = "which learning rate? losses while it grows from step to step",
     .call = dt_lr_find, .options = DT_NETWORK_OPTIONS " data lr_to max_steps", .computes = true},
};
/* clang-format on */

void dt_extra_tools(void)
{
    dt_commands_add(commands, DT_COUNT_OF(commands));
    dt_dry_runs();
}

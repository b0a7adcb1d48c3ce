/* cmd_calls.c - the commands that are one call, or one list. */
#include "cli.h"
#include "commit.h"
#include "launch/launch.h"
#include "view/view.h"

static dt_status train_run(dt_comm *c, const dt_settings *s)
{
    return dt_train(c, &s->options);
}

static dt_status eval_run(dt_comm *c, const dt_settings *s)
{
    dt_options o = s->options;

    o.model = dt_settings_model(s);
    return dt_eval(c, &o);
}

static dt_status predict_run(dt_comm *c, const dt_settings *s)
{
    return dt_predict(c, &s->options, s->operand, (size_t)s->operands);
}

static dt_status bench_run(dt_comm *c, const dt_settings *s)
{
    return dt_bench(c, &s->options);
}

static dt_status lr_find_run(dt_comm *c, const dt_settings *s)
{
    return dt_lr_find(c, &s->options);
}

/* For --config to read. */
static dt_status config_lead(const dt_options *o, const char *const *path, size_t count)
{
    (void)path, (void)count;
    dt_options_yaml(stdout, o);
    return DT_OK;
}

static dt_status help_run(dt_comm *c, const dt_settings *s)
{
    char word[] = "--help", *words[] = {word, NULL};
    int code = 0;
    const bool named = !s->about && s->operands > 0;                 /* dtrain help COMMAND */
    const bool table = named && strcmp(s->operand[0], "table") == 0; /* for packaging/ */
    const dt_command *about = named ? dt_command_find(s->operand[0]) : s->about;

    if (named && !about && !table)
        return dt_comm_agree(c, dt_fail(DT_USAGE, "help: no command '%s'", s->operand[0]));
    if (dt_comm_rank(c) != 0)
        return DT_OK;
    if (table)
        return dt_help_table(stdout), DT_OK;
    if (about && about->alone)
        return about->alone(1, words, &code);
    dt_help_print(stdout, about ? about : &dt_command_train, s->help_all);
    return DT_OK;
}

static dt_status version_run(dt_comm *c, const dt_settings *s)
{
    (void)s;
    if (dt_comm_rank(c) != 0)
        return DT_OK;
    printf("dtrain %s (git %s)\n", DTRAIN_VERSION, DTRAIN_COMMIT);
    printf("  %-10s %s\n", "build", DTRAIN_BUILD);
    printf("  %-10s %s\n", "compiler", DTRAIN_COMPILER);
    printf("  %-10s %s\n", "MPI", dt_comm_version());
    return DT_OK;
}

const dt_command dt_command_config = {.name = "config", .lead = config_lead};
const dt_command dt_command_help = {
    .name = "help", .run = help_run, .operands = "[COMMAND]", .most = 1, .bare = true};
const dt_command dt_command_version = {.name = "version", .run = version_run, .bare = true};
const dt_command dt_command_train = {.name = "train", .run = train_run, .computes = true};
const dt_command dt_command_eval = {.name = "eval",
                                    .run = eval_run,
                                    .operands = "MODEL [OPTION...]",
                                    .options = " data holdout precision threads",
                                    .most = 1,
                                    .computes = true,
                                    .models = true};
const dt_command dt_command_predict = {.name = "predict",
                                       .run = predict_run,
                                       .operands = "MODEL PICTURE...",
                                       .options = " precision threads",
                                       .least = 2,
                                       .most = INT_MAX,
                                       .computes = true,
                                       .models = true};
const dt_command dt_command_bench = {
    .name = "bench", .run = bench_run, .options = DT_NETWORK_OPTIONS, .computes = true};
const dt_command dt_command_lr_find = {.name = "lr-find",
                                       .run = lr_find_run,
                                       .options = DT_NETWORK_OPTIONS " data lr_to max_steps",
                                       .computes = true};
const dt_command dt_command_verify = {
    .name = "verify", .lead = dt_verify, .operands = "PATH", .least = 1, .most = 1};
const dt_command dt_command_plot = {.name = "plot",
                                    .lead = dt_view_plot,
                                    .operands = "RUN...",
                                    .options = " out exchange",
                                    .least = 1,
                                    .most = INT_MAX};
const dt_command dt_command_runs = {
    .name = "runs", .lead = dt_view_runs, .operands = "[DIR] | RUN...", .most = INT_MAX};
const dt_command dt_command_report = {.name = "report",
                                      .lead = dt_view_report,
                                      .operands = "RUN --out FILE.html",
                                      .options = " out",
                                      .least = 1,
                                      .most = 1};
const dt_command dt_command_average = {.name = "average",
                                       .lead = dt_average,
                                       .operands = "A B... --out FILE",
                                       .options = " out names",
                                       .least = 1,
                                       .most = INT_MAX};
const dt_command dt_command_convert = {.name = "convert",
                                       .lead = dt_average, /* the mean of one is that one */
                                       .operands = "A --out FILE [--names SCHEME] [--to FORMAT]",
                                       .options = " out names",
                                       .least = 1,
                                       .most = 1};
const dt_command dt_command_launch = {.name = "launch", .alone = dt_launch};
const dt_command dt_command_ranktable = {.name = "ranktable", .alone = dt_ranktable};

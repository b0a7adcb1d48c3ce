/* cmd_calls.c - the commands that are one call, or one list. */
#include "cli.h"
#include "commit.h"
#include "launch/launch.h"

static dt_status train_run(dt_comm *c, const dt_settings *s)
{
    return dt_train(c, &s->options);
}

static dt_status eval_run(dt_comm *c, const dt_settings *s)
{
    return dt_eval(c, &s->options);
}

static dt_status bench_run(dt_comm *c, const dt_settings *s)
{
    return dt_bench(c, &s->options);
}

static dt_status read_options(void *context, const char *path, const dt_options **o)
{
    dt_settings *s = context;

    DT_TRY(dt_settings_try(s, path));
    *o = &s->options;
    return DT_OK;
}

/* Files are for rank 0 alone. */
static dt_status verify_run(dt_comm *c, const dt_settings *s)
{
    dt_settings saved = {.command = &dt_command_train};
    const bool leads = dt_comm_rank(c) == 0;
    const dt_status st =
        dt_comm_agree(c, leads ? dt_verify(s->operand[0], read_options, &saved) : DT_OK);

    dt_settings_release(&saved);
    return st;
}

/* Also converts: the mean of one is that one. */
static dt_status average_run(dt_comm *c, const dt_settings *s)
{
    const bool leads = dt_comm_rank(c) == 0;
    return dt_comm_agree(c,
                         leads ? dt_average(&s->options, s->operand, (size_t)s->operands) : DT_OK);
}

/* For --config to read. */
static dt_status config_run(dt_comm *c, const dt_settings *s)
{
    if (dt_comm_rank(c) == 0)
        dt_options_yaml(stdout, &s->options);
    return DT_OK;
}

static dt_status help_run(dt_comm *c, const dt_settings *s)
{
    char word[] = "--help", *words[] = {word, NULL};
    int code = 0;
    const bool named = !s->about && s->operands > 0; /* dtrain help COMMAND */
    const dt_command *about = named ? dt_command_find(s->operand[0]) : s->about;

    if (named && !about)
        return dt_comm_agree(c, dt_fail(DT_USAGE, "help: no command '%s'", s->operand[0]));
    if (dt_comm_rank(c) != 0)
        return DT_OK;
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

const dt_command dt_command_config = {.name = "config", .run = config_run};
const dt_command dt_command_help = {
    .name = "help", .run = help_run, .operands = "[COMMAND]", .most = 1, .bare = true};
const dt_command dt_command_version = {.name = "version", .run = version_run, .bare = true};
const dt_command dt_command_train = {.name = "train", .run = train_run, .computes = true};
const dt_command dt_command_eval = {
    .name = "eval", .run = eval_run, .options = " data precision threads", .computes = true};
const dt_command dt_command_bench = {
    .name = "bench", .run = bench_run, .options = DT_NETWORK_OPTIONS, .computes = true};
const dt_command dt_command_verify = {
    .name = "verify", .run = verify_run, .operands = "PATH", .least = 1, .most = 1};
const dt_command dt_command_average = {.name = "average",
                                       .run = average_run,
                                       .operands = "A B... --out FILE",
                                       .options = " out names",
                                       .least = 1,
                                       .most = INT_MAX};
const dt_command dt_command_convert = {.name = "convert",
                                       .run = average_run,
                                       .operands = "A --out FILE [--names SCHEME] [--to FORMAT]",
                                       .options = " out names",
                                       .least = 1,
                                       .most = 1};
const dt_command dt_command_launch = {.name = "launch", .alone = dt_launch};
const dt_command dt_command_ranktable = {.name = "ranktable", .alone = dt_ranktable};

/* commands.c - the commands of the core, those that extras add, and the commands of a few lines. */
#include "cli.h"
#include "commit.h"

/* For --config to read. */
static dt_status print_config(dt_comm *c, const dt_options *o)
{
    if (c->rank == 0)
        dt_options_yaml(stdout, o);
    return DT_OK;
}

static dt_status run_help(dt_comm *c, const dt_settings *s)
{
    char word[] = "--help", *words[] = {word, NULL};
    int code = 0;
    const bool named = !s->about && s->operands > 0;                 /* dtrain help COMMAND */
    const bool table = named && strcmp(s->operand[0], "table") == 0; /* for packaging/ */
    const dt_command *about = named ? dt_command_find(s->operand[0]) : s->about;

    if (named && !about && !table)
        return dt_comm_agree(c, dt_fail(DT_USAGE, "help: no command '%s'", s->operand[0]));
    if (c->rank != 0)
        return DT_OK;
    if (table)
        return dt_help_table(stdout), DT_OK;
    if (about && about->alone)
        return about->alone(1, words, &code);
    dt_help_print(stdout, about ? about : &dt_core_command[DT_RUN_TRAIN], s->help_all);
    return DT_OK;
}

static dt_status print_version(dt_comm *c, const dt_options *o)
{
    (void)o;
    if (c->rank != 0)
        return DT_OK;
    printf("dtrain %s (git %s)\n", DTRAIN_VERSION, DTRAIN_COMMIT);
    printf("  %-10s %s\n", "build", DTRAIN_BUILD);
    printf("  %-10s %s\n", "compiler", DTRAIN_COMPILER);
    printf("  %-10s %s\n", "MPI", dt_comm_version());
    return DT_OK;
}

/* clang-format off */
const dt_command dt_core_command[DT_CORE_COMMANDS] = {
    [DT_RUN_TRAIN] = {.name = "train", .help = "train a network (the default)", .call = dt_train,
     .computes = true},
    [DT_RUN_EVAL] = {.name = "eval",
     .help = "MODEL: loss and accuracy of a saved model on the test images", .call = dt_eval,
     .operands = "MODEL [OPTION...]", .options = " data holdout precision engine threads",
     .least = 1, .most = 1, .computes = true, .models = true},
    [DT_RUN_CONFIG] = {.name = "config",
     .help = "the effective options as a configuration file (--print-config)",
     .call = print_config},
    [DT_RUN_VERSION] = {.name = "version", .help = "version, build and libraries",
     .call = print_version, .bare = true},
    [DT_RUN_HELP] = {.name = "help", .help = "this text", .run = run_help, .operands = "[COMMAND]",
     .most = 1, .bare = true},
};
/* clang-format on */

enum { MOST_LISTS = 16 };
static struct {
    const dt_command *first;
    size_t count;
} lists[MOST_LISTS] = {{dt_core_command, DT_CORE_COMMANDS}};
static size_t lists_used = 1;

void dt_commands_add(const dt_command *list, size_t count)
{
    if (lists_used < MOST_LISTS) /* there are fewer extras */
        lists[lists_used].first = list, lists[lists_used++].count = count;
}

const dt_command *dt_command_at(size_t i)
{
    for (size_t k = 0; k < lists_used; i -= lists[k++].count)
        if (i < lists[k].count)
            return &lists[k].first[i];
    return NULL;
}

const dt_command *dt_command_find(const char *name)
{
    char spelled[DT_OPTION_NAME];
    const dt_command *c;

    dt_argument_name(name, spelled); /* lr_find, too */
    for (size_t i = 0; (c = dt_command_at(i)); i++)
        if (strcmp(c->name, spelled) == 0)
            return c;
    return NULL;
}

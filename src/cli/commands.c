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
    [DT_RUN_CONFIG] = {.name = "config",
     .help = "the effective options as a configuration file (--print-config)",
     .call = print_config},
    [DT_RUN_VERSION] = {.name = "version", .help = "version, build and libraries",
     .call = print_version, .bare = true},
    [DT_RUN_HELP] = {.name = "help", .help = "this text", .run = run_help, .operands = "[COMMAND]",
     .most = 1, .bare = true},
};
/* clang-format on */

enum { MOST_ADDED = 64 };
static const dt_command *added[MOST_ADDED + 1]; /* NULL behind the last */

void dt_commands_add(const dt_command *list, size_t count)
{
    static size_t used;

    for (size_t i = 0; i < count && used < MOST_ADDED; i++) /* there are fewer */
        added[used++] = &list[i];
}

const dt_command *dt_command_at(size_t i)
{
    return i < DT_CORE_COMMANDS ? &dt_core_command[i] : added[i - DT_CORE_COMMANDS];
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

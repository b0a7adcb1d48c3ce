/* commands.c - the table of commands, and those of a few lines. */
#include "cli.h"
#include "commit.h"
#include "launch/launch.h"
#include "view/view.h"

static dt_status run_predict(dt_comm *c, const dt_settings *s)
{
    return dt_predict(c, &s->options, s->operand, (size_t)s->operands);
}

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
    dt_help_print(stdout, about ? about : &dt_command_train, s->help_all);
    return DT_OK;
}

static dt_status run_launch(int argc, char **argv, int *code)
{
    return dt_launch(argc, argv, dt_launcher_of(dt_comm_version()), dt_arguments_check,
                     dt_comm_has_peers(), code);
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

#define X(id, ...) const dt_command dt_command_##id = {__VA_ARGS__};
DT_COMMAND_LIST(X)
#undef X
#define X(id, ...) &dt_command_##id,
const dt_command *const dt_command_table[DT_COMMANDS] = {DT_COMMAND_LIST(X)};
#undef X

const dt_command *dt_command_find(const char *name)
{
    char spelled[DT_OPTION_NAME];

    dt_argument_name(name, spelled); /* lr_find, too */
    for (size_t i = 0; i < DT_COMMANDS; i++)
        if (strcmp(dt_command_table[i]->name, spelled) == 0)
            return dt_command_table[i];
    return NULL;
}

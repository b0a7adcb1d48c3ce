/* arguments.c - the command line, by the option table.
 *
 * getopt_long would take unique beginnings of names, which breaks scripts when the table grows, and
 * print by itself, on each of eight ranks. */
#include "cli.h"

static dt_status unknown(const char *name)
{
    char spelled[DT_OPTION_NAME];
    const char *bare = name + strspn(name, "-"), *meant = dt_option_meant(bare, true);
    const dt_option_gone *gone = dt_option_gone_find(bare);

    if (gone)
        return dt_fail(DT_USAGE, "%s is gone: %s", name, gone->instead);
    if (strcmp(bare, "np") == 0)
        return dt_fail(DT_USAGE,
                       "%s: 'dtrain --np N' starts N ranks by itself; where mpirun starts "
                       "them, give the number to mpirun",
                       name);
    if (!meant)
        return dt_fail(DT_USAGE, "unknown option '%s' (--help=all lists them)", name);
    if (strchr(meant, ' '))
        return dt_fail(DT_USAGE, "unknown option '%s': %s", name, meant);
    return dt_fail(DT_USAGE, "unknown option '%s'; did you mean --%s? (--help=all lists them)",
                   name, dt_argument_name(meant, spelled));
}

static dt_status unknown_command(const char *name)
{
    char names[512] = "";
    const dt_command *c;

    for (size_t i = 0, used = 0; (c = dt_command_at(i)) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, " %s", c->name);
    return dt_fail(DT_USAGE, "unknown command '%s', want one of:%s", name, names);
}

/* An option that is no row of the table and selects a command; false: it is none of these. */
static bool is_shortcut(dt_settings *s, const char *name, const char *value)
{
    static const struct {
        const char *name;
        int command;
    } shortcuts[] = {{"--help", DT_RUN_HELP},
                     {"-h", DT_RUN_HELP},
                     {"-V", DT_RUN_VERSION},
                     {"--print-config", DT_RUN_CONFIG},
                     {"--print_config", DT_RUN_CONFIG},
                     {"--version", DT_RUN_VERSION}};

    for (size_t i = 0; i < DT_COUNT_OF(shortcuts); i++)
        if (strcmp(name, shortcuts[i].name) == 0) {
            if (!s->about)
                s->about = s->command;
            s->command = &dt_core_command[shortcuts[i].command];
            s->help_all = value && shortcuts[i].command == DT_RUN_HELP && strcmp(value, "all") == 0;
            return true;
        }
    return false;
}

/* The word argv[*at] is an option: alone, with a value after '=', or with the next word as its
 * value, which *at then is. A word like --x is none: a shell's empty variable may be before it. */
static dt_status take_option(dt_settings *s, char **argv, int *at, const char **config)
{
    char name[64];
    const char *word = argv[*at], *value = strchr(word, '=');

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    value = value ? value + 1 : NULL;
    const bool off = strncmp(name, "--no", 4) == 0 && (name[4] == '-' || name[4] == '_');
    const bool file = strcmp(name, "--config") == 0;
    const bool spelled = strncmp(name, "--", 2) == 0;
    const dt_option_row *row = spelled ? dt_option_find(name + strlen(off ? "--no-" : "--")) : NULL;
    const bool flag = row && row->type == DT_OPTION_FLAG;

    if ((!row || (off && !flag)) && !file) {
        if (!is_shortcut(s, name, value))
            return unknown(name);
        return value && !s->help_all ? dt_fail(DT_USAGE, "%s takes no value", name) : DT_OK;
    }
    if (flag && value)
        return dt_fail(DT_USAGE, "%s takes no value", name);
    const char *next = !flag && !value ? argv[*at + 1] : NULL;
    const bool option = next && strncmp(next, "--", 2) == 0;
    if (next && !option)
        value = argv[++*at];
    if (!flag && !value)
        return dt_fail(DT_USAGE, "%s needs a value: %s=%s%s%s", name, name,
                       file ? "FILE" : row->metavar, option ? ", not " : "", option ? next : "");
    if (file && *config)
        return dt_fail(DT_USAGE, "--config is given twice; one file is read");
    if (file)
        *config = value;
    else
        s->layer[DT_ARGUMENTS_LAYER].value[row - dt_option_table].text =
            flag ? (off ? "false" : "true") : value;
    return DT_OK;
}

static dt_status take_operand(dt_settings *s, const char *word)
{
    if (s->operands == s->command->most && dt_command_find(word))
        return dt_fail(DT_USAGE, "'%s' is a command: write it first, dtrain %s ...", word, word);
    if (s->operands == s->command->most)
        return dt_fail(DT_USAGE, "unexpected argument '%s'; usage: dtrain %s %s", word,
                       s->command->name,
                       s->command->operands ? s->command->operands : "[OPTION...]");
    if (!word[0])
        return dt_fail(DT_USAGE, "an argument is empty: is a variable of the shell not set?");
    s->operand[s->operands++] = word;
    return DT_OK;
}

/* A training with `--steps 20` would be ten epochs long. The configuration is printed for any
 * command. */
static dt_status refuse_foreign(const dt_settings *s)
{
    const bool any = s->command == &dt_core_command[DT_RUN_CONFIG] || s->command->bare;

    for (size_t i = 0; !any && i < DT_OPTIONS; i++) {
        const dt_option_row *row = &dt_option_table[i];
        char name[DT_OPTION_NAME];
        if (s->layer[DT_ARGUMENTS_LAYER].value[i].text && row->commands[0] &&
            !dt_words_have(row->commands, s->command->name))
            return dt_fail(DT_USAGE, "--%s is an option of%s, not of %s; leave it out",
                           dt_argument_name(row->name, name), row->commands, s->command->name);
    }
    return DT_OK;
}

dt_status dt_arguments_read(dt_settings *s, int argc, char **argv, const char **config)
{
    bool options = true;
    int at = 1;

    if (argc > 1 && argv[1][0] != '-') {
        s->command = dt_command_find(argv[at++]);
        if (!s->command)
            return unknown_command(argv[1]);
    }
    DT_TRY(dt_calloc(&s->operand, (size_t)argc + 1, sizeof *s->operand, "the command line"));
    for (; at < argc; at++) {
        if (options && strcmp(argv[at], "--") == 0)
            options = false;
        else if (options && argv[at][0] == '-' && argv[at][1])
            DT_TRY(take_option(s, argv, &at, config));
        else
            DT_TRY(take_operand(s, argv[at]));
    }
    if (s->operands < s->command->least)
        return dt_fail(DT_USAGE, "missing argument; usage: dtrain %s %s", s->command->name,
                       s->command->operands);
    return refuse_foreign(s);
}

dt_status dt_arguments_check(int argc, char **argv, bool *alone)
{
    dt_settings s = {.command = &dt_core_command[DT_RUN_TRAIN]};
    const char *config = NULL;
    const dt_status st = dt_arguments_read(&s, argc, argv, &config);

    *alone = st == DT_OK && (s.command->lead || s.command->bare ||
                             s.command == &dt_core_command[DT_RUN_CONFIG]);
    dt_settings_release(&s);
    return st;
}

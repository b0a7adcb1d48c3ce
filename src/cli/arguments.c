/* arguments.c - the command line and --help, from the option table, through argp.
 *
 * glibc's argp prints and exits by itself unless told otherwise; on eight ranks that
 * would be eight messages. Here it only parses and formats; errors become statuses. */
#include "cli.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>

static const struct {
    const dt_command *command;
    const char *name, *help;
} command_rows[] = {
#define X(name, help) {&dt_command_##name, #name, help},
    DT_COMMAND_LIST(X)
#undef X
};
enum { COMMANDS = DT_COUNT_OF(command_rows) };

const dt_command *dt_command_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(command_rows[i].name, name) == 0)
            return command_rows[i].command;
    return NULL;
}

static const char *command_nearest(const char *name)
{
    size_t best = 0;
    for (size_t i = 1; i < COMMANDS; i++)
        if (dt_text_distance(name, command_rows[i].name) <
            dt_text_distance(name, command_rows[best].name))
            best = i;
    return command_rows[best].name;
}

/* ---- argp's table ---------------------------------------------------------------- */

/* Keys: the front end's own, then option i, then option i switched off. All lie above
 * the range of characters, so argp makes no short options of them. */
enum {
    KEY_OWN = 0x200,
    KEY_SET = 0x1000,
    KEY_OFF = 0x2000,
    KEY_END = KEY_OFF + DT_SETTINGS, /* argp's own keys lie above */
};

/* Options that are no rows of the table: they select a command or a file. */
static const struct {
    const char *name, *metavar, *help;
    const dt_command *command; /* NULL: --config */
} own_rows[] = {
    {"config", "FILE", "read options from this YAML file (also DTRAIN_CONFIG)", NULL},
    {"print-config", NULL, "print the effective options as YAML", &dt_command_config},
    {"help", NULL, "print this text", &dt_command_help},
    {"version", NULL, "print version, build and libraries", &dt_command_version},
};
enum { OWN = DT_COUNT_OF(own_rows) };

typedef struct argument_table {
    /* an option may open a group and have a --no- form; the last row is empty */
    struct argp_option row[OWN + 3 * DT_SETTINGS + 1];
    struct {
        char name[48], off[48], help[320];
    } text[DT_SETTINGS];
    size_t rows;
} argument_table;

/* An option's name as the command line spells it. */
static void table_spell(char out[48], const char *prefix, const char *field)
{
    snprintf(out, 48, "%s%s", prefix, field);
    for (; *out; out++)
        *out = *out == '_' ? '-' : *out;
}

static void table_push(argument_table *t, struct argp_option row)
{
    t->row[t->rows++] = row;
}

/* The row of option i; `group` numbers the heading that it stands under. */
static void table_option(argument_table *t, size_t i, int group, const dt_options *defaults)
{
    const dt_option_row *row = &dt_option_table[i];
    const bool flag = row->type == DT_OPTION_FLAG;
    char value[64];

    dt_option_text(row, defaults, value, sizeof value);
    table_spell(t->text[i].name, "", row->name);
    snprintf(t->text[i].help, sizeof t->text[i].help, "%s%s%s%s%s%s", row->help,
             row->choices[0] ? "; one of:" : "", row->choices, value[0] ? " (default: " : "", value,
             value[0] ? ")" : "");
    table_push(t, (struct argp_option){.name = t->text[i].name,
                                       .key = KEY_SET + (int)i,
                                       .arg = row->metavar,
                                       .doc = t->text[i].help,
                                       .group = group});
    if (!flag)
        return;
    table_spell(t->text[i].off, "no-", row->name);
    table_push(t, (struct argp_option){
                      .name = t->text[i].off, .key = KEY_OFF + (int)i, .flags = OPTION_ALIAS});
}

static void table_build(argument_table *t)
{
    const char *heading = "";
    int group = 1;
    dt_options defaults;

    dt_options_init(&defaults);
    t->rows = 0;
    for (size_t i = 0; i < OWN; i++)
        table_push(t, (struct argp_option){.name = own_rows[i].name,
                                           .key = KEY_OWN + (int)i,
                                           .arg = own_rows[i].metavar,
                                           .doc = own_rows[i].help,
                                           .group = group});
    for (size_t i = 0; i < DT_SETTINGS; i++) {
        const dt_option_row *row = &dt_option_table[i];
        if (strcmp(heading, row->group) != 0)
            table_push(t, (struct argp_option){.doc = row->group, .group = ++group});
        heading = row->group;
        table_option(t, i, group, &defaults);
    }
    table_push(t, (struct argp_option){0});
}

/* ---- Parsing --------------------------------------------------------------------- */

typedef struct argument_input {
    dt_settings *settings;
    dt_layer *layer;
    const char **config;
    const struct argp_option *row; /* argp's table */
    dt_status status;
} argument_input;

/* Whether `word` spells the option in full: argp also takes unique beginnings, but a
 * beginning that is unique today would break scripts when the table grows. */
static bool argument_spells(const char *word, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, n) == 0 &&
           (word[2 + n] == '\0' || word[2 + n] == '=');
}

/* The word of the command line that argp refused: why? */
static dt_status argument_refused(const argument_input *in, const char *word)
{
    char name[64];
    const char *nearest = NULL;
    size_t least = SIZE_MAX;

    for (const struct argp_option *r = in->row; r->name || r->doc; r++) {
        if (!r->name)
            continue;
        if (argument_spells(word, r->name) && r->arg)
            return dt_fail(DT_USAGE, "--%s needs a value: --%s=%s", r->name, r->name, r->arg);
        if (argument_spells(word, r->name))
            return dt_fail(DT_USAGE, "%s: --%s takes no value", word, r->name);
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *bare = name + strspn(name, "-");
    for (const struct argp_option *r = in->row; r->name || r->doc; r++) {
        const size_t distance = r->name ? dt_text_distance(bare, r->name) : SIZE_MAX;
        if (distance < least) {
            least = distance;
            nearest = r->name;
        }
    }
    return dt_fail(DT_USAGE, "unknown option '%s'; did you mean --%s? (--help lists them)", name,
                   nearest);
}

/* The word that named the option whose key argp has just passed on. */
static const char *argument_word(const struct argp_state *state, const char *arg)
{
    char **last = &state->argv[state->next - 1];
    return arg && arg == *last ? last[-1] : *last;
}

static dt_status argument_set(argument_input *in, int key, const char *name, char *arg)
{
    const bool off = key >= KEY_OFF;
    dt_layer_value *v = &in->layer->value[key - (off ? KEY_OFF : KEY_SET)];

    v->text = arg ? arg : off ? "false" : "true";
    return dt_kept_text(&in->settings->kept, &v->place, "--%s", name);
}

/* A word that is no option. */
static dt_status argument_operand(dt_settings *s, const char *word)
{
    if (s->operands == s->command->most && s->operands == 0)
        return dt_fail(DT_USAGE,
                       "unexpected argument '%s'; options start with --, and a "
                       "command comes first",
                       word);
    if (!word[0])
        return dt_fail(DT_USAGE,
                       "an argument is empty; is a variable of the shell not set? usage: dtrain %s "
                       "%s",
                       s->command->name, s->command->operands);
    if (s->operands == s->command->most)
        return dt_fail(DT_USAGE, "unexpected argument '%s'; usage: dtrain %s %s", word,
                       s->command->name, s->command->operands);
    s->operand[s->operands++] = word;
    return DT_OK;
}

static error_t argument_parse(int key, char *arg, struct argp_state *state)
{
    argument_input *in = state->input;

    if (key == ARGP_KEY_ARG) {
        in->status = argument_operand(in->settings, arg);
    } else if (key == ARGP_KEY_ERROR) {
        if (in->status == DT_OK)
            in->status = argument_refused(in, state->argv[state->next - 1]);
    } else if (key >= KEY_OWN && key < KEY_END) {
        const struct argp_option *row = in->row;
        while (row->key != key)
            row++;
        const char *word = argument_word(state, arg);
        if (!argument_spells(word, row->name))
            in->status = argument_refused(in, word);
        else if (key >= KEY_SET)
            in->status = argument_set(in, key, row->name, arg);
        else if (own_rows[key - KEY_OWN].command)
            in->settings->command = own_rows[key - KEY_OWN].command;
        else
            *in->config = arg;
    } else {
        return ARGP_ERR_UNKNOWN;
    }
    return in->status == DT_OK ? 0 : EINVAL;
}

/* Whether an option of commands is this one's: its help names them, "bench, env: print JSON". */
static bool argument_concerns(const dt_option_row *row, const char *command)
{
    const size_t n = strlen(command);

    for (const char *at = row->help; *at;) {
        const size_t word = strcspn(at, ",:");
        if (word == n && strncmp(at, command, n) == 0)
            return true;
        if (at[word] != ',')
            return false;
        at += word + strspn(at + word, ", ");
    }
    return false;
}

/* Nobody wants `--steps 20` to be ten epochs. The configuration is printed for any command. */
static dt_status arguments_foreign(const dt_settings *s, const dt_layer *layer)
{
    const bool any = s->command == &dt_command_config || s->command->bare;

    for (size_t i = 0; !any && i < DT_SETTINGS; i++) {
        const dt_option_row *row = &dt_option_table[i];
        if (layer->value[i].text && row->scope == DT_SCOPE_COMMAND &&
            !argument_concerns(row, s->command->name))
            return dt_fail(DT_USAGE,
                           "%s is an option of another command (%s), and %s takes no notice of "
                           "it; leave it out (--help lists all)",
                           layer->value[i].place, row->help, s->command->name);
    }
    return DT_OK;
}

dt_status dt_arguments_read(dt_settings *s, int argc, char **argv, dt_layer *layer,
                            const char **config)
{
    argument_table table;
    argument_input in = {s, layer, config, table.row, DT_OK};
    const struct argp argp = {.options = table.row, .parser = argument_parse};

    if (argc > 1 && argv[1][0] != '-') {
        s->command = dt_command_find(argv[1]);
        if (!s->command)
            return dt_fail(DT_USAGE,
                           "unknown command '%s'; did you mean %s? (dtrain help lists "
                           "all)",
                           argv[1], command_nearest(argv[1]));
        argc--;
        argv++;
    }
    if (s->command->most > 0)
        DT_TRY(dt_calloc(&s->operand, (size_t)argc, sizeof *s->operand, "the command line"));
    table_build(&table);
    /* LONG_ONLY: a word with one dash is read as a whole, so that the refused word is
     * always the last that argp has passed. */
    const unsigned flags =
        ARGP_NO_EXIT | ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_IN_ORDER | ARGP_LONG_ONLY;
    const error_t error = argp_parse(&argp, argc, argv, flags, NULL, &in);
    if (error && in.status == DT_OK)
        return dt_fail(DT_BUG, "argp: %s", strerror(error));
    if (in.status == DT_OK && s->operands < s->command->least)
        return dt_fail(DT_USAGE, "missing argument; usage: dtrain %s %s", s->command->name,
                       s->command->operands);
    DT_TRY(in.status);
    return arguments_foreign(s, layer);
}

void dt_arguments_help(FILE *f)
{
    static char name[] = "dtrain"; /* argp wants it writable, but does not write */
    argument_table table;
    const struct argp argp = {.options = table.row};

    table_build(&table);
    fputs("Usage: dtrain [COMMAND] [OPTION...]\n"
          "       mpirun -np 8 dtrain --data cifar-10-batches-bin\n\n"
          "Train ResNet-50 and VGG11 on CIFAR-10, data-parallel over MPI ranks, with\n"
          "the same bits on any number of ranks.\n\nCommands:\n",
          f);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(f, "  %-10s %s\n", command_rows[i].name, command_rows[i].help);
    fputs("\nOptions; the defaults are those of the Ascend tutorial:\n", f);
    argp_help(&argp, f, ARGP_HELP_LONG, name);
    fputs("\nAn option is also a key of the configuration file (--global-batch is\n"
          "global_batch) and a variable (DTRAIN_GLOBAL_BATCH). The command line wins\n"
          "over the environment, that over the file, and that over the defaults.\n\n"
          "Exit codes:\n",
          f);
    for (int s = 0; s < DT_STATUS_COUNT; s++)
        if (s != DT_DECLINED)
            fprintf(f, "  %2d  %s\n", dt_status_exit_code((dt_status)s),
                    dt_status_text((dt_status)s));
}

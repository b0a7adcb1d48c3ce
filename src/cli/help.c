/* help.c - --help, from the tables of commands and options. */
#include "cli.h"

static const struct {
    const dt_command *command;
    const char *name, *help;
} command_rows[] = {
#define X(name, help) {&dt_command_##name, #name, help},
    DT_COMMAND_LIST(X)
#undef X
};

const dt_command *dt_command_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT_OF(command_rows); i++)
        if (strcmp(command_rows[i].name, name) == 0)
            return command_rows[i].command;
    return NULL;
}

/* One entry: what is written, and what it is, cut into lines between words. */
static void print_entry(FILE *f, const char *head, const char *text)
{
    enum { INDENT = 26, WIDTH = 79 };
    int column = fprintf(f, "  %s", head);

    for (bool fits = column < INDENT; *text; fits = true) {
        const int word = (int)strcspn(text, " ");
        if (!fits || column + 1 + word > WIDTH) {
            fputc('\n', f);
            column = 0;
        }
        column += fprintf(f, "%*s%.*s", DT_MAX(INDENT - column, 1), "", word, text);
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', f);
}

static void print_option(FILE *f, const dt_option_row *row, const dt_options *defaults)
{
    char name[DT_ARGUMENT_CHARS], head[2 * DT_ARGUMENT_CHARS], value[64], text[512];

    dt_argument_name(row, name);
    dt_option_text(row, defaults, value, sizeof value);
    if (row->type == DT_OPTION_FLAG) {
        snprintf(head, sizeof head, "--[no-]%s", name);
        value[strcmp(value, "false") == 0 ? 0 : strlen(value)] = '\0';
    } else {
        snprintf(head, sizeof head, "--%s=%s", name, row->metavar);
    }
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s%s", row->commands[0] ? row->commands + 1 : "",
             row->commands[0] ? ": " : "", row->help, row->choices[0] ? "; one of:" : "",
             row->choices, value[0] ? " (default: " : "", value, value[0] ? ")" : "");
    print_entry(f, head, text);
}

static void print_options(FILE *f, bool all)
{
    const char *group = "";
    dt_options defaults;

    dt_options_init(&defaults);
    print_entry(f, "--config=FILE", "read options from this YAML file (also DTRAIN_CONFIG)");
    print_entry(f, "--print-config", "print the effective options as YAML");
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        const dt_option_row *row = &dt_option_table[i];
        if (!all && !row->daily)
            continue;
        if (strcmp(group, row->group) != 0)
            fprintf(f, "\n %s\n", row->group);
        group = row->group;
        print_option(f, row, &defaults);
    }
}

void dt_help_print(FILE *f, bool all)
{
    fputs("Usage: dtrain [COMMAND] [OPTION...]\n"
          "       mpirun -np 8 dtrain --data cifar-10-batches-bin\n\n"
          "Train ResNet-50 and VGG11 on CIFAR-10, data-parallel over MPI ranks, with the\n"
          "same bits on any number of ranks.\n\nCommands:\n",
          f);
    for (size_t i = 0; i < DT_COUNT_OF(command_rows); i++)
        fprintf(f, "  %-10s %s\n", command_rows[i].name, command_rows[i].help);
    fprintf(f, "\nOptions%s; the defaults are those of the Ascend tutorial:\n",
            all ? "" : " (--help=all has more)");
    print_options(f, all);
    fputs("\nAn option is also a key of the configuration file (--global-batch is\n"
          "global_batch) and a variable (DTRAIN_GLOBAL_BATCH). The command line wins over\n"
          "the environment, that over the file, and that over the defaults.\n",
          f);
    fputs(all ? "\nExit codes:\n" : "", f);
    for (int s = 0; all && s < DT_STATUS_COUNT; s++)
        if (s != DT_DECLINED)
            fprintf(f, "  %2d  %s\n", dt_status_exit_code((dt_status)s),
                    dt_status_text((dt_status)s));
}

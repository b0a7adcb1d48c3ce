/* help.c - --help, from the tables of commands and options. */
#include "cli.h"

/* The options that are no rows of the table. */
static const struct {
    const char *name, *metavar, *help;
} own_rows[] = {
    {"np", "N", "start N ranks on this machine; several hosts: dtrain launch --help"},
    {"config", "FILE", "read options from this YAML file (also DTRAIN_CONFIG)"},
    {"print-config", "", "print the effective options as YAML"},
    {"help", "", "print what is used daily, or of a command; --help=all: everything"},
    {"version", "", "print version, build and libraries"},
};

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

static void print_option(FILE *f, const dt_option_row *row)
{
    char name[DT_OPTION_NAME], head[2 * DT_OPTION_NAME], value[64], text[512];

    dt_argument_name(row->name, name);
    dt_option_text(row, NULL, value, sizeof value);
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
    char head[2 * DT_OPTION_NAME];

    for (size_t i = 0; i < DT_COUNT_OF(own_rows); i++) {
        snprintf(head, sizeof head, "--%s%s%s", own_rows[i].name, own_rows[i].metavar[0] ? "=" : "",
                 own_rows[i].metavar);
        print_entry(f, head, own_rows[i].help);
    }
    for (const dt_option_row *row = dt_option_table; row < dt_option_table + DT_OPTIONS; row++) {
        if (!all && !row->daily)
            continue;
        if (strcmp(group, row->group) != 0)
            fprintf(f, "\n %s\n", row->group);
        group = row->group;
        print_option(f, row);
    }
}

static void print_all(FILE *f, bool all)
{
    const dt_command *c;

    fputs("Usage: dtrain [COMMAND] [OPTION...]\n"
          "       dtrain --np 8 --data cifar-10-batches-bin\n\n"
          "Train ResNet-50 and VGG11 on CIFAR-10, data-parallel over MPI ranks, with the\n"
          "same bits on any number of ranks.\n\nCommands:\n",
          f);
    for (size_t i = 0; (c = dt_command_at(i)); i++)
        fprintf(f, "  %-10s %s\n", c->name, c->help);
    fputs("\n'dtrain COMMAND --help' has the options of a command.\n", f);
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

/* Of a command: the rows that it alone takes, and those of its list. */
void dt_help_print(FILE *f, const dt_command *about, bool all)
{
    int count = 0;

    if (about == &dt_core_command[DT_RUN_TRAIN] || all) {
        print_all(f, all);
        return;
    }
    fprintf(f, "Usage: dtrain %s %s%s[OPTION...]\n\n%s\n", about->name,
            about->operands ? about->operands : "", about->operands ? " " : "", about->help);
    for (const dt_option_row *row = dt_option_table; row < dt_option_table + DT_OPTIONS; row++) {
        if (!dt_words_have(row->commands, about->name) &&
            !(about->options && dt_words_have(about->options, row->name)))
            continue;
        fputs(count++ ? "" : "\nOptions:\n", f);
        print_option(f, row);
    }
    fputs("\nAll options: dtrain --help=all\n", f);
}

void dt_help_table(FILE *f)
{
    char name[DT_OPTION_NAME], value[64];
    const dt_command *c;

    for (size_t i = 0; (c = dt_command_at(i)); i++)
        fprintf(f, "command\t%s\t%s\t%s\n", c->name, c->options ? c->options : "", c->help);
    for (size_t i = 0; i < DT_COUNT_OF(own_rows); i++)
        fprintf(f, "option\t%s\t%s\t\t\t\t\t%s\n", own_rows[i].name, own_rows[i].metavar,
                own_rows[i].help);
    for (const dt_option_row *row = dt_option_table; row < dt_option_table + DT_OPTIONS; row++) {
        fprintf(f, "option\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", dt_argument_name(row->name, name),
                row->metavar ? row->metavar : "[no]",
                dt_option_text(row, NULL, value, sizeof value), row->choices, row->commands,
                row->group, row->help);
    }
    for (int s = 0; s < DT_STATUS_COUNT; s++)
        if (s != DT_DECLINED)
            fprintf(f, "exit\t%d\t%s\n", dt_status_exit_code((dt_status)s),
                    dt_status_text((dt_status)s));
}

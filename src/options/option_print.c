/* option_print.c - all options as lines for a reader, and as a configuration file. */
#include "options.h"

void dt_options_print(FILE *f, const dt_options *o)
{
    enum { WIDTH = 88, INDENT = 16 };
    const char *group = "";
    int column = 0;

    for (size_t i = 0; i < dt_option_count; i++) {
        const dt_option_row *row = &dt_option_table[i];
        char value[DT_OPTION_CHARS];
        dt_option_text(row, o, value, sizeof value);
        const int width = (int)(strlen(row->name) + strlen(value)) + 2;
        const bool opens = strcmp(group, row->group) != 0;
        if (opens || column + width > WIDTH) {
            fprintf(f, "%s%-*s", i ? "\n" : "", INDENT, opens ? row->group : "");
            column = INDENT;
        }
        group = row->group;
        fprintf(f, " %s=%s", row->name, value);
        column += width;
    }
    fputc('\n', f);
}

/* Texts become double-quoted scalars: dt_option_set has taken none that needs another escape. */
void dt_options_yaml(FILE *f, const dt_options *o)
{
    const char *group = "";
    char value[DT_OPTION_CHARS];

    fputs("# Options of dtrain; read them back with --config.\n", f);
    for (size_t i = 0; i < dt_option_count; i++) {
        const dt_option_row *row = &dt_option_table[i];
        const char *quote = row->type == DT_OPTION_TEXT ? "\"" : "";
        if (strcmp(group, row->group) != 0)
            fprintf(f, "\n# %s\n", row->group);
        group = row->group;
        fprintf(f, "%s: %s", row->name, quote);
        for (const char *c = dt_option_text(row, o, value, sizeof value); *c; c++)
            fprintf(f, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
        fprintf(f, "%s\n", quote);
    }
}

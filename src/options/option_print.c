/* option_print.c - all options as lines for a reader, and as a configuration file. */
#include "options.h"

static const char *text_of(const dt_option_row *row, const dt_options *o)
{
    return *(const char *const *)((const char *)o + row->offset);
}

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

/* A double-quoted YAML scalar of a text that text_parse has taken. */
static void yaml_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

void dt_options_yaml(FILE *f, const dt_options *o)
{
    const char *group = "";
    char value[64];

    fputs("# Options of dtrain; read them back with --config.\n", f);
    for (size_t i = 0; i < dt_option_count; i++) {
        const dt_option_row *row = &dt_option_table[i];
        if (strcmp(group, row->group) != 0)
            fprintf(f, "\n# %s\n", row->group);
        group = row->group;
        fprintf(f, "%s: ", row->name);
        if (row->type == DT_OPTION_TEXT)
            yaml_text(f, text_of(row, o));
        else
            fputs(dt_option_text(row, o, value, sizeof value), f);
        fputc('\n', f);
    }
}

/* option_values.c - values of options from and to text, by type. */
#include "options.h"
#include <strings.h>

/* What a type can do: read a field from text (false: not a value, nothing written), write it as
 * text, and say what it wants, which is followed by the row's choices or range. */
typedef struct option_kind {
    bool (*parse)(const dt_option_row *row, const char *text, void *field);
    void (*print)(const dt_option_row *row, const void *field, char *buf, size_t size);
    const char *want;
} option_kind;

/* UTF-8 without what YAML does not take as it stands: C0, DEL, C1, the separators of lines and
 * paragraphs, the byte order mark and what is no character. options.yaml and state.json give every
 * other text back. */
static bool text_parse(const dt_option_row *row, const char *text, void *field)
{
    static const uint32_t refused[][2] = {
        {0x01, 0x1f}, {0x7f, 0x9f}, {0x2028, 0x2029}, {0xfeff, 0xfeff}, {0xfffe, 0xffff}};
    uint32_t code;

    (void)row;
    for (const char *c = text; *c; c += dt_utf8_bytes(c, &code)) {
        if (dt_utf8_bytes(c, &code) == 0)
            return false;
        for (size_t i = 0; i < DT_COUNT_OF(refused); i++)
            if (code >= refused[i][0] && code <= refused[i][1])
                return false;
    }
    *(const char **)field = text;
    return true;
}

static void text_print(const dt_option_row *row, const void *field, char *buf, size_t size)
{
    (void)row;
    snprintf(buf, size, "%s", *(const char *const *)field);
}

static bool choice_parse(const dt_option_row *row, const char *text, void *field)
{
    return dt_words_have(row->choices, text) && text_parse(row, text, field);
}

static bool count_parse(const dt_option_row *row, const char *text, void *field)
{
    const char *end;
    int64_t v = 0;

    if (row->type != DT_OPTION_AUTO || strcmp(text, "auto") != 0) {
        if (!dt_whole_parse(text, &end, &v) || *end != '\0')
            return false;
        if ((double)v < row->low || (double)v > row->high)
            return false;
    }
    *(int64_t *)field = v;
    return true;
}

static void count_print(const dt_option_row *row, const void *field, char *buf, size_t size)
{
    const int64_t v = *(const int64_t *)field;

    if (row->type == DT_OPTION_AUTO && v == 0)
        snprintf(buf, size, "auto");
    else
        snprintf(buf, size, "%lld", (long long)v);
}

static bool real_parse(const dt_option_row *row, const char *text, void *field)
{
    const char *end;
    double v = -1;

    if (row->type != DT_OPTION_AUTO_REAL || strcmp(text, "auto") != 0) {
        if (!dt_real_parse(text, &end, &v) || *end != '\0')
            return false;
        if (v < row->low || v > row->high)
            return false;
    }
    *(double *)field = v == 0 ? 0 : v; /* "-0" would print as another text */
    return true;
}

/* The shortest decimal text that reads back as the same double, as 1.0e-05 for 1e-05: in
 * YAML 1.1 a number with an exponent and no point is a word. */
static void real_print(const dt_option_row *row, const void *field, char *buf, size_t size)
{
    const double v = *(const double *)field;
    double back = (double)NAN;
    char text[32] = "";

    if (row->type == DT_OPTION_AUTO_REAL && v < 0) {
        snprintf(buf, size, "auto");
        return;
    }
    for (int digits = 15; digits <= 17 && !(back >= v && back <= v); digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        back = strtod(text, NULL);
    }
    const int mantissa = (int)strcspn(text, "e");
    const bool point = memchr(text, '.', (size_t)mantissa) || text[mantissa] == '\0';
    snprintf(buf, size, "%.*s%s%s", mantissa, text, point ? "" : ".0", text + mantissa);
}

static bool flag_parse(const dt_option_row *row, const char *text, void *field)
{
    static const char *const words[][2] = {
        {"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};
    (void)row;
    for (size_t i = 0; i < DT_COUNT_OF(words); i++)
        for (int v = 0; v < 2; v++)
            if (strcasecmp(text, words[i][v]) == 0) {
                *(bool *)field = v == 1;
                return true;
            }
    return false;
}

static void flag_print(const dt_option_row *row, const void *field, char *buf, size_t size)
{
    (void)row;
    snprintf(buf, size, "%s", *(const bool *)field ? "true" : "false");
}

static const option_kind option_kinds[] = {
    [DT_OPTION_TEXT] = {text_parse, text_print,
                        "UTF-8 without control characters: rename it, or give a link to it"},
    [DT_OPTION_CHOICE] = {choice_parse, text_print, "one of:"},
    [DT_OPTION_COUNT] = {count_parse, count_print, "a whole number"},
    [DT_OPTION_AUTO] = {count_parse, count_print, "auto, or a whole number"},
    [DT_OPTION_REAL] = {real_parse, real_print, "a number"},
    [DT_OPTION_AUTO_REAL] = {real_parse, real_print, "auto, or a number"},
    [DT_OPTION_FLAG] = {flag_parse, flag_print, "true or false"},
};

const char *dt_option_text(const dt_option_row *row, const dt_options *o, char *buf, size_t size)
{
    dt_options usual;

    if (!o)
        dt_options_init(&usual);
    option_kinds[row->type].print(row, (const char *)(o ? o : &usual) + row->offset, buf, size);
    return buf;
}

dt_status dt_option_set(const dt_option_row *row, dt_options *o, const char *text,
                        const char *place, dt_status code)
{
    const option_kind *kind = &option_kinds[row->type];
    dt_option_form form;
    char range[80] = "";
    const bool formed = !row->syntax || row->syntax->parse(text, &form);

    if (formed && kind->parse(row, text, (char *)o + row->offset)) {
        o->given[row - dt_option_table] = true;
        return DT_OK;
    }
    if (row->low < row->high)
        snprintf(range, sizeof range, " from %.15g to %.15g", row->low, row->high);
    return dt_fail(code, "%s: '%s' is no value for %s, want %s%s%s", place, text, row->name,
                   formed ? kind->want : row->syntax->want, row->choices, range);
}

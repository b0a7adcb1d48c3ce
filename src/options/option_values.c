/* option_values.c - values of options from and to text, by type. */
#include "option_forms.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

/* What a type can do: read a field from text (false: not a value, nothing written),
 * write it as text, and say what it wants. */
typedef struct option_kind {
    bool (*parse)(const dt_option_row *row, const char *text, void *field);
    void (*print)(const void *field, char *buf, size_t size);
    void (*want)(const dt_option_row *row, char *buf, size_t size);
} option_kind;

static bool is_utf8(const char *text)
{
    json_t *j = json_string(text);
    json_decref(j);
    return j != NULL;
}

/* UTF-8, and nothing that YAML does not take as it stands: C0, DEL, C1, the separators of
 * lines and paragraphs, the byte order mark and what is no character. options.yaml and
 * state.json give every other text back. */
static bool is_plain(const char *text)
{
    static const char *const refused[][2] = {{"\x01", "\x1f"},
                                             {"\x7f", "\x7f"},
                                             {"\xc2\x80", "\xc2\x9f"},
                                             {"\xe2\x80\xa8", "\xe2\x80\xa9"},
                                             {"\xef\xbb\xbf", "\xef\xbb\xbf"},
                                             {"\xef\xbf\xbe", "\xef\xbf\xbf"}};

    for (const char *c = text; *c; c++)
        for (size_t i = 0; i < DT_COUNT_OF(refused); i++) {
            const size_t n = strlen(refused[i][0]);
            if (strncmp(c, refused[i][0], n) >= 0 && strncmp(c, refused[i][1], n) <= 0)
                return false;
        }
    return is_utf8(text);
}

static bool text_parse(const dt_option_row *row, const char *text, void *field)
{
    const dt_option_form *form = dt_option_form_of(row->name);

    if (!is_plain(text) || (form && !form->fits(text)))
        return false;
    *(const char **)field = text;
    return true;
}

static void text_print(const void *field, char *buf, size_t size)
{
    snprintf(buf, size, "%s", *(const char *const *)field);
}

static void text_want(const dt_option_row *row, char *buf, size_t size)
{
    const dt_option_form *form = dt_option_form_of(row->name);

    snprintf(buf, size, "%s",
             form ? form->want
                  : "UTF-8 without control characters: rename it, or give a link to it");
}

static bool choice_parse(const dt_option_row *row, const char *text, void *field)
{
    const size_t length = strlen(text);
    for (const char *word = row->choices; *word == ' ';) {
        const size_t n = strcspn(++word, " ");
        if (n == length && memcmp(word, text, n) == 0)
            return text_parse(row, text, field);
        word += n;
    }
    return false;
}

static void choice_want(const dt_option_row *row, char *buf, size_t size)
{
    snprintf(buf, size, "one of:%s", row->choices);
}

static bool count_parse(const dt_option_row *row, const char *text, void *field)
{
    const char *end;
    int64_t v;
    if (!dt_whole_parse(text, &end, &v) || *end != '\0')
        return false;
    if ((double)v < row->low || (double)v > row->high)
        return false;
    *(int64_t *)field = v;
    return true;
}

static void count_print(const void *field, char *buf, size_t size)
{
    snprintf(buf, size, "%lld", (long long)*(const int64_t *)field);
}

static void count_want(const dt_option_row *row, char *buf, size_t size)
{
    snprintf(buf, size, "a whole number from %.15g to %.15g", row->low, row->high);
}

static bool auto_parse(const dt_option_row *row, const char *text, void *field)
{
    if (strcmp(text, "auto") != 0)
        return count_parse(row, text, field);
    *(int64_t *)field = 0;
    return true;
}

static void auto_print(const void *field, char *buf, size_t size)
{
    if (*(const int64_t *)field != 0)
        count_print(field, buf, size);
    else
        snprintf(buf, size, "auto");
}

static void auto_want(const dt_option_row *row, char *buf, size_t size)
{
    snprintf(buf, size, "auto, or a whole number from %.15g to %.15g", row->low, row->high);
}

static bool real_parse(const dt_option_row *row, const char *text, void *field)
{
    const char *end;
    double v;
    if (!dt_real_parse(text, &end, &v) || *end != '\0')
        return false;
    if (v < row->low || v > row->high)
        return false;
    *(double *)field = v == 0 ? 0 : v; /* "-0" would print as another text */
    return true;
}

/* The shortest decimal text that reads back as the same double, as 1.0e-05 for 1e-05: in
 * YAML 1.1 a number with an exponent and no point is a word. */
static void real_print(const void *field, char *buf, size_t size)
{
    const double v = *(const double *)field;
    double back = (double)NAN;
    char text[32] = "";

    for (int digits = 15; digits <= 17 && !(back >= v && back <= v); digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        back = strtod(text, NULL);
    }
    const int mantissa = (int)strcspn(text, "e");
    const bool point = memchr(text, '.', (size_t)mantissa) || text[mantissa] == '\0';
    snprintf(buf, size, "%.*s%s%s", mantissa, text, point ? "" : ".0", text + mantissa);
}

static void real_want(const dt_option_row *row, char *buf, size_t size)
{
    snprintf(buf, size, "a number from %.15g to %.15g", row->low, row->high);
}

static bool auto_real_parse(const dt_option_row *row, const char *text, void *field)
{
    if (strcmp(text, "auto") != 0)
        return real_parse(row, text, field);
    *(double *)field = -1;
    return true;
}

static void auto_real_print(const void *field, char *buf, size_t size)
{
    if (*(const double *)field >= 0)
        real_print(field, buf, size);
    else
        snprintf(buf, size, "auto");
}

static void auto_real_want(const dt_option_row *row, char *buf, size_t size)
{
    snprintf(buf, size, "auto, or a number from %.15g to %.15g", row->low, row->high);
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

static void flag_print(const void *field, char *buf, size_t size)
{
    snprintf(buf, size, "%s", *(const bool *)field ? "true" : "false");
}

static void flag_want(const dt_option_row *row, char *buf, size_t size)
{
    (void)row;
    snprintf(buf, size, "true or false");
}

static const option_kind option_kinds[] = {
    [DT_OPTION_TEXT] = {text_parse, text_print, text_want},
    [DT_OPTION_CHOICE] = {choice_parse, text_print, choice_want},
    [DT_OPTION_COUNT] = {count_parse, count_print, count_want},
    [DT_OPTION_AUTO] = {auto_parse, auto_print, auto_want},
    [DT_OPTION_REAL] = {real_parse, real_print, real_want},
    [DT_OPTION_AUTO_REAL] = {auto_real_parse, auto_real_print, auto_real_want},
    [DT_OPTION_FLAG] = {flag_parse, flag_print, flag_want},
};

static const void *option_field(const dt_option_row *row, const dt_options *o)
{
    return (const char *)o + row->offset;
}

const char *dt_option_text(const dt_option_row *row, const dt_options *o, char *buf, size_t size)
{
    option_kinds[row->type].print(option_field(row, o), buf, size);
    return buf;
}

dt_status dt_option_set(const dt_option_row *row, dt_options *o, const char *text,
                        const char *place, dt_status code)
{
    const option_kind *kind = &option_kinds[row->type];
    char want[256];

    if (kind->parse(row, text, (char *)o + row->offset)) {
        o->given[row - dt_option_table] = true;
        return DT_OK;
    }
    kind->want(row, want, sizeof want);
    return dt_fail(code, "%s: '%s' is no value for %s, want %s", place, text, row->name, want);
}

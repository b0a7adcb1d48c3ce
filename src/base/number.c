/* number.c - numbers as users write them, decimal and without blanks; words. */
#include "base.h"

#include <ctype.h>

bool dt_whole_parse(const char *text, const char **end, int64_t *value)
{
    char *stop = NULL;

    if (!isdigit((unsigned char)text[text[0] == '-']))
        return false;
    errno = 0;
    *value = strtoll(text, &stop, 10);
    *end = stop;
    return errno == 0;
}

bool dt_real_parse(const char *text, const char **end, double *value)
{
    const size_t decimal = strspn(text, "0123456789.eE+-");
    char *stop = NULL;

    errno = 0;
    *value = strtod(text, &stop);
    *end = stop;
    /* What strtod takes beyond is a blank, inf, nan or 0x. A number too small for the type is
     * another one, 0 or with few digits, and not what was meant. */
    const bool small = fpclassify(*value) == FP_SUBNORMAL;
    return stop != text && stop <= text + decimal && errno == 0 && !small;
}

double dt_nan_unsigned(double x)
{
    return isnan(x) ? fabs(x) : x;
}

bool dt_words_have(const char *words, const char *word)
{
    const size_t n = strlen(word);

    for (; *words == ' '; words += strcspn(words, " ")) {
        words++;
        if (strncmp(words, word, n) == 0 && (words[n] == ' ' || words[n] == '\0'))
            return strchr(word, ' ') == NULL;
    }
    return false;
}

/* Levenshtein's distance by rows; of long texts the first 63 bytes. */
size_t dt_edits(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t row[LONGEST + 1];
    const size_t na = strnlen(a, LONGEST), nb = strnlen(b, LONGEST);

    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            const size_t shorter = DT_MIN(row[j], row[j - 1]) + 1;
            const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = DT_MIN(shorter, replaced);
        }
    }
    return row[nb];
}

bool dt_edits_few(const char *word, const char *other)
{
    return 3 * dt_edits(word, other) <= strlen(word) + 1;
}

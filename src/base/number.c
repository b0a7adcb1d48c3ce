/* number.c - numbers in the one spelling that users write: decimal, nothing before it. */
#include "base.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

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
    /* What strtod takes beyond is a blank, inf, nan or 0x. Numbers too small become 0. */
    return stop != text && stop <= text + decimal && (errno == 0 || *value == 0);
}

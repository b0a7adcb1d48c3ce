/* number.c - numbers in the one spelling that users write: decimal, nothing before it. */
#include "base.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
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
    /* What strtod takes beyond is a blank, inf, nan or 0x. A number too small for the type is
     * another one, 0 or with few digits, and not what was meant. */
    const bool small = fpclassify(*value) == FP_SUBNORMAL;
    return stop != text && stop <= text + decimal && errno == 0 && !small;
}

double dt_nan_unsigned(double x)
{
    return isnan(x) ? fabs(x) : x;
}

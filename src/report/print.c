/* print.c - what the sinks that print share. */
#include "sink.h"

#include <errno.h>
#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>

dt_status dt_print_flush(dt_sink *s)
{
    FILE *out = s->setup->out;

    if (fflush(out) == 0 && !ferror(out))
        return DT_OK;
    dt_warn("standard output cannot be written (%s): the run continues without it; its progress is "
            "in metrics.jsonl",
            strerror(errno));
    __fpurge(out); /* what lies there would be tried again, and fail, at the end */
    clearerr(out);
    s->silent = true;
    return DT_OK;
}

void dt_print_hashes(const dt_sink *s, const dt_end_record *end)
{
    if (end->ok)
        fprintf(s->setup->out, "weights hash %s\nstate hash   %s\n", end->weights_hash,
                end->state_hash);
}

const char *dt_float32_text(double x, char out[DT_FLOAT32_CHARS])
{
    const float f = (float)x;
    int digits = 1;

    if (!isfinite(f)) {
        snprintf(out, DT_FLOAT32_CHARS, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return out;
    }
    for (; digits <= 9; digits++) { /* 9 digits always give a float32 back */
        snprintf(out, DT_FLOAT32_CHARS, "%.*e", digits - 1, (double)f);
        if (strtof(out, NULL) == f)
            break;
    }
    const int exponent = (int)strtol(strchr(out, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) /* NumPy's bounds: 1e-05 and 1e+16 */
        return out;
    const int decimals = digits - 1 - exponent;
    snprintf(out, DT_FLOAT32_CHARS, "%.*f", decimals > 1 ? decimals : 1, (double)f);
    return out;
}

/* print.c - what the sinks that print share. */
#include "sink.h"

#include <errno.h>
#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <sys/ioctl.h>

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

void dt_print_epoch(const dt_sink *s, const dt_epoch_record *e, int64_t images)
{
    FILE *out = s->setup->out;

    fprintf(out, "epoch %lld/%lld: train loss %.4f, test loss %.4f, test accuracy %.2f %%, %.1f s",
            (long long)e->epoch, (long long)s->setup->epochs, e->train_loss, e->test_loss,
            100 * dt_test_accuracy(e), e->seconds);
    if (images > 0) /* a resumed run may have made a part of the epoch, or no step at all */
        fprintf(out, ", %.1f images/s", dt_images_per_s(images, e->seconds));
    fprintf(out, "\n");
}

dt_status dt_print_end(dt_sink *s, const dt_end_record *end)
{
    dt_print_hashes(s, end);
    if (end->ok)
        fprintf(s->setup->out, "%lld steps in %.1f s; the run is in %s\n", (long long)end->steps,
                end->seconds, end->folder);
    return dt_print_flush(s);
}

int64_t dt_print_columns(FILE *f)
{
    struct winsize size;
    return ioctl(fileno(f), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int64_t dt_print_epoch_steps(const dt_sink *s, int64_t epoch)
{
    const int64_t left = s->setup->total_steps - (epoch - 1) * s->setup->steps_per_epoch;
    return left < s->setup->steps_per_epoch ? left : s->setup->steps_per_epoch;
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

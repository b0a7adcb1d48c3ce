/* finite.c - NaN and infinities: all exponent bits set. */
#include "format.h"

enum { BLOCK_FLOATS = 1 << 14 };

/* Without a branch, so that it is as fast as memory. */
static bool block_is_finite(const float *x, size_t n)
{
    const uint32_t ones = 0x7f800000u;
    uint32_t bad = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bad |= (bits & ones) == ones;
    }
    return bad == 0;
}

size_t dt_finite_floats(const float *x, size_t n)
{
    size_t i = 0;

    while (i < n && block_is_finite(x + i, DT_MIN(BLOCK_FLOATS, n - i)))
        i += DT_MIN(BLOCK_FLOATS, n - i);
    while (i < n && block_is_finite(x + i, 1))
        i++;
    return i;
}

dt_status dt_finite_state(const dt_weights *s, const float *momentum, int64_t step)
{
    static const char *const what[] = {"weight", "momentum of", "running mean of",
                                       "running variance of"};
    const float *const numbers[] = {s->master, momentum, s->running_mean, s->running_var};
    const dt_net *net = s->net;
    char element[DT_ELEMENT_CHARS];

    for (size_t a = 0; a < DT_COUNT_OF(what); a++) {
        const bool params = a < 2;
        for (size_t i = 0; i < (params ? net->params : net->norms); i++) {
            const size_t offset = params ? net->param[i].offset : net->norm[i].offset;
            const size_t count = params ? net->param[i].count : net->norm[i].channels;
            const float *x = numbers[a] + offset;
            const size_t bad = dt_finite_floats(x, count);
            if (bad < count)
                return dt_fail(DT_NUMERIC,
                               "after step %lld the %s %s is %g; nothing of it is saved: lower "
                               "--lr or use --warmup",
                               (long long)step, what[a],
                               params ? dt_param_element(&net->param[i], bad, element)
                                      : dt_norm_element(&net->norm[i], bad, element),
                               dt_nan_unsigned((double)x[bad]));
        }
    }
    return DT_OK;
}

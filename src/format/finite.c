/* finite.c - NaN and infinities: all exponent bits set. */
#include "format.h"

enum { BLOCK_FLOATS = 1 << 14 };

/* ---- Floats ------------------------------------------------------------------------------ */

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

/* ---- A run's state ------------------------------------------------------------------------ */

static dt_status state_fail(int64_t step, const char *what, const char *element, float value)
{
    return dt_fail(DT_NUMERIC,
                   "after step %lld the %s %s is %g; nothing of it is saved: lower "
                   "--lr or use --warmup",
                   (long long)step, what, element, dt_nan_unsigned((double)value));
}

static dt_status check_params(const dt_net *net, const float *slab, const char *what, int64_t step)
{
    for (size_t i = 0; i < net->params; i++) {
        const dt_param *p = &net->param[i];
        const float *x = slab + p->offset;
        const size_t bad = dt_finite_floats(x, p->count);
        char element[DT_ELEMENT_CHARS];
        if (bad < p->count)
            return state_fail(step, what, dt_param_element(p, bad, element), x[bad]);
    }
    return DT_OK;
}

static dt_status check_norms(const dt_net *net, const float *values, const char *what, int64_t step)
{
    for (size_t i = 0; i < net->norms; i++) {
        const dt_norm *n = &net->norm[i];
        const float *x = values + n->offset;
        const size_t bad = dt_finite_floats(x, n->channels);
        char element[DT_ELEMENT_CHARS];
        if (bad < n->channels)
            return state_fail(step, what, dt_norm_element(n, bad, element), x[bad]);
    }
    return DT_OK;
}

dt_status dt_finite_state(const dt_weights *s, const float *momentum, int64_t step)
{
    DT_TRY(check_params(s->net, s->master, "weight", step));
    DT_TRY(check_params(s->net, momentum, "momentum of", step));
    DT_TRY(check_norms(s->net, s->running_mean, "running mean of", step));
    return check_norms(s->net, s->running_var, "running variance of", step);
}

/* finite.c - numbers that are none: an exponent of ones, whatever the type. */
#include "format.h"

#include <stdio.h>
#include <stdlib.h>

enum { BLOCK_FLOATS = 1 << 14, BLOCK_BYTES = 1 << 20 };

/* ---- Floats ------------------------------------------------------------------------------ */

/* Without a branch, so that it is as fast as memory; which one it is, is asked when one is. */
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

/* A block is looked at while the copy has it in the cache. */
bool dt_finite_copy(float *to, const float *from, size_t n)
{
    bool finite = true;

    for (size_t i = 0; i < n; i += BLOCK_FLOATS) {
        const size_t count = DT_MIN(BLOCK_FLOATS, n - i);
        memcpy(to + i, from + i, count * sizeof *to);
        finite = block_is_finite(to + i, count) && finite;
    }
    return finite;
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
    for (size_t i = 0; i < dt_net_param_count(net); i++) {
        const dt_param *p = dt_net_param(net, i);
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
    for (size_t i = 0; i < dt_net_norm_count(net); i++) {
        const dt_norm *n = dt_net_norm(net, i);
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

/* ---- Files ------------------------------------------------------------------------------- */

/* Types that can hold infinities or NaN by an exponent of ones. */
typedef struct finite_type {
    const char *dtype;
    size_t bytes;
    uint64_t ones;
} finite_type;

static const finite_type *type_find(const char *dtype)
{
    static const finite_type rows[] = {
        {"F64", 8, 0x7ff0000000000000u},
        {"F32", 4, 0x7f800000u},
        {"C64", 4, 0x7f800000u},
        {"BF16", 2, 0x7f80u},
        {"F16", 2, 0x7c00u},
        {"F8_E5M2", 1, 0x7cu},
    };
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++)
        if (strcmp(rows[i].dtype, dtype) == 0)
            return &rows[i];
    return NULL;
}

/* The first element of a block that is not finite; little-endian, as the files are. */
static size_t block_find(const finite_type *type, const void *block, size_t bytes)
{
    size_t i = 0;

    if (type->bytes == sizeof(float)) /* what our own files hold */
        return dt_finite_floats(block, bytes / sizeof(float));
    for (; i < bytes / type->bytes; i++) {
        uint64_t bits = 0;
        memcpy(&bits, (const char *)block + i * type->bytes, type->bytes);
        if ((bits & type->ones) == type->ones)
            break;
    }
    return i;
}

dt_status dt_finite_fail(const char *path, const dt_tensor *t, uint64_t element)
{
    char name[DT_QUOTED_CHARS];
    return dt_fail(DT_FORMAT, "%s: tensor %s: element %llu is not a finite number", path,
                   dt_quote(t->name, name), (unsigned long long)element);
}

/* The bytes of other types are read, too: they are there, and the disk gives them. */
static dt_status check_tensor(const dt_safetensors *f, const char *path, const dt_tensor *t,
                              void *block)
{
    const finite_type *type = type_find(t->dtype);

    for (uint64_t at = 0; at < t->bytes; at += BLOCK_BYTES) {
        const uint64_t left = t->bytes - at;
        const size_t bytes = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
        DT_TRY(dt_safetensors_read_part(f, t, at, bytes, block));
        const size_t bad = type ? block_find(type, block, bytes) : 0;
        if (type && bad < bytes / type->bytes)
            return dt_finite_fail(path, t, at / type->bytes + bad);
    }
    return DT_OK;
}

dt_status dt_finite_file(const dt_safetensors *f, const char *path)
{
    void *block = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&block, BLOCK_BYTES, 1, "reading tensors"));
    for (size_t i = 0; i < dt_safetensors_count(f) && st == DT_OK; i++)
        st = check_tensor(f, path, dt_safetensors_get(f, i), block);
    free(block);
    return st;
}

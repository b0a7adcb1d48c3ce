/* loops.c - the inner loops, see loops.h: those of forks, additions and ReLU here, the others in
 * loops_gelu.h, loops_norm.h and loops_pool.h, and the table. Compiled once for each instruction
 * set, under the names that loops_avx2.c and loops_avx512.c give. */
#include "loops_gelu.h"
#include "loops_norm.h"
#include "loops_pool.h"

#ifndef LOOPS_TABLE
#define LOOPS_TABLE dt_loops_portable
#define LOOPS_ISA "portable"
#endif

static inline void sum_as(const dt_call *c, const void *restrict a, const void *restrict b,
                          void *out, int64_t first, int64_t count, dt_dtype type)
{
    strip s;

    strip_begin(&s, out, &c->step->out_shape, type);
    for (int64_t at = first; at < first + count; at += STRIP) {
        const int64_t left = first + count - at, n = DT_MIN(left, STRIP);
        float *restrict to = strip_at(&s, at, type);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = get(a, at + i, type) + get(b, at + i, type);
        strip_put(&s, at, n, type);
    }
    strip_fence(&s);
}

static inline void fork_backward_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    sum_as(c, c->d_out, c->d_out2, c->d_in[0], first, count, type);
}

static inline void add_forward_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    sum_as(c, c->in[0], c->in[1], c->out, first, count, type);
}

static inline void add_backward_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    const size_t size = dt_dtype_bytes(type), at = (size_t)first * size;

    for (int k = 0; k < 2; k++)
        if (c->d_in[k])
            memcpy((char *)c->d_in[k] + at, (const char *)c->d_out + at, (size_t)count * size);
}

static inline void relu_forward_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    const void *restrict in = c->in[0];
    void *restrict out = c->out;

#pragma omp simd
    for (int64_t i = first; i < first + count; i++)
        put(out, i, relu(get(in, i, type)), type);
}

static inline void relu_backward_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    relu_mask(c->out, c->d_out, c->d_in[0], first, count, type);
}

#define X(name, items, needs)                                                                      \
    static void name(const dt_call *c, int64_t first, int64_t count)                               \
    {                                                                                              \
        if (c->step->grad_type == DT_BF16)                                                         \
            name##_as(c, first, count, DT_BF16);                                                   \
        else                                                                                       \
            name##_as(c, first, count, DT_F32);                                                    \
    }
DT_LOOP_LIST(X)
#undef X

const dt_loops LOOPS_TABLE = {.isa = LOOPS_ISA,
#define X(name, items, needs) .name = name,
                              DT_LOOP_LIST(X)
#undef X
};

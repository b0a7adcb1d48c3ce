/* loops.c - the inner loops, see loops.h: those of forks, additions and ReLU here, the others in
 * loops_gelu.h, loops_norm.h and loops_pool.h, and the table. Compiled once for each instruction
 * set, under the names that loops_avx2.c and its like give. */
#include "loops_gelu.h"
#include "loops_norm.h"
#include "loops_pool.h"

#ifndef LOOPS_TABLE
#define LOOPS_TABLE dt_loops_portable
#define LOOPS_ISA "portable"
#endif

static inline void sum_as(const dt_call *c, const void *a, const void *b, void *out, int64_t first,
                          int64_t count, dt_dtype type)
{
    const bool past = vec_past(&c->step->out_shape, type);
    vec v[2], w[2];

    for (int64_t at = first, n; at < first + count; at += n) {
        n = DT_MIN(first + count - at, PAIR);
        pair_get(a, at, n, v, type);
        pair_get(b, at, n, w, type);
        for (int h = 0; h < 2; h++)
            v[h] += w[h];
        pair_put(out, at, n, v, past, type);
    }
    dt_stream_fence();
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
    vec v[2];

    for (int64_t at = first, n; at < first + count; at += n) {
        n = DT_MIN(first + count - at, PAIR);
        pair_get(c->in[0], at, n, v, type);
        for (int h = 0; h < 2; h++)
            v[h] = vec_relu(v[h]);
        pair_put(c->out, at, n, v, false, type);
    }
}

static inline void relu_backward_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    vec v[2];

    for (int64_t at = first, n; at < first + count; at += n) {
        n = DT_MIN(first + count - at, PAIR);
        pair_get(c->d_out, at, n, v, type);
        pair_through(c->out, at, n, v, type);
        pair_put_exact(c->d_in[0], at, n, v, false, type);
    }
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

#define X(name)                                                                                    \
    static void name(const void *context, int64_t block, int64_t first, int64_t count, void *rows) \
    {                                                                                              \
        const dt_call *c = context;                                                                \
        if (c->step->grad_type == DT_BF16)                                                         \
            name##_as(c, block, first, count, rows, DT_BF16);                                      \
        else                                                                                       \
            name##_as(c, block, first, count, rows, DT_F32);                                       \
    }
X(norm_moments)
X(norm_sums)
#undef X

const dt_loops LOOPS_TABLE = {.isa = LOOPS_ISA,
#define X(name, items, needs) .name = name,
                              DT_LOOP_LIST(X)
#undef X
                                  .norm_sum = {norm_moments, norm_sums}};

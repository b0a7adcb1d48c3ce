/* loops_number.h - numbers of either type in the loops of loops.c; private to
 * src/model. `type` is a constant wherever these are used, so no loop asks for it. */
#ifndef DT_LOOPS_NUMBER_H
#define DT_LOOPS_NUMBER_H
#include "loops.h"

static inline float get(const void *x, int64_t i, dt_dtype type)
{
    return type == DT_BF16 ? dt_bf16_to_f32(((const dt_bf16 *)x)[i]) : ((const float *)x)[i];
}

static inline void put(void *x, int64_t i, float value, dt_dtype type)
{
    if (type == DT_BF16)
        ((dt_bf16 *)x)[i] = dt_f32_to_bf16(value);
    else
        ((float *)x)[i] = value;
}

/* A NaN passes: it must be seen. */
static inline float relu(float x)
{
    return x < 0 ? 0 : x;
}

static inline float relu_gradient(float y, float dy)
{
    return y <= 0 ? 0 : dy;
}

/* dx[i] = dy[i] where the ReLU that made y let it through; dx may be dy. In bf16 by their bits,
 * since nothing is rounded again: y <= 0 are zeros and negative numbers, but no NaN. */
static inline void relu_mask(const void *restrict y, const void *dy, void *dx, int64_t first,
                             int64_t count, dt_dtype type)
{
    if (type == DT_BF16) {
        const dt_bf16 *restrict bits = y, *from = dy;
        dt_bf16 *to = dx;
#pragma omp simd
        for (int64_t i = first; i < first + count; i++) {
            const bool stops = (bits[i] == 0) | ((bits[i] >= 0x8000) & (bits[i] <= 0xff80));
            to[i] = from[i] & (dt_bf16)(stops - 1);
        }
        return;
    }
#pragma omp simd
    for (int64_t i = first; i < first + count; i++)
        put(dx, i, relu_gradient(get(y, i, type), get(dy, i, type)), type);
}
#endif

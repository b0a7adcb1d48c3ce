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
#endif

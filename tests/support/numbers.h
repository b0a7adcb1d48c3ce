/* numbers.h - numbers of tensors of either type. */
#ifndef DT_TEST_NUMBERS_H
#define DT_TEST_NUMBERS_H
#include "test.h"

static inline double test_get(const void *x, size_t i, dt_dtype type)
{
    return type == DT_BF16 ? (double)dt_bf16_to_f32(((const dt_bf16 *)x)[i])
                           : (double)((const float *)x)[i];
}

static inline void test_put(void *x, size_t i, double value, dt_dtype type)
{
    if (type == DT_BF16)
        ((dt_bf16 *)x)[i] = dt_f32_to_bf16((float)value);
    else
        ((float *)x)[i] = (float)value;
}

/* count numbers as the type has them. */
static inline void test_round(void *to, const float *from, size_t count, dt_dtype type)
{
    for (size_t i = 0; i < count; i++)
        test_put(to, i, (double)from[i], type);
}
#endif

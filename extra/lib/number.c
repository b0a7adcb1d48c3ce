/* number.c - what can be done with numbers of each type: one row each, made of the type's name. */
#include "lib.h"

#include "compress/compress.h"

/* Neither traps nor depends on the order of its operands, but for which NaN it is. */
#define LESS(a, b) ((a) < (b) || (a) != (a) || ((a) == (b) && signbit_of(a)))
#define MORE(a, b) ((a) > (b) || (a) != (a) || ((a) == (b) && !signbit_of(a)))
#define signbit_of(a) (__builtin_signbit(a) != 0)

/* Unsigned arithmetic wraps, where signed one is undefined. */
#define INTEGER(name, type, wraps)                                                                 \
    DT_OPERATION(name##_sum, type, (type)((wraps)a + (wraps)b))                                    \
    DT_OPERATION(name##_prod, type, (type)((wraps)a * (wraps)b))                                   \
    DT_OPERATION(name##_min, type, a < b ? a : b)                                                  \
    DT_OPERATION(name##_max, type, a > b ? a : b)
#define REAL(name, type)                                                                           \
    DT_OPERATION(name##_sum, type, a + b)                                                          \
    DT_OPERATION(name##_prod, type, a *b)                                                          \
    DT_OPERATION(name##_min, type, LESS(a, b) ? a : b)                                             \
    DT_OPERATION(name##_max, type, MORE(a, b) ? a : b)                                             \
    static void name##_divide(void *to, size_t count, double by)                                   \
    {                                                                                              \
        type *x = to;                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            x[i] /= (type)by;                                                                      \
    }
INTEGER(int8, int8_t, uint8_t)
INTEGER(int32, int32_t, uint32_t)
INTEGER(int64, int64_t, uint64_t)
REAL(fp32, float)
REAL(fp64, double)

/* 0.5 has the last place of fp16's smallest numbers, so adding it rounds to them. */
static uint32_t f16_bits(float f)
{
    uint32_t bits, small;

    memcpy(&bits, &f, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u, x = bits & 0x7fffffffu;
    memcpy(&f, &x, sizeof f);
    f += 0.5f;
    memcpy(&small, &f, sizeof small);
    const uint32_t normal = (x - 0x38000000u + 0xfffu + (x >> 13 & 1u)) >> 13;
    const uint32_t number = x < 0x38800000u ? small - 0x3f000000u : normal;
    const uint32_t most = x > 0x7f800000u ? 0x7e00u | (x >> 13 & 0x3ffu) : 0x7c00u;
    return sign | (x >= 0x477ff000u ? most : number);
}

DT_CONVERSION(pack_f16, dt_f16, float, (dt_f16)f16_bits(x))
DT_CONVERSION(read_f16, float, dt_f16, dt_f16_to_f32(x))
static const dt_form form_f16 = {16, pack_f16, read_f16};

#define ROW(kind, name, type, form, wide_type, wide, divides)                                      \
    [kind] = {name,                                                                                \
              sizeof(type),                                                                        \
              form,                                                                                \
              {{sizeof(wide_type), wide##_sum},                                                    \
               {sizeof(wide_type), wide##_sum},                                                    \
               {sizeof(wide_type), wide##_prod},                                                   \
               {sizeof(wide_type), wide##_min},                                                    \
               {sizeof(wide_type), wide##_max}},                                                   \
              divides}
const dt_number dt_numbers[DTD_TYPES] = {
    ROW(DTD_I8, "int8", int8_t, NULL, int8_t, int8, NULL),
    ROW(DTD_I32, "int32", int32_t, NULL, int32_t, int32, NULL),
    ROW(DTD_I64, "int64", int64_t, NULL, int64_t, int64, NULL),
    ROW(DTD_F16, "fp16", dt_f16, &form_f16, float, fp32, fp32_divide),
    ROW(DTD_BF16, "bf16", dt_bf16, &dt_form_half, float, fp32, fp32_divide),
    ROW(DTD_F32, "fp32", float, NULL, float, fp32, fp32_divide),
    ROW(DTD_F64, "fp64", double, NULL, double, fp64, fp64_divide),
};

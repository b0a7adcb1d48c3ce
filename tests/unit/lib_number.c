/* lib_number.c - the rows of numbers: rounding to fp16 against the compiler's over all of float32,
 * reading all of fp16, and where operations have a choice: zeros, NaN, integers that wrap. */
#include "test.h"

#include "lib/lib.h"

enum { BLOCK = 4096 };
#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 997 };
#else
enum { STRIDE = 1 };
#endif

#if defined __x86_64__ && defined __FLT16_MAX__
__extension__ typedef _Float16 half;

/* With the instruction: the compiler's own function would take minutes. */
__attribute__((target("f16c"))) static bool f16_wrong(uint32_t from)
{
    float x[BLOCK];
    uint16_t got[BLOCK];

    for (uint32_t i = 0; i < BLOCK; i++)
        memcpy(&x[i], &(uint32_t){from + i}, sizeof *x);
    dt_numbers[DTD_F16].form->pack(got, x, BLOCK);
    for (size_t i = 0; i < BLOCK; i++) {
        const half want = (half)x[i];
        if (memcmp(&want, &got[i], sizeof want) != 0)
            return true;
    }
    return false;
}

TEST(fp16_is_rounded_like_the_compilers)
{
    int wrong = 0;

    if (!__builtin_cpu_supports("f16c"))
        test_skip("no F16C instructions");
#pragma omp parallel for reduction(+ : wrong)
    for (uint32_t block = 0; block < (1u << 20); block += STRIDE)
        wrong += f16_wrong(block * BLOCK);
    assert_int_equal(wrong, 0);
}
#else
TEST(fp16_is_rounded_like_the_compilers)
{
    test_skip("no _Float16");
}
#endif

/* min(x, x) reads both as float32. */
TEST(fp16_is_read_whole)
{
    for (uint32_t bits = 0; bits < 1u << 16; bits++) {
        const dt_f16 x = (dt_f16)bits;
        const float want = dt_f16_to_f32(x);
        float got = 0;
        dt_allreduce_pair(&dt_numbers[DTD_F16], DTD_MIN, &got, &x, &x, true, 1);
        if (memcmp(&got, &want, sizeof got) != 0)
            fail_msg("%04x is read as %a, not %a", bits, (double)got, (double)want);
    }
}

#define PAIR(number, op, type, left, right, want)                                                  \
    do {                                                                                           \
        const type l = (left), r = (right), w = (want);                                            \
        type got;                                                                                  \
        dt_allreduce_pair(&dt_numbers[DTD_##number], DTD_##op, &got, &l, &r, false, 1);            \
        assert_memory_equal(&got, &w, sizeof got);                                                 \
    } while (0)

TEST(integers_wrap)
{
    PAIR(I8, SUM, int8_t, 127, 2, -127);
    PAIR(I8, PROD, int8_t, -128, -1, -128);
    PAIR(I32, SUM, int32_t, INT32_MAX, INT32_MAX, -2);
    PAIR(I32, PROD, int32_t, 65537, 65537, 131073);
    PAIR(I64, SUM, int64_t, INT64_MIN, -1, INT64_MAX);
    PAIR(I64, PROD, int64_t, INT64_MAX, 2, -2);
    PAIR(I8, MIN, int8_t, -1, 1, -1);
    PAIR(I64, MAX, int64_t, INT64_MIN, 0, 0);
}

TEST(zeros_have_an_order)
{
    PAIR(F32, MIN, float, 0.0f, -0.0f, -0.0f);
    PAIR(F32, MIN, float, -0.0f, 0.0f, -0.0f);
    PAIR(F32, MAX, float, 0.0f, -0.0f, 0.0f);
    PAIR(F64, MAX, double, -0.0, 0.0, 0.0);
    PAIR(F64, MIN, double, -HUGE_VAL, 1, -HUGE_VAL);
}

/* At each place of vectors, and of what vectors leave. */
TEST(nan_passes)
{
    for (int at = 0; at < 37; at++)
        for (int op = 0; op < DTD_OPS; op++)
            for (int side = 0; side < 2; side++) {
                float x[2][37], got[37];
                for (int i = 0; i < 37; i++)
                    x[0][i] = x[1][i] = 1;
                x[side][at] = NAN;
                dt_allreduce_pair(&dt_numbers[DTD_F32], op, got, x[0], x[1], false, 37);
                for (int i = 0; i < 37; i++)
                    assert_int_equal(isnan(got[i]) != 0, i == at);
            }
}

/* base_number.c - bf16 and binary16 by the definition of their values, and merged moments. */
#include "test.h"

/* |x| by the format: so many bits of fraction, the exponent above them with its bias. The exponent
 * of infinities counts on, so the value after bf16's largest is 2^128. */
static double magnitude(unsigned x, int fraction_bits, int bias)
{
    const int exponent = (int)(x & 0x7fff) >> fraction_bits;
    const int fraction = (int)x & ((1 << fraction_bits) - 1);

    return exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                         : ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

static double bf16_magnitude(unsigned x)
{
    return magnitude(x, 7, 127);
}

TEST(every_16_bit_float_has_its_value)
{
    for (unsigned x = 0; x <= 0xffff; x++) {
        const float both[] = {dt_bf16_to_f32((dt_bf16)x), dt_f16_to_f32((dt_f16)x)};
        const double want[] = {bf16_magnitude(x), magnitude(x, 10, 15)};
        const unsigned infinity[] = {0x7f80, 0x7c00}, bits = x & 0x7fff;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(signbit(both[i]) != 0, x >> 15);
            if (bits >= infinity[i])
                assert_true(bits > infinity[i] ? isnan(both[i]) : isinf(both[i]));
            else
                assert_true(fabs((double)both[i]) == want[i]);
        }
    }
}

#ifdef __x86_64__
#include <xmmintrin.h>

/* As in a program that is linked with -ffast-math. */
TEST(fp16_is_read_where_subnormals_are_flushed)
{
    unsigned wrong = 0, mode = _mm_getcsr();

    _mm_setcsr(mode | 0x8040);
    for (unsigned x = 0; x < 0x7c00; x++)
        wrong += (double)dt_f16_to_f32((dt_f16)x) != magnitude(x, 10, 15);
    _mm_setcsr(mode);
    assert_int_equal(wrong, 0);
}
#endif

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* All floats whose upper half is `upper` (not NaN, not infinite) lie between the bf16
 * `upper` and the next one away from zero. The nearer one is right; in the middle, the
 * one whose last bit is 0. Returns the number of wrong answers. */
static unsigned wrong_between(uint32_t upper, uint32_t stride)
{
    const double low = bf16_magnitude(upper), high = bf16_magnitude(upper + 1);
    const double middle = (low + high) / 2; /* exact: 9 bits */
    const uint32_t even = upper + (upper & 1);
    unsigned wrong = 0;
    for (uint32_t lower = 0; lower <= 0xffff; lower += stride) {
        const float f = float_of(upper << 16 | lower);
        const double x = fabs((double)f);
        const uint32_t right = x < middle ? upper : x > middle ? upper + 1 : even;
        wrong += dt_f32_to_bf16(f) != right;
    }
    return wrong;
}

static unsigned wrong_nans(uint32_t upper, uint32_t stride)
{
    unsigned wrong = 0;
    const bool infinite = (upper & 0x7fff) == 0x7f80; /* infinite when lower is 0 */
    for (uint32_t lower = infinite; lower <= 0xffff; lower += stride) {
        const unsigned b = dt_f32_to_bf16(float_of(upper << 16 | lower));
        wrong += (b & 0x7fff) <= 0x7f80 || b >> 15 != upper >> 15;
    }
    return wrong + (infinite && dt_f32_to_bf16(float_of(upper << 16)) != upper);
}

TEST(every_float_is_rounded_to_even)
{
#ifdef __SANITIZE_ADDRESS__
    const uint32_t stride = 64; /* slow there; the middle, 0x8000, is among them */
#else
    const uint32_t stride = 1; /* all 2^32 */
#endif
    unsigned wrong = 0;
#pragma omp parallel for reduction(+ : wrong)
    for (uint32_t upper = 0; upper <= 0xffff; upper++)
        wrong +=
            (upper & 0x7fff) >= 0x7f80 ? wrong_nans(upper, stride) : wrong_between(upper, stride);
    assert_int_equal(wrong, 0);
    assert_int_equal(dt_f32_to_bf16(0x1.fffffep127f), 0x7f80); /* to infinity */
}

/* Numbers far from zero, where sums of squares would lose everything. */
static double number(unsigned i)
{
    return 1e8 + (double)(i * 7919u % 1000u) / 8;
}

/* By the tree over [begin, end), as the trainer merges. */
static dt_moment moment_of(unsigned begin, unsigned end)
{
    if (begin == end)
        return (dt_moment){.count = 0, .mean = (double)NAN, .m2 = (double)NAN};
    if (end - begin == 1)
        return (dt_moment){.count = 1, .mean = number(begin), .m2 = 0};
    const unsigned middle = begin + (end - begin) / 2;
    return dt_moment_merge(moment_of(begin, middle), moment_of(middle, end));
}

TEST(merged_moments_are_those_of_the_whole)
{
    static const unsigned counts[] = {1, 2, 3, 7, 1000, 4099};
    for (size_t i = 0; i < DT_COUNT_OF(counts); i++) {
        const unsigned n = counts[i];
        long double mean = 0, m2 = 0; /* two passes */
        for (unsigned k = 0; k < n; k++)
            mean += (long double)number(k) / n;
        for (unsigned k = 0; k < n; k++)
            m2 += ((long double)number(k) - mean) * ((long double)number(k) - mean);
        const dt_moment m = moment_of(0, n);
        assert_true(m.count == n);
        /* 12 levels of roundings of 1e8 * 2^-53 each in the mean; the deviations, up to
         * 125, have the same error, so m2 is good to 1e-7 * 2 * 125 a term. */
        assert_true(fabsl(mean - (long double)m.mean) < 2e-7L);
        assert_true(fabsl(m2 - (long double)m.m2) < 2.5e-5L * n);
        const dt_moment none = moment_of(3, 3),
                        both[] = {dt_moment_merge(m, none), dt_moment_merge(none, m)};
        for (int k = 0; k < 2; k++) /* empty ones are passed over */
            assert_memory_equal(&both[k], &m, sizeof m);
    }
}

/* ---- Numbers as text ------------------------------------------------------------------ */

TEST(decimal_numbers_are_read_up_to_what_follows)
{
    static const struct {
        const char *text, *rest;
        double value;
    } good[] = {{"0", "", 0},         {"16", "", 16},      {"010", "", 10},  {"-7:1", ":1", -7},
                {"12s", "s", 12},     {"3,4", ",4", 3},    {"1e2", "", 100}, {".5", "", 0.5},
                {"5.", "", 5},        {"-0.25", "", -.25}, {"+2", "", 2},    {"0e-400", "", 0},
                {"1.5e3m", "m", 1500}};
    const char *end;
    int64_t whole;
    double real;

    for (size_t i = 0; i < DT_COUNT_OF(good); i++) {
        assert_true(dt_real_parse(good[i].text, &end, &real));
        assert_true(real == good[i].value);
        assert_string_equal(end, good[i].rest);
        if (!strpbrk(good[i].text, ".e+")) {
            assert_true(dt_whole_parse(good[i].text, &end, &whole));
            assert_true(whole == (int64_t)good[i].value);
            assert_string_equal(end, good[i].rest);
        }
    }
    assert_true(dt_whole_parse("-9223372036854775808", &end, &whole));
    assert_true(whole == INT64_MIN);
}

TEST(other_spellings_of_numbers_are_refused)
{
    static const char *const bad[] = {
        "",         " 1",  "\t1",  "\n1",  "x",    "-",     "+",    "--1", "inf", "-inf", "+INF",
        "infinity", "nan", "-nan", "0x10", "-0x1", "0X1p3", "+0x1", "- 1", ".",   "e5",   "nan(1)"};
    static const char *const more[] = {"+1", ".5", "9223372036854775808", "-9223372036854775809"};
    const char *end;
    int64_t whole;
    double real;

    for (size_t i = 0; i < DT_COUNT_OF(bad); i++) {
        const bool hex = strpbrk(bad[i], "xX") != NULL && strlen(bad[i]) > 1;
        assert_false(dt_real_parse(bad[i], &end, &real));
        /* a whole number ends at the x, which no caller takes for what follows */
        if (!hex)
            assert_false(dt_whole_parse(bad[i], &end, &whole));
    }
    for (size_t i = 0; i < DT_COUNT_OF(more); i++)
        assert_false(dt_whole_parse(more[i], &end, &whole));
    static const char *const beyond[] = {"1e400",   "-1e400",   "1e-400",
                                         "-1e-400", "4.9e-324", "1e-310"};
    for (size_t i = 0; i < DT_COUNT_OF(beyond); i++)
        assert_false(dt_real_parse(beyond[i], &end, &real));
    assert_true(
        dt_real_parse("2.2250738585072014e-308", &end, &real)); /* the least of full digits */
}

TEST(a_nan_has_no_sign)
{
    const double nans[] = {(double)NAN, -(double)NAN};
    char text[16];

    for (size_t i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%g", dt_nan_unsigned(nans[i]));
        assert_string_equal(text, "nan");
    }
    assert_true(dt_nan_unsigned(-2) < -1 && dt_nan_unsigned(-(double)INFINITY) < 0);
}

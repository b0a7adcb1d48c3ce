/* base_elementary.c - exp, log and cosine: within 1.5 units (cosine: 2.5) of the last place of
 * long double's, special values, and the same bits as where the hash below was made. */
#include "test.h"
#include <float.h>

/* |x - exact| in units of exact's last place as a double. */
static double units(double x, long double exact)
{
    int exponent;
    frexpl(exact, &exponent);
    exponent = exponent < DBL_MIN_EXP ? DBL_MIN_EXP : exponent;
    return (double)(fabsl((long double)x - exact) / ldexpl(1, exponent - DBL_MANT_DIG));
}

/* Numbers in [lo, hi), alike every time. */
static double between(double lo, double hi, uint64_t i)
{
    uint32_t bits[4];
    dt_random(1, DT_STREAM_INIT, 0, i, 0, bits);
    return lo + (hi - lo) * ((double)bits[0] * 0x1p-32 + (double)bits[1] * 0x1p-64);
}

enum { TRIES = 200000 };

static double same(double x)
{
    return x;
}

static long double exact_cos(long double x)
{
    return cosl(8 * atanl(1) * x);
}

TEST(errors_are_small)
{
    static const struct {
        double (*ours)(double);
        long double (*exact)(long double);
        double (*argument)(double); /* of a number between these: */
        double from[4][2], units;
    } rows[] = {
        {dt_exp, expl, same, {{-1e-3, 1e-3}, {-1, 1}, {-40, 0}, {-700, 709}}, 1.5},
        {dt_log, logl, exp2, {{-0.01, 0.01}, {-1, 1}, {-32, 0}, {-1070, 1023}}, 1.5},
        {dt_cos_turns, exact_cos, same, {{0, 1}, {-0.5, 0.5}, {0, 1e-4}, {-3, 3}}, 2.5},
    };

    for (size_t r = 0; r < DT_COUNT_OF(rows); r++)
        for (uint64_t i = 0; i < 4 * TRIES; i++) {
            const double *from = rows[r].from[i % 4];
            const double x = rows[r].argument(between(from[0], from[1], i / 4));
            const long double exact = rows[r].exact((long double)x);
            /* near a zero of the cosine this measures long double's argument, not us */
            if (rows[r].ours != dt_cos_turns || fabsl(exact) > 0x1p-8L)
                assert_true(units(rows[r].ours(x), exact) < rows[r].units);
        }
}

TEST(special_values)
{
    assert_true(dt_exp(0) == 1 && dt_exp(-0.0) == 1);
    assert_true(dt_exp(-HUGE_VAL) == 0 && dt_exp(-1e9) == 0 && dt_exp(-746) == 0);
    assert_true(dt_exp(HUGE_VAL) == HUGE_VAL && dt_exp(710) == HUGE_VAL);
    assert_true(dt_exp(-745) == 0x1p-1074 && isfinite(dt_exp(709.78)));
    assert_true(isnan(dt_exp((double)NAN)) && isnan(dt_log((double)NAN)));
    assert_true(dt_log(1) == 0 && dt_log(0) == -HUGE_VAL && dt_log(-0.0) == -HUGE_VAL);
    assert_true(isnan(dt_log(-1)) && dt_log(HUGE_VAL) == HUGE_VAL);
    assert_true(dt_cos_turns(0) == 1 && dt_cos_turns(0.5) == -1 && dt_cos_turns(-7) == 1);
    assert_true(dt_cos_turns(0.25) == 0 && dt_cos_turns(0.75) == 0);
    assert_true(isnan(dt_cos_turns(HUGE_VAL)) && isnan(dt_cos_turns((double)NAN)));
}

/* A hash of many results: another CPU or compiler has the same. */
TEST(bits_are_recorded)
{
    dt_hash h;
    char text[DT_DIGEST_CHARS];

    dt_hash_init(&h);
    for (uint64_t i = 0; i < TRIES; i++) {
        const double x[3] = {dt_exp(between(-745, 710, i)), dt_log(between(0, 100, i)),
                             dt_cos_turns(between(-2, 2, i))};
        dt_hash_update(&h, x, sizeof x);
    }
    dt_digest_text(dt_hash_digest(&h), text);
    assert_string_equal(text, "2f6693b81d8b7025f6c34bb8e632ae01");
}

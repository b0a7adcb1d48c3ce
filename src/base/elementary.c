/* elementary.c - exp, log and cosine from additions and multiplications alone, which every CPU
 * and compiler rounds alike (IEEE 754, nothing contracted): libraries' own differ in last bits.
 * Their frexp and ldexp are exact.
 *
 * The argument is reduced to an interval so short that a power series (Abramowitz & Stegun,
 * Handbook of Mathematical Functions, 4.2.1, 4.1.27, 4.3.65 and 4.3.66) is cut below half a unit
 * of a double's last place: the bound of the first term left out stands beside each. Largest errors
 * found, in units of the last place: 1.2, 0.984 (log of 0.7070159913411015) and 2.31 (cosine of
 * 0.20985599374959543 turns). */
#include "base.h"

/* log(2) in two parts: the first ends in 20 zero bits, so that its product with an
 * exponent is exact. (0.693147180559945309417232121458176568.) */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
static const double inverse_ln2 = 0x1.71547652b82fep+0;
static const double pi = 0x1.921fb54442d18p+1;

/* x = k ln 2 + r with |r| <= 0.347; terms up to r^13 / 13!: 0.347^14 / 14! < 5e-18. */
double dt_exp(double x)
{
    enum { TERMS = 13 };
    double sum = 1;

    if (isnan(x))
        return x;
    if (x > 709.79) /* beyond a double */
        return HUGE_VAL;
    if (x < -745.14) /* below half of the least one */
        return 0;
    const int k = (int)(x * inverse_ln2 + (x < 0 ? -0.5 : 0.5));
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    for (int n = TERMS; n > 0; n--) /* Horner: 1 + r/1 (1 + r/2 (1 + ...)) */
        sum = 1 + r / n * sum;
    return ldexp(sum, k);
}

/* x = 2^k m with m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1), |s| <= 0.1716;
 * log m = 2 (s + s^3/3 + ... + s^21/21), left out: 2 s^23 / 23 / (1 - s^2) < 3e-19. */
double dt_log(double x)
{
    enum { LAST = 21 };
    int k = 0;

    if (isnan(x) || x == HUGE_VAL)
        return x;
    if (x <= 0)
        return x < 0 ? (double)NAN : -HUGE_VAL;
    double m = frexp(x, &k), sum = 0; /* from 1/2 on */
    if (m <= 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        k--;
    }
    const double f = m - 1, s = f / (m + 1), square = s * s;
    for (int n = LAST; n > 1; n -= 2)
        sum = (sum + 1.0 / n) * square;
    /* 2 s has been rounded twice, but is f - s f, and f is exact. */
    return k * LN2_HIGH + (f - (s * (f - 2 * sum) - k * LN2_LOW));
}

/* cos(2 pi turns). The turn is reduced to an eighth without rounding; up to a^16 / 16! and
 * a^17 / 17!, |a| <= pi / 4: (pi/4)^18 / 18! < 3e-18. */
double dt_cos_turns(double turns)
{
    enum { TERMS = 8 };

    if (!(fabs(turns) < 0x1p52))
        return isfinite(turns) ? 1 : (double)NAN; /* a whole number of turns */
    double part = fabs(turns);
    part -= (double)(int64_t)part;
    if (part > 0.5)
        part = 1 - part;
    const bool negative = part > 0.25;
    if (negative) /* cos(pi - a) = -cos(a) */
        part = 0.5 - part;
    const bool sine = part > 0.125;
    const double a = 2 * pi * (sine ? 0.25 - part : part), square = a * a;
    double sum = 1;
    for (int n = TERMS; n > 0; n--)
        sum = 1 - square / (sine ? 2 * n * (2 * n + 1) : 2 * n * (2 * n - 1)) * sum;
    const double value = sine ? a * sum : sum;
    return negative ? -value : value;
}

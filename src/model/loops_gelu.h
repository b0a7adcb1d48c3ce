/* loops_gelu.h - the part of loops.c for GELU, x P(x) with the normal distribution function P
 * (Hendrycks & Gimpel 2016, section 2); private to src/model.
 *
 * Float32 additions, multiplications and a division, in this order, on all CPUs. Largest errors
 * found: P 3.3e-7, x P(x) 1.1e-7 (1 + |x|), its derivative 3.4e-7. */
#ifndef DT_LOOPS_GELU_H
#define DT_LOOPS_GELU_H
#include "loops_vector.h"

/* e^-u for u >= 0: u = k ln 2 - r with |r| <= 0.35, and terms up to r^7 / 7! (Abramowitz & Stegun,
 * Handbook of Mathematical Functions, 4.2.1); left out: 0.35^8 / 8! < 6e-9. ln 2 is in two parts,
 * the first of 16 bits: its product with k is exact. 2^k is made in two parts, since 2^-150 is no
 * float. u is at most 104, which gives 0, and a NaN becomes that: bits of positive floats have
 * their order, and a compiler makes vectors of a minimum of integers, but not of a branch. */
static inline float gelu_exp(float u)
{
    const uint32_t most = 0x42d00000;
    uint32_t bits;
    float v, power[2];

    memcpy(&bits, &u, sizeof bits);
    bits = DT_MIN(bits, most);
    memcpy(&v, &bits, sizeof v);
    const int32_t k = (int32_t)(v * 0x1.715476p+0f + 0.5f), half = k / 2;
    const float r = ((float)k * 0x1.62e4p-1f - v) + (float)k * 0x1.7f7d1cp-20f;
    const uint32_t parts[2] = {(uint32_t)(127 - half) << 23, (uint32_t)(127 - (k - half)) << 23};
    memcpy(&power[0], &parts[0], sizeof power[0]);
    memcpy(&power[1], &parts[1], sizeof power[1]);
    float sum = r * (1 / 5040.0f) + 1 / 720.0f;
    sum = sum * r + 1 / 120.0f;
    sum = sum * r + 1 / 24.0f;
    sum = sum * r + 1 / 6.0f;
    sum = sum * r + 0.5f;
    sum = sum * r + 1;
    sum = sum * r + 1;
    return sum * power[0] * power[1];
}

/* P(x), and e^(-x^2 / 2) to *bell. With z = |x| / sqrt(2) the tail beyond |x| is erfc(z) / 2, which
 * Abramowitz & Stegun, 7.1.26, give as e^(-z^2) (a1 t + ... + a5 t^5) / 2 within 1.5e-7 / 2, where
 * t = 1 / (1 + 0.3275911 z). */
static inline float gelu_p(float x, float *bell)
{
    const float t = 1 / (1 + (float)(0.3275911 * 0.7071067811865476) * fabsf(x));
    float sum = 1.061405429f * t - 1.453152027f;

    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    *bell = gelu_exp(0.5f * x * x);
    const float tail = 0.5f * (sum * t) * *bell;
    return x < 0 ? tail : 1 - tail;
}

/* x P(x), or (`back`, a constant) dy times its derivative P(x) + x e^(-x^2 / 2) / sqrt(2 pi). */
static inline __attribute__((always_inline)) void
gelu_as(const dt_call *c, bool back, int64_t first, int64_t count, dt_dtype type)
{
    enum { SOME = 512 };
    const void *restrict in = c->in[0], *restrict dy = c->d_out;
    void *out = back ? c->d_in[0] : c->out;
    const bool past = vec_past(&c->step->out_shape, type);
    float to[SOME];
    vec v[2];

    for (int64_t at = first, n; at < first + count; at += n) {
        n = DT_MIN(first + count - at, SOME);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float x = get(in, at + i, type);
            float bell;
            const float p = gelu_p(x, &bell);
            to[i] = back ? get(dy, at + i, type) * (p + x * (bell * 0x1.988454p-2f)) : x * p;
        }
        for (int64_t i = 0; i < n; i += PAIR) {
            const int64_t some = DT_MIN(n - i, PAIR);
            pair_get(to, i, some, v, DT_F32);
            pair_put(out, at + i, some, v, past, type);
        }
    }
    dt_stream_fence();
}

static inline void gelu_forward_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    gelu_as(c, false, first, count, type);
}

static inline void gelu_backward_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    gelu_as(c, true, first, count, type);
}
#endif

/* backend_dot_fma.c - the bits of VDPBF16PS by AVX-512's fused multiply-adds: for CPUs without the
 * instruction, and for Intel's, which multiply twice as fast without it.
 *
 * It adds the odd places of all pairs first, then the even ones, each by a fused multiply-add that
 * rounds to nearest even, reads denormals as zero and flushes denormal results (Intel SDM, volume
 * 2, VDPBF16PS). */
#define REGISTERS_STEP
#include "registers.h"

enum { HALVES_FLUSH = 0x9fc0 /* denormals are zero, nearest, no traps */ };

static inline __m512 halves_even(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}

static inline __m512 halves_odd(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)));
}

/* The rows go to memory as float32 first, from where a number is loaded into all lanes. */
static inline void registers_step(__m512 s[REGISTERS_ROWS][2], const char *a, size_t row,
                                  size_t place, const char *b)
{
    _Alignas(64) float x[REGISTERS_ROWS][DT_TILE];

    (void)place;
#pragma GCC unroll 8
    for (int r = 0; r < REGISTERS_ROWS; r++) {
        const __m512i pairs = _mm512_loadu_si512(a + (size_t)r * row);
        _mm512_store_ps(x[r], halves_odd(pairs));
        _mm512_store_ps(x[r] + 16, halves_even(pairs));
    }
    for (int p = 0; p < 16; p++) {
        const __m512i b0 = _mm512_load_si512(b + p * 64);
        const __m512i b1 = _mm512_load_si512(b + p * 64 + DT_TILE_HALF);
        const __m512 odd0 = halves_odd(b0), odd1 = halves_odd(b1);
        const __m512 even0 = halves_even(b0), even1 = halves_even(b1);
#pragma GCC unroll 8
        for (int r = 0; r < REGISTERS_ROWS; r++) {
            const __m512 odd = _mm512_set1_ps(x[r][p]), even = _mm512_set1_ps(x[r][p + 16]);
            s[r][0] = _mm512_fmadd_ps(odd, odd0, s[r][0]);
            s[r][1] = _mm512_fmadd_ps(odd, odd1, s[r][1]);
            s[r][0] = _mm512_fmadd_ps(even, even0, s[r][0]);
            s[r][1] = _mm512_fmadd_ps(even, even1, s[r][1]);
        }
    }
}

static void halves_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                            const dt_tile_out *out)
{
    const unsigned mxcsr = _mm_getcsr();

    _mm_setcsr(HALVES_FLUSH);
    registers_multiply(sums, run, runs, rows, fresh, NULL);
    _mm_setcsr(mxcsr);
    if (out)
        lanes_finish(out, sums);
}

const dt_tile_backend dt_tile_backend_dot_fma = {
    .name = "dot_fma",
    .type = DT_BF16,
    .isa = DT_ISA_AVX512,
    .chunk = INT_MAX,
    .product = 2,
    .multiply = halves_multiply,
    LANES_WORK,
};

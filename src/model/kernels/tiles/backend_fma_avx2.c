/* backend_fma_avx2.c - products of tiles in float32 by AVX2's FMA: see backend.h. */
#if defined(__x86_64__)
#include "floats.h"

#include <immintrin.h>

/* 8 chains hide the latency of 4 cycles on two units, and leave registers for what is loaded. */
enum { YMM_ROWS = 4 };

static inline __attribute__((always_inline)) void ymm_step(__m256 s[YMM_ROWS][2], const char *a,
                                                           size_t row, size_t place, const float *b)
{
#pragma GCC unroll 4
    for (int p = 0; p < DT_TILE; p++, b += DT_TILE) {
        const __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
#pragma GCC unroll 4
        for (int r = 0; r < YMM_ROWS; r++) {
            float one;
            memcpy(&one, a + (size_t)r * row + (size_t)p * place, sizeof one);
            const __m256 x = _mm256_set1_ps(one);
            s[r][0] = _mm256_fmadd_ps(x, b0, s[r][0]);
            s[r][1] = _mm256_fmadd_ps(x, b1, s[r][1]);
        }
    }
}

/* As registers_run: `place` is a constant in each loop. */
static inline void ymm_run(__m256 s[YMM_ROWS][2], const dt_tile_run *run, int first, int half)
{
    const char *a = (const char *)run->a + (size_t)first * run->row;
    const float *b = (const float *)run->b + 16 * half;

    if (run->place == 4)
        for (int k = 0; k < run->steps; k++, a += run->step, b += DT_TILE_AREA)
            ymm_step(s, a, run->row, 4, b);
    else
        for (int k = 0; k < run->steps; k++, a += run->step, b += DT_TILE_AREA)
            ymm_step(s, a, 4, 128, b);
}

/* Rows [first, first + YMM_ROWS), columns [16 * half, 16 * half + 16). */
static inline void ymm_rows(float *sums, const dt_tile_run *run, int runs, int first, int half,
                            bool fresh)
{
    __m256 s[YMM_ROWS][2];

    sums += first * DT_TILE + half * 16;
#pragma GCC unroll 4
    for (int r = 0; r < YMM_ROWS; r++)
        for (int v = 0; v < 2; v++)
            s[r][v] = fresh ? _mm256_setzero_ps() : _mm256_load_ps(sums + r * DT_TILE + 8 * v);
    for (; runs > 0; runs--, run++)
        ymm_run(s, run, first, half);
#pragma GCC unroll 4
    for (int r = 0; r < YMM_ROWS; r++)
        for (int v = 0; v < 2; v++)
            _mm256_store_ps(sums + r * DT_TILE + 8 * v, s[r][v]);
}

static void ymm_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                         const dt_tile_out *out)
{
    for (int half = 0; half < 2; half++)
        for (int r = 0; r < rows; r += YMM_ROWS)
            ymm_rows(sums, run, runs, r, half, fresh);
    if (out)
        plain_finish(out, sums);
}

const dt_tile_backend dt_tile_backend_fma_avx2 = {
    .name = "fma_avx2",
    .type = DT_F32,
    .isa = DT_ISA_AVX2,
    .chunk = 8,
    .product = 4,
    .begin = plain_nothing,
    .end = plain_nothing,
    .multiply = ymm_multiply,
    FLOATS_WORK,
};
#endif

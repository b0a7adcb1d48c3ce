/* backend_fma_avx2.c - products of tiles in float32 by AVX2's FMA: see backend.h. */
#if defined(__x86_64__)
#include "floats.h"

#include <immintrin.h>

/* 8 chains hide the latency of 4 cycles on two units, and leave registers for what is loaded.
 * Each step's operands are read 8 and 2 times, so as many steps are multiplied at a time as stay
 * in the first-level cache beside the sums. */
enum { YMM_ROWS = 4, YMM_STEPS = 3 };

typedef struct ymm_steps {
    const char *a[YMM_STEPS];
    const float *b[YMM_STEPS];
    int count;
} ymm_steps;

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

/* Rows [first, first + YMM_ROWS), columns [half, half + 16). As in registers_run, `place`
 * is a constant in each loop. */
static inline void ymm_rows(float *sums, const ymm_steps *steps, size_t row, size_t place,
                            size_t first, size_t half, bool fresh)
{
    __m256 s[YMM_ROWS][2];

    sums += first * DT_TILE + half;
#pragma GCC unroll 4
    for (int r = 0; r < YMM_ROWS; r++)
        for (int v = 0; v < 2; v++)
            s[r][v] = fresh ? _mm256_setzero_ps() : _mm256_load_ps(sums + r * DT_TILE + 8 * v);
    if (place == 4)
        for (int k = 0; k < steps->count; k++)
            ymm_step(s, steps->a[k] + first * row, row, 4, steps->b[k] + half);
    else
        for (int k = 0; k < steps->count; k++)
            ymm_step(s, steps->a[k] + first * 4, 4, 128, steps->b[k] + half);
#pragma GCC unroll 4
    for (int r = 0; r < YMM_ROWS; r++)
        for (int v = 0; v < 2; v++)
            _mm256_store_ps(sums + r * DT_TILE + 8 * v, s[r][v]);
}

/* As plain_finish, whole rows at a time. */
static void ymm_finish(const dt_tile_out *o, const float *sums)
{
    if (o->channels < DT_TILE || o->type != DT_F32) {
        plain_finish(o, sums);
        return;
    }
    for (int r = 0; r < DT_TILE; r++, sums += DT_TILE) {
        const ptrdiff_t at = dt_tile_place(o, r);
        for (int v = 0; at >= 0 && v < DT_TILE; v += 8) {
            float *to = (float *)(void *)((char *)o->at + at);
            __m256 sum = _mm256_load_ps(sums + v);
            if (o->bias)
                sum = _mm256_add_ps(sum, _mm256_loadu_ps(o->bias + v));
            if (o->stream)
                _mm256_stream_ps(to + v, sum);
            else
                _mm256_storeu_ps(to + v, sum);
        }
    }
}

/* All runs have the rows and places of the first. */
static void ymm_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                         const dt_tile_out *out)
{
    const size_t row = runs ? run->row : 0, place = runs ? run->place : 4;
    int k = 0;

    do {
        ymm_steps steps = {.count = 0};
        while (runs > 0 && steps.count < YMM_STEPS) {
            steps.a[steps.count] = (const char *)run->a + (size_t)k * run->step;
            steps.b[steps.count++] = (const float *)run->b + (size_t)k * DT_TILE_AREA;
            if (++k == run->steps)
                run++, runs--, k = 0;
        }
        for (size_t half = 0; half < DT_TILE; half += 16)
            for (int r = 0; r < rows; r += YMM_ROWS)
                ymm_rows(sums, &steps, row, place, (size_t)r, half, fresh);
        fresh = false;
    } while (runs > 0);
    if (out)
        ymm_finish(out, sums);
}

const dt_tile_backend dt_tile_backend_fma_avx2 = {
    .name = "fma_avx2",
    .type = DT_F32,
    .isa = DT_ISA_AVX2,
    .chunk = 8,
    .product = 4,
    .begin = dt_tile_nothing,
    .end = dt_tile_nothing,
    .multiply = ymm_multiply,
    FLOATS_WORK,
};
#endif

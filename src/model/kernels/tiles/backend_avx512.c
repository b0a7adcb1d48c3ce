/* backend_avx512.c - products of tiles by AVX-512, with the bits of the AMX unit: see backend.h. */
#include "lanes.h"

/* 4 rows of 2 x 16 sums, and the two chains of each. */
enum { PAIR_ROWS = 4, FLUSH_TO_ZERO = 0x9fc0 /* denormals are zero, nearest, no traps */ };

/* A row's chains begin at +0 in each step, so NaN shows in the sums; such rows are done again. */
static void pair_settle(float *sums, __m512 even, __m512 odd, const void *a, const void *b)
{
    const __m512 s = _mm512_add_ps(_mm512_load_ps(sums), _mm512_add_ps(even, odd));

    if (_mm512_cmp_ps_mask(s, s, _CMP_UNORD_Q) == 0) {
        _mm512_store_ps(sums, s);
        return;
    }
    const unsigned flush = _mm_getcsr();
    _mm_setcsr(0x1f80); /* plain C is not to flush by itself */
    dt_tile_row_exact(sums, a, b);
    _mm_setcsr(flush);
}

static inline void pair_rows(float *sums, const char *a, size_t row, const char *b)
{
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);
    __m512 even[PAIR_ROWS][2], odd[PAIR_ROWS][2];

#pragma GCC unroll 4
    for (int r = 0; r < PAIR_ROWS; r++)
        even[r][0] = even[r][1] = odd[r][0] = odd[r][1] = _mm512_setzero_ps();
    for (int p = 0; p < 16; p++) {
        const __m512i w0 = _mm512_load_si512(b + p * 64);
        const __m512i w1 = _mm512_load_si512(b + p * 64 + DT_TILE_HALF);
        const __m512 even0 = _mm512_castsi512_ps(_mm512_slli_epi32(w0, 16));
        const __m512 even1 = _mm512_castsi512_ps(_mm512_slli_epi32(w1, 16));
        const __m512 odd0 = _mm512_castsi512_ps(_mm512_and_si512(w0, high));
        const __m512 odd1 = _mm512_castsi512_ps(_mm512_and_si512(w1, high));
#pragma GCC unroll 4
        for (int r = 0; r < PAIR_ROWS; r++) {
            int pair;
            memcpy(&pair, a + (size_t)r * row + 4 * p, sizeof pair);
            const __m512i x = _mm512_set1_epi32(pair);
            const __m512 x0 = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
            const __m512 x1 = _mm512_castsi512_ps(_mm512_and_si512(x, high));
            even[r][0] = _mm512_fmadd_ps(x0, even0, even[r][0]);
            even[r][1] = _mm512_fmadd_ps(x0, even1, even[r][1]);
            odd[r][0] = _mm512_fmadd_ps(x1, odd0, odd[r][0]);
            odd[r][1] = _mm512_fmadd_ps(x1, odd1, odd[r][1]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < PAIR_ROWS; r++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            pair_settle(sums + r * DT_TILE + 16 * h, even[r][h], odd[r][h], a + (size_t)r * row,
                        b + h * DT_TILE_HALF);
}

static void pair_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                          const dt_tile_out *out)
{
    const unsigned mxcsr = _mm_getcsr();

    if (fresh)
        memset(sums, 0, DT_TILE_AREA * sizeof *sums);
    _mm_setcsr(FLUSH_TO_ZERO);
    for (; runs > 0; runs--, run++)
        for (int k = 0; k < run->steps; k++)
            for (int r = 0; r < rows; r += PAIR_ROWS)
                pair_rows(sums + r * DT_TILE,
                          (const char *)run->a + (size_t)k * run->step + (size_t)r * run->row,
                          run->row, (const char *)run->b + k * 2 * DT_TILE_HALF);
    _mm_setcsr(mxcsr);
    if (out)
        lanes_finish(out, sums);
}

const dt_tile_backend dt_tile_backend_avx512 = {
    .name = "avx512",
    .type = DT_BF16,
    .isa = DT_ISA_AVX512,
    .chunk = 12,
    .product = 10,
    .multiply = pair_multiply,
    LANES_WORK,
};

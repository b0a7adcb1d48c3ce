/* way_dot.c - products of tiles by VDPBF16PS, for CPUs with AVX512_BF16 and without AMX. A class
 * of bits of its own: see way.h. */
#if defined(__x86_64__)
#include "lanes.h"

#include <limits.h>

/* 8 rows of 2 x 16 sums stay in registers over all runs: 16 chains hide the latency, and each
 * vector that is loaded is multiplied 8 times. */
enum { DOT_ROWS = 8 };

static inline void dot_rows(float *sums, const dt_tile_run *run, int runs, size_t first, bool fresh,
                            const lanes_out *out)
{
    __m512 s[DOT_ROWS][2];

#pragma GCC unroll 8
    for (int r = 0; r < DOT_ROWS; r++) {
        s[r][0] = fresh ? _mm512_setzero_ps() : _mm512_load_ps(sums + r * DT_TILE);
        s[r][1] = fresh ? _mm512_setzero_ps() : _mm512_load_ps(sums + r * DT_TILE + 16);
    }
    for (; runs > 0; runs--, run++) {
        const dt_bf16 *a = run->a + first * run->row, *b = run->b;
        const size_t row = run->row;
        for (int k = 0; k < run->steps; k++, a += run->step, b += DT_TILE_AREA)
#pragma GCC unroll 4
            for (int p = 0; p < 16; p++) {
                const __m512bh b0 = (__m512bh)_mm512_load_si512(b + p * 32);
                const __m512bh b1 = (__m512bh)_mm512_load_si512(b + p * 32 + DT_TILE_HALF);
#pragma GCC unroll 8
                for (int r = 0; r < DOT_ROWS; r++) {
                    int pair;
                    memcpy(&pair, a + (size_t)r * row + 2 * p, sizeof pair);
                    const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
                    s[r][0] = _mm512_dpbf16_ps(s[r][0], b0, x);
                    s[r][1] = _mm512_dpbf16_ps(s[r][1], b1, x);
                }
            }
    }
    if (!out) {
#pragma GCC unroll 8
        for (int r = 0; r < DOT_ROWS; r++) {
            _mm512_store_ps(sums + r * DT_TILE, s[r][0]);
            _mm512_store_ps(sums + r * DT_TILE + 16, s[r][1]);
        }
        return;
    }
#pragma GCC unroll 8
    for (int r = 0; r < DOT_ROWS; r++)
        lanes_put(out, (int)first + r, s[r][0], s[r][1]);
}

static void dot_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                         const dt_tile_out *out)
{
    lanes_out l = {0};

    if (out)
        l = lanes_out_of(out);
    for (int r = 0; r < rows; r += DOT_ROWS)
        dot_rows(sums + r * DT_TILE, run, runs, (size_t)r, fresh, out ? &l : NULL);
}

const dt_tile_way dt_tile_way_dot = {
    .name = "dot",
    .isa = DT_ISA_AVX512_BF16,
    .chunk = INT_MAX,
    .begin = lanes_nothing,
    .end = lanes_nothing,
    .multiply = dot_multiply,
    LANES_WORK,
};
#endif

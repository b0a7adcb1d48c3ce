/* registers.h - products of tiles with sums in vector registers, for the backends that need not
 * have the tile unit's bits. Each of them includes this with registers_add of its own. */
#ifndef DT_TILE_REGISTERS_H
#define DT_TILE_REGISTERS_H
#include "lanes.h"

#include <limits.h>

/* 8 rows of 2 x 16 sums stay in registers over all runs: 16 chains hide the latency, and each
 * vector that is loaded is multiplied 8 times. */
enum { REGISTERS_ROWS = 8 };

/* sums += the dword x, in all lanes, times b. */
static inline __m512 registers_add(__m512 sums, __m512i b, __m512i x);

/* `count` dwords of the reduction. row, dword, half: elements to the next row, next dword, and b's
 * other 16 columns. */
static inline __attribute__((always_inline)) void registers_block(__m512 s[REGISTERS_ROWS][2],
                                                                  const dt_bf16 *a, size_t row,
                                                                  size_t dword, const dt_bf16 *b,
                                                                  size_t half, int count)
{
#pragma GCC unroll 4
    for (int p = 0; p < count; p++) {
        const __m512i b0 = _mm512_load_si512(b + p * 32);
        const __m512i b1 = _mm512_load_si512(b + p * 32 + half);
#pragma GCC unroll 8
        for (int r = 0; r < REGISTERS_ROWS; r++) {
            int one;
            memcpy(&one, a + (size_t)r * row + (size_t)p * dword, sizeof one);
            const __m512i x = _mm512_set1_epi32(one);
            s[r][0] = registers_add(s[r][0], b0, x);
            s[r][1] = registers_add(s[r][1], b1, x);
        }
    }
}

static inline void registers_run(__m512 s[REGISTERS_ROWS][2], const dt_tile_run *run, size_t first)
{
    const dt_bf16 *a = run->a, *b = run->b;

    if (run->row == 0) {
        a += first / 16 * DT_TILE_AREA + first % 16 * 2;
        for (int k = 0; k < run->steps; k++, a += run->step, b += 2 * DT_TILE_AREA)
            registers_block(s, a, 2, 32, b, DT_TILE_AREA, 32);
    } else {
        a += first * run->row;
        for (int k = 0; k < run->steps; k++, a += run->step, b += DT_TILE_AREA)
            registers_block(s, a, run->row, 2, b, DT_TILE_HALF, 16);
    }
}

static inline void registers_rows(float *sums, const dt_tile_run *run, int runs, size_t first,
                                  bool fresh, const dt_tile_out *out, __mmask32 mask)
{
    __m512 s[REGISTERS_ROWS][2];

#pragma GCC unroll 8
    for (int r = 0; r < REGISTERS_ROWS; r++) {
        s[r][0] = fresh ? _mm512_setzero_ps() : _mm512_load_ps(sums + r * DT_TILE);
        s[r][1] = fresh ? _mm512_setzero_ps() : _mm512_load_ps(sums + r * DT_TILE + 16);
    }
    for (; runs > 0; runs--, run++)
        registers_run(s, run, first);
#pragma GCC unroll 8
    for (int r = 0; r < REGISTERS_ROWS; r++) {
        if (out) {
            lanes_put(out, mask, (int)first + r, s[r][0], s[r][1]);
        } else {
            _mm512_store_ps(sums + r * DT_TILE, s[r][0]);
            _mm512_store_ps(sums + r * DT_TILE + 16, s[r][1]);
        }
    }
}

static void registers_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                               const dt_tile_out *out)
{
    const __mmask32 mask = out ? lanes_mask(0, out->channels) : 0;

    for (int r = 0; r < rows; r += REGISTERS_ROWS)
        registers_rows(sums + r * DT_TILE, run, runs, (size_t)r, fresh, out, mask);
}
#endif

/* registers.h - products of tiles with sums in vector registers, for the backends that need not
 * have the tile unit's bits. Each defines registers_add and includes this, or
 * (REGISTERS_STEP) a whole step. */
#ifndef DT_TILE_REGISTERS_H
#define DT_TILE_REGISTERS_H
#include "lanes.h"

/* 8 rows of 2 x 16 sums stay in registers over all runs: 16 chains hide the latency, and each
 * vector that is loaded is multiplied 8 times. A step takes a pair of bf16 or a float32 at a time,
 * in b a line of this many bytes, whose other 16 columns lie a half further. */
enum {
    REGISTERS_ROWS = 8,
    REGISTERS_PLACES = DT_TILE * LANES_EACH / 4,
    REGISTERS_LINE = LANES_EACH == 2 ? 64 : 128,
    REGISTERS_HALF = LANES_EACH == 2 ? DT_TILE_HALF : 64,
};

/* s += the rows of a times b. */
static inline __attribute__((always_inline)) void
registers_step(__m512 s[REGISTERS_ROWS][2], const char *a, size_t row, size_t place, const char *b);

#ifndef REGISTERS_STEP
/* sums += the four bytes x, in all lanes, times b. */
static inline __m512 registers_add(__m512 sums, __m512i b, __m512i x);

static inline void registers_step(__m512 s[REGISTERS_ROWS][2], const char *a, size_t row,
                                  size_t place, const char *b)
{
#pragma GCC unroll 4
    for (int p = 0; p < REGISTERS_PLACES; p++) {
        const __m512i b0 = _mm512_load_si512(b + p * REGISTERS_LINE);
        const __m512i b1 = _mm512_load_si512(b + p * REGISTERS_LINE + REGISTERS_HALF);
#pragma GCC unroll 8
        for (int r = 0; r < REGISTERS_ROWS; r++) {
            int one;
            memcpy(&one, a + (size_t)r * row + (size_t)p * place, sizeof one);
            const __m512i x = _mm512_set1_epi32(one);
            s[r][0] = registers_add(s[r][0], b0, x);
            s[r][1] = registers_add(s[r][1], b1, x);
        }
    }
}
#endif

static inline void registers_run(__m512 s[REGISTERS_ROWS][2], const dt_tile_run *run, size_t first)
{
    const char *a = (const char *)run->a + first * run->row, *b = run->b;

    /* The compiler knows `place` this way; a test inside the loop costs 8 %. */
    if (LANES_EACH == 2 || run->place == 4)
        for (int k = 0; k < run->steps; k++, a += run->step, b += DT_TILE_AREA * LANES_EACH)
            registers_step(s, a, run->row, 4, b);
    else
        for (int k = 0; k < run->steps; k++, a += run->step, b += DT_TILE_AREA * LANES_EACH)
            registers_step(s, a, 4, 128, b);
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

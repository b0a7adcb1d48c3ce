/* backend_fma_plain.c - products of tiles in float32 in plain C: see backend.h.
 *
 * Without an instruction for it, a fused multiply-add is done in double: the product is exact, so
 * only the sum is rounded before it is rounded to float32. Rounding twice differs from rounding
 * once at most where the first result lies half way between two float32 (Figueroa 1995), or where
 * float32 has fewer digits, below 2^-126: there the C library's fmaf does it. */
#include "floats.h"

#include <math.h>

/* sums[16] += x y */
static inline void floats_add(float *sums, float x, const float *y)
{
#ifndef FP_FAST_FMAF
    const uint64_t tiny = UINT64_C(0x3820000000000000); /* 2^-125 as a double */
    double d[16];
    float sum[16];
    uint64_t bits[16], doubtful = 0;

    for (int c = 0; c < 16; c++)
        d[c] = (double)x * (double)y[c] + (double)sums[c];
    for (int c = 0; c < 16; c++)
        sum[c] = (float)d[c];
    memcpy(bits, d, sizeof bits);
    for (int c = 0; c < 16; c++) {
        const uint64_t size = bits[c] & ~(UINT64_C(1) << 63), half = bits[c] & 0x1fffffff;
        doubtful |= (half == 0x10000000) | (size - 1 < tiny);
    }
    if (!doubtful) {
        memcpy(sums, sum, sizeof sum);
        return;
    }
#endif
    for (int c = 0; c < 16; c++)
        sums[c] = fmaf(x, y[c], sums[c]);
}

/* sums[16] += `count` places of the reduction, which are `place` elements apart in a. */
static inline void floats_row(float *sums, const dt_bf16 *a, size_t place, const dt_bf16 *b,
                              int count)
{
    for (int p = 0; p < count; p++, a += place, b += 32) {
        float x, y[16];
        memcpy(&x, a, sizeof x);
        memcpy(y, b, sizeof y);
        floats_add(sums, x, y);
    }
}

static void floats_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                            const dt_tile_out *out)
{
    if (fresh)
        memset(sums, 0, DT_TILE_AREA * sizeof *sums);
    for (; runs > 0; runs--, run++)
        for (int k = 0; k < run->steps; k++)
            for (int i = 0; i < 2 * rows; i++) {
                const int r = i / 2, half = i % 2;
                const dt_bf16 *a = run->a + (size_t)k * run->step;
                if (run->row == 0)
                    floats_row(sums + 16 * i, a + r / 16 * DT_TILE_AREA + r % 16 * 2, 32,
                               run->b + (2 * k + half) * DT_TILE_AREA, 32);
                else
                    floats_row(sums + 16 * i, a + (size_t)r * run->row, 2,
                               run->b + k * DT_TILE_AREA + half * DT_TILE_HALF, 16);
            }
    if (out)
        plain_finish(out, sums);
}

const dt_tile_backend dt_tile_backend_fma_plain = {
    .name = "fma_plain",
    .type = DT_F32,
    .isa = DT_ISA_PORTABLE,
    .chunk = 12,
    .product = 200,
    .begin = plain_nothing,
    .end = plain_nothing,
    .multiply = floats_multiply,
    .gather = plain_gather,
    .window = plain_window,
    .pack_rows = floats_pack_rows,
    .pack_columns = floats_pack_columns,
    .fence = plain_nothing,
};

/* backend_fma_plain.c - products of tiles in float32 in plain C: see backend.h.
 *
 * Without an instruction for it, a fused multiply-add is done in double: the product is exact, so
 * only the sum is rounded before it is rounded to float32. Rounding twice differs from rounding
 * once at most where the first result lies half way between two float32 (Figueroa 1995), or where
 * float32 has fewer digits, below 2^-126: there the C library's fmaf does it. */
#include "floats.h"

/* sums[16] += x y */
static inline void floats_add(float *restrict sums, float x, const float *restrict y)
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

static void floats_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                            const dt_tile_out *out)
{
    if (fresh)
        memset(sums, 0, DT_TILE_AREA * sizeof *sums);
    for (; runs > 0; runs--, run++)
        for (int k = 0; k < run->steps; k++)
            for (int i = 0; i < 2 * rows; i++) {
                const char *a = (const char *)run->a + (size_t)k * run->step;
                const float *b = (const float *)run->b + k * DT_TILE_AREA + i % 2 * 16;
                a += (size_t)(i / 2) * run->row;
                for (int p = 0; p < DT_TILE; p++, a += run->place, b += DT_TILE) {
                    float x;
                    memcpy(&x, a, sizeof x);
                    floats_add(sums + 16 * i, x, b);
                }
            }
    if (out)
        plain_finish(out, sums);
}

const dt_tile_backend dt_tile_backend_fma_plain = {
    .name = "fma_plain",
    .type = DT_F32,
    .isa = DT_ISA_PORTABLE,
    .chunk = 6,
    .product = 200,
    .multiply = floats_multiply,
    FLOATS_WORK(floats),
};

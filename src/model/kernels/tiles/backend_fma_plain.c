/* backend_fma_plain.c - products of tiles in float32 in plain C: see backend.h. The C library's
 * fmaf is exact with any CPU; where an instruction does it, the compiler takes that. */
#include "floats.h"

/* sums[16] += `count` places of the reduction, which are `place` elements apart in a. */
static inline void floats_row(float *sums, const dt_bf16 *a, size_t place, const dt_bf16 *b,
                              int count)
{
    for (int p = 0; p < count; p++, a += place, b += 32) {
        float x, y[16];
        memcpy(&x, a, sizeof x);
        memcpy(y, b, sizeof y);
        for (int c = 0; c < 16; c++)
            sums[c] = fmaf(x, y[c], sums[c]);
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

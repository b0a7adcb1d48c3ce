/* backend_amx.c - products of tiles by the AMX unit: see backend.h. */
#include "lanes.h"

/* All eight tiles whole. A constant: GCC's _tile_loadconfig tells the compiler about the first 8
 * bytes only, so that stores to the others of a local would be dropped. */
static const struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} amx_whole = {.palette = 1,
               .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
               .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

static void amx_begin(void)
{
    _tile_loadconfig(&amx_whole);
}

static void amx_end(void)
{
    _tile_release();
}

/* Tiles 0 to 3 are the sums, 4 and 5 rows 0-15 and 16-31 of a, 6 and 7 the halves of b. */
static void amx_multiply(float *sums, const dt_tile_run *run, int runs, int rows, bool fresh,
                         const dt_tile_out *out)
{
    enum { SUM_ROW = DT_TILE * sizeof(float), B_ROW = 64, B_BLOCK = 2048, LOWER = 16 * DT_TILE };

    (void)rows;
    if (fresh) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, sums, SUM_ROW);
        _tile_loadd(1, sums + 16, SUM_ROW);
        _tile_loadd(2, sums + LOWER, SUM_ROW);
        _tile_loadd(3, sums + LOWER + 16, SUM_ROW);
    }
    for (; runs > 0; runs--, run++) {
        const char *a = run->a, *b = run->b;
        for (int k = 0; k < run->steps; k++, a += run->step, b += B_BLOCK) {
            _tile_loadd(6, b, B_ROW);
            _tile_loadd(4, a, run->row);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, b + DT_TILE_HALF, B_ROW);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, a + 16 * run->row, run->row);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, SUM_ROW);
    _tile_stored(1, sums + 16, SUM_ROW);
    _tile_stored(2, sums + LOWER, SUM_ROW);
    _tile_stored(3, sums + LOWER + 16, SUM_ROW);
    if (out)
        lanes_finish(out, sums);
}

const dt_tile_backend dt_tile_backend_amx = {
    .name = "amx",
    .type = DT_BF16,
    .isa = DT_ISA_AMX,
    .chunk = 12, /* 24 KiB of b stay in the first-level cache */
    .ahead = true,
    .product = 0.7,
    .begin = amx_begin,
    .end = amx_end,
    .multiply = amx_multiply,
    LANES_WORK,
};

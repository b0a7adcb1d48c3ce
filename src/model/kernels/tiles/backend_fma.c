/* backend_fma.c - products of tiles in float32 by AVX-512's FMA: see backend.h. */
#define LANES_EACH 4
#include "floats.h"
#include "registers.h"

static inline __m512 registers_add(__m512 sums, __m512i b, __m512i x)
{
    return _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(b), sums);
}

static void fma_turn_right(const void *from, size_t row, size_t ahead, void *to)
{
    const char *at = from;

    for (int j = 0; j < DT_TILE; j++, at += row)
        for (int h = 0; h < 128; h += 64) {
            _mm_prefetch(at + h + ahead, _MM_HINT_T0);
            _mm512_store_si512((char *)to + j * 128 + h, _mm512_loadu_si512(at + h));
        }
}

static void fma_pack_rows(const float *from, size_t row, void *to)
{
    for (int k = 0; k < DT_TILE; k++, from += row)
        for (int c = 0; c < DT_TILE; c += 16) {
            _mm_prefetch((const char *)(from + DT_TILE * row + c), _MM_HINT_T0);
            lanes_past((float *)to + k * DT_TILE + c, _mm512_loadu_si512(from + c));
        }
}

static void fma_pack_columns(const float *from, size_t row, void *to)
{
    __m512i turned[16];

    for (int h = 0; h < 4; h++) { /* 16 columns of 16 rows */
        const int c = h % 2 * 16, k = h / 2 * 16;
        lanes_turn(from + (size_t)c * row + k, row * sizeof *from, turned);
        for (int i = 0; i < 16; i++)
            lanes_past((float *)to + (k + i) * DT_TILE + c, turned[i]);
    }
}

const dt_tile_backend dt_tile_backend_fma = {
    .name = "fma",
    .type = DT_F32,
    .isa = DT_ISA_AVX512,
    .chunk = INT_MAX,
    .product = 2,
    .multiply = registers_multiply,
    .gather = lanes_gather,
    .window = lanes_window,
    .turn_left = floats_turn_left,
    .turn_right = fma_turn_right,
    .pack_rows = fma_pack_rows,
    .pack_columns = fma_pack_columns,
};

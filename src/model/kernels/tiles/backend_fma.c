/* backend_fma.c - products of tiles in float32 by AVX-512's FMA: see backend.h. */
#if defined(__x86_64__)
#include "registers.h"

static inline __m512 registers_add(__m512 sums, __m512i b, __m512i x)
{
    return _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(b), sums);
}

static void fma_pack_rows(const float *from, size_t row, dt_bf16 *to)
{
    for (int k = 0; k < 16; k++, from += row, to += 32)
        for (int h = 0; h < 2; h++) {
            _mm_prefetch((const char *)(from + 16 * row + 16 * h), _MM_HINT_T0);
            lanes_past(to + h * DT_TILE_HALF, _mm512_loadu_si512(from + 16 * h));
        }
}

static void fma_pack_columns(const float *from, size_t row, dt_bf16 *to)
{
    __m512i turned[16];

    for (int h = 0; h < 2; h++, from += 16 * row, to += DT_TILE_HALF) {
        lanes_turn((const dt_bf16 *)(const void *)from, 2 * row, turned);
        for (int k = 0; k < 16; k++)
            lanes_past(to + k * 32, turned[k]);
    }
}

const dt_tile_backend dt_tile_backend_fma = {
    .name = "fma",
    .type = DT_F32,
    .isa = DT_ISA_AVX512,
    .chunk = INT_MAX,
    .product = 2,
    .begin = lanes_nothing,
    .end = lanes_nothing,
    .multiply = registers_multiply,
    .gather = lanes_gather,
    .window = lanes_window,
    .pack_rows = fma_pack_rows,
    .pack_columns = fma_pack_columns,
    .fence = lanes_fence,
};
#endif

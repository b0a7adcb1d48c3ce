/* backend_dot.c - products of tiles by VDPBF16PS, for CPUs with AVX512_BF16 and without AMX. A
 * class of bits of its own: see backend.h. */
#include "registers.h"

static inline __m512 registers_add(__m512 sums, __m512i b, __m512i x)
{
    return _mm512_dpbf16_ps(sums, (__m512bh)b, (__m512bh)x);
}

const dt_tile_backend dt_tile_backend_dot = {
    .name = "dot",
    .type = DT_BF16,
    .isa = DT_ISA_AVX512_BF16,
    .chunk = INT_MAX,
    .product = 2,
    .multiply = registers_multiply,
    LANES_WORK,
};

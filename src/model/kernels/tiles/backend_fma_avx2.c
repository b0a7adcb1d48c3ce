/* backend_fma_avx2.c - products of tiles in float32 by AVX2's FMA: see backend.h. */
#include "floats_vectors.h"

const dt_tile_backend dt_tile_backend_fma_avx2 = VEC_BACKEND("fma_avx2", DT_ISA_AVX2);

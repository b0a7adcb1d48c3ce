/* backend_fma_neon.c - products of tiles in float32 by NEON's FMA: see backend.h. */
#include "floats_vectors.h"

const dt_tile_backend dt_tile_backend_fma_neon = VEC_BACKEND("fma_neon", DT_ISA_NEON);

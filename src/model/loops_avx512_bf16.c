/* loops_avx512_bf16.c - the loops of loops.c, compiled for AVX512 that rounds to bf16. */
#define LOOPS_TABLE dt_loops_avx512_bf16
#define LOOPS_ISA "avx512_bf16"
#include "loops.c"

/* loops_avx512.c - the loops of loops.c, compiled for AVX512. */
#define LOOPS_TABLE dt_loops_avx512
#define LOOPS_ISA "avx512"
#include "loops.c"

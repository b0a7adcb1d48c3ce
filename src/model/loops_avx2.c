/* loops_avx2.c - the loops of loops.c, compiled for AVX2. */
#define LOOPS_TABLE dt_loops_avx2
#define LOOPS_ISA "avx2"
#include "loops.c"

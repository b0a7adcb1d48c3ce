/* peak_loops.h - loops that multiply and add in registers alone; private to src/base. */
#ifndef DT_PEAK_LOOPS_H
#define DT_PEAK_LOOPS_H
#include "base.h"

/* Random numbers of a loop's type: what multipliers draw, and with it a CPU's clock, depends
 * on the data. */
enum { DT_PEAK_OPERAND_BYTES = 4096 };

typedef struct dt_peak_loop {
    dt_isa isa; /* that it needs */
    dt_dtype type;
    const char *name;
    double flops; /* of a round */
    /* By one thread. Returns a sum, so that no compiler drops the loop.
     *   operands  [DT_PEAK_OPERAND_BYTES], 64-byte aligned */
    float (*run)(const void *operands, int64_t rounds);
} dt_peak_loop;

/* The best loop for the type that dt_isa_current allows. */
const dt_peak_loop *dt_peak_loop_of(dt_dtype type);
#endif

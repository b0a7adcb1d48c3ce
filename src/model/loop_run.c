/* loop_run.c - which loops this CPU takes, and how a call's items are shared among threads. */
#include "loops.h"

#include <stdio.h>

enum { GRAIN = 1 << 15 }; /* elements worth a thread's while: some 10 us */

const dt_loops *dt_loops_current(void)
{
#if defined(__x86_64__)
    const dt_isa isa = dt_isa_current();
    return isa >= DT_ISA_AVX512 ? &dt_loops_avx512
           : isa >= DT_ISA_AVX2 ? &dt_loops_avx2
                                : &dt_loops_portable;
#else
    return &dt_loops_portable;
#endif
}

dt_status dt_loops_prepare(dt_step *s, dt_model *m)
{
    (void)m;
    snprintf(s->kernels, sizeof s->kernels, "own %s", dt_loops_current()->isa);
    return DT_OK;
}

void dt_loop_run(const dt_call *c, dt_loop loop, int64_t items, int64_t grain)
{
    const int64_t chunks = (items + grain - 1) / grain;

#pragma omp parallel for schedule(static) num_threads(c->step->threads) if (chunks > 1)
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t first = i * grain, left = items - first;
        loop(c, first, DT_MIN(left, grain));
    }
}

void dt_loop_elements(const dt_call *c, dt_loop loop)
{
    dt_loop_run(c, loop, dt_shape_count(&c->step->out_shape), GRAIN);
}

void dt_loop_rows(const dt_call *c, dt_loop loop, int64_t rows, int64_t row_elements)
{
    dt_loop_run(c, loop, rows, row_elements < GRAIN ? GRAIN / row_elements : 1);
}

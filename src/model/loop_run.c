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

/* Bounds are multiples of `step`. */
static void loop_share(const dt_call *c, dt_loop loop, int64_t items, int64_t grain, int64_t step)
{
    const int64_t most = (items + grain - 1) / grain, units = DT_MIN(most, c->step->threads);

#pragma omp parallel for schedule(static) num_threads(c->step->threads) if (units > 1)
    for (int64_t i = 0; i < units; i++) {
        const int64_t first = items * i / units / step * step;
        const int64_t end = i + 1 < units ? items * (i + 1) / units / step * step : items;
        loop(c, first, end - first);
    }
}

void dt_loop_run(const dt_call *c, dt_loop loop, int64_t items, int64_t grain)
{
    loop_share(c, loop, items, grain, 1);
}

void dt_loop_elements(const dt_call *c, dt_loop loop)
{
    loop_share(c, loop, dt_shape_count(&c->step->out_shape), GRAIN, 64);
}

void dt_loop_rows(const dt_call *c, dt_loop loop, int64_t rows, int64_t row_elements)
{
    dt_loop_run(c, loop, rows, row_elements < GRAIN ? GRAIN / row_elements : 1);
}

int dt_sweeps_rows(const dt_step *s, dt_pass pass, double seconds, dt_sweep *sweep)
{
    const dt_shape *of = pass == DT_PASS_FORWARD ? &s->out_shape : &s->in_shape[0];
    const int64_t rows = of->n * of->h, row = of->w * of->c;

    *sweep = (dt_sweep){rows, row < GRAIN ? GRAIN / row : 1, seconds};
    return 1;
}

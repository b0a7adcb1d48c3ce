/* loop_run.c - which loops this CPU takes, and how a call's items are shared among threads. */
#include "loops.h"

const dt_loops *dt_loops_current(void)
{
#if defined(__x86_64__)
    const dt_isa isa = dt_isa_current();
    return isa >= DT_ISA_AVX512_BF16 ? &dt_loops_avx512_bf16
           : isa >= DT_ISA_AVX512    ? &dt_loops_avx512
           : isa >= DT_ISA_AVX2      ? &dt_loops_avx2
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

/* The items of DT_PASS_LIST. Each of those below is about `work` elements of work. */
static void loop_elements(const dt_call *c, dt_loop loop)
{
    loop_share(c, loop, dt_shape_count(&c->step->out_shape), DT_LOOP_GRAIN, 64);
}

static void loop_windows(const dt_call *c, dt_loop loop) /* lines of the output */
{
    const dt_shape *out = &c->step->out_shape;
    const int64_t taps = (int64_t)c->step->attr.kernel[0] * c->step->attr.kernel[1];

    dt_loop_run(c, loop, out->n * out->h, dt_loop_grain(out->w * out->c * taps));
}

static void loop_lines(const dt_call *c, dt_loop loop) /* of the input */
{
    const dt_shape *in = &c->step->in_shape[0];
    dt_loop_run(c, loop, in->n * in->h, dt_loop_grain(in->w * in->c));
}

static void loop_images(const dt_call *c, dt_loop loop)
{
    const dt_shape *in = &c->step->in_shape[0];
    dt_loop_run(c, loop, in->n, dt_loop_grain(in->h * in->w * in->c));
}

#define X(name, items, needs)                                                                      \
    void dt_##name(const dt_call *c)                                                               \
    {                                                                                              \
        if (c->needs)                                                                              \
            loop_##items(c, dt_loops_current()->name);                                             \
    }
DT_PASS_LIST(X)
#undef X

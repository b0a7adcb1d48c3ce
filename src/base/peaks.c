/* peaks.c - how fast this process multiplies from registers and streams through memory. */
#include "peak_loops.h"

enum { PEAK_TRIES = 24 };

/* ---- Registers --------------------------------------------------------------------------- */

static double loops_seconds(const dt_peak_loop *l, const void *operands, int64_t rounds,
                            int threads)
{
    const double start = dt_seconds();
    float sum = 0;

#pragma omp parallel num_threads(threads) reduction(+ : sum)
    sum += l->run(operands, rounds);
    volatile const float kept = sum;
    (void)kept;
    return dt_seconds() - start;
}

/* A try is longer than the slices of time that the kernel deals out: ranks that share a core
 * share its peak. */
static double peak_flops(const dt_peak_loop *l, int threads)
{
    const double long_enough = 0.015;
    _Alignas(64) float number[DT_PEAK_OPERAND_BYTES / sizeof(float)];
    _Alignas(64) dt_bf16 half[DT_PEAK_OPERAND_BYTES / sizeof(dt_bf16)];
    const void *operands = l->type == DT_BF16 ? (const void *)half : number;
    int64_t rounds = 1024;
    double best;

    dt_fill_uniform(number, DT_COUNT_OF(number), -1, 1, 1, DT_STREAM_TEST, 0);
    for (size_t i = 0; i < DT_COUNT_OF(half); i++)
        half[i] = dt_f32_to_bf16(number[i / 2]);
    while ((best = loops_seconds(l, operands, rounds, threads)) < long_enough)
        rounds *= 2;
    for (int i = 0; i < PEAK_TRIES; i++) {
        const double seconds = loops_seconds(l, operands, rounds, threads);
        best = DT_MIN(best, seconds);
    }
    return l->flops * (double)rounds * (double)threads / best;
}

/* ---- Memory ------------------------------------------------------------------------------- */

/* In place: no line is fetched merely to be overwritten. */
static double stream_seconds(float *x, int64_t count, int threads)
{
    const double start = dt_seconds();

#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; i++)
        x[i] += 1.0f;
    return dt_seconds() - start;
}

static dt_status peak_stream(double *bytes_per_s, int threads)
{
    const size_t bytes = (size_t)DT_PEAK_STREAM_MIB << 20;
    const int64_t count = (int64_t)(bytes / sizeof(float));
    dt_slab slab;

    DT_TRY(dt_slab_create(&slab, bytes, "the peak of the memory"));
    double best = stream_seconds(slab.mem, count, threads); /* takes the pages */
    for (int i = 0; i < PEAK_TRIES; i++) {
        const double seconds = stream_seconds(slab.mem, count, threads);
        best = DT_MIN(best, seconds);
    }
    dt_slab_destroy(&slab);
    *bytes_per_s = 2 * (double)bytes / best;
    return DT_OK;
}

dt_status dt_peaks_measure(dt_peaks *p, int threads)
{
    for (int type = 0; type < DT_DTYPES; type++) {
        const dt_peak_loop *l = dt_peak_loop_of((dt_dtype)type);
        p->flops_by[type] = l->name;
        p->flops[type] = peak_flops(l, threads);
    }
    return peak_stream(&p->bytes_per_s, threads);
}

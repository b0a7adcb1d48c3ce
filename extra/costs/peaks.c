/* peaks.c - how fast this process multiplies, by the kernels' own products on operands in the
 * caches, and streams through memory. */
#include "costs.h"
#include "model/kernels/tiles/tiles.h"

enum { PEAK_TRIES = 24, PEAK_RUNS = 64 };
enum { PEAK_BYTES = 8192 }; /* of each operand, in the first-level cache */

/* Both operands, random: what multipliers draw, and a CPU's clock, depends on it. */
static void peak_draw(void *to, dt_dtype type)
{
    float number[PEAK_BYTES];

    dt_fill_uniform(number, PEAK_BYTES, -1, 1, 1, DT_STREAM_TEST, 0);
    if (type == DT_F32)
        memcpy(to, number, (size_t)2 * PEAK_BYTES);
    for (int i = 0; type == DT_BF16 && i < PEAK_BYTES; i++)
        ((dt_bf16 *)to)[i] = dt_f32_to_bf16(number[i]);
}

/* Steps of 32 places in the operands. */
static int peak_steps(const dt_tile_backend *w)
{
    return PEAK_BYTES / DT_TILE_AREA / (int)dt_dtype_bytes(w->type);
}

static double peak_tile_seconds(const dt_tile_backend *w, const char *operands, int64_t rounds,
                                int threads)
{
    const size_t each = dt_dtype_bytes(w->type);
    const double start = dt_seconds();

#pragma omp parallel num_threads(threads)
    {
        _Alignas(64) float sums[DT_TILE_AREA];
        dt_tile_run run[PEAK_RUNS];
        for (int i = 0; i < PEAK_RUNS; i++)
            run[i] =
                (dt_tile_run){operands, operands + PEAK_BYTES, DT_TILE * each, DT_TILE_AREA * each,
                              each,     peak_steps(w)};
        dt_tile_begin(w);
        for (int64_t r = 0; r < rounds; r++)
            w->multiply(sums, run, PEAK_RUNS, DT_TILE, true, NULL);
        dt_tile_end(w);
    }
    return dt_seconds() - start;
}

/* A try is longer than the slices of time that the kernel deals out: ranks that share a core
 * share its peak. */
static double peak_tiles(const dt_tile_backend *w, dt_dtype type, int threads)
{
    const double long_enough = 0.015;
    const double flops = 2.0 * DT_TILE * DT_TILE_AREA * peak_steps(w) * PEAK_RUNS; /* of a round */
    int64_t rounds = 1;
    _Alignas(64) char operands[2 * PEAK_BYTES];
    double best;

    peak_draw(operands, type);
    while ((best = peak_tile_seconds(w, operands, rounds, threads)) < long_enough)
        rounds *= 2;
    for (int i = 0; i < PEAK_TRIES; i++)
        best = fmin(best, peak_tile_seconds(w, operands, rounds, threads));
    return flops * (double)rounds * (double)threads / best;
}

/* In place: no line is fetched merely to be overwritten. */
static double stream_seconds(float *x, int64_t count, int threads)
{
    const double start = dt_seconds();

#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; i++)
        x[i] += 1.0f;
    return dt_seconds() - start;
}

static dt_status peak_stream(dt_peaks *p, int threads)
{
    const size_t bytes = (size_t)p->stream_mib << 20;
    const int64_t count = (int64_t)(bytes / sizeof(float));
    dt_slab slab;

    DT_TRY(dt_slab_create(&slab, bytes, "the peak of the memory"));
    double best = stream_seconds(slab.mem, count, threads); /* takes the pages */
    for (int i = 0; i < PEAK_TRIES; i++)
        best = fmin(best, stream_seconds(slab.mem, count, threads));
    dt_slab_destroy(&slab);
    p->bytes_per_s = 2 * (double)bytes / best;
    return DT_OK;
}

dt_status dt_peaks_measure(dt_peaks *p, int threads)
{
    for (int type = 0; type < DT_DTYPES; type++) {
        const dt_tile_backend *w = dt_tile_current((dt_dtype)type);
        if (w) {
            p->flops[type] = peak_tiles(w, (dt_dtype)type, threads);
            snprintf(p->flops_by[type], sizeof p->flops_by[0], "tiles %s", w->name);
        } else { /* float32's kernels compute it, and come first */
            p->flops[type] = p->flops[DT_F32];
            memcpy(p->flops_by[type], p->flops_by[DT_F32], sizeof p->flops_by[0]);
        }
    }
    p->stream_mib = DT_MIN(DT_MAX(256, 32 * threads), 2048);
    return peak_stream(p, threads);
}

/* parts.c - the sum of the parts of a weight gradient, and the bias gradient.
 *
 * Both sum over images and pixels. So that their bits do not depend on the number of threads, the
 * lines of all images are cut into parts whose bounds follow from the shape alone. Several units
 * may share a part, but one unit sums each element of it, and the parts are added as a balanced
 * tree. */
#include "tiles/tiles.h"

#ifdef __SSE__
#include <immintrin.h>
#endif

enum {
    BIAS_PARTS = 4,
    BIAS_TILE = 64,  /* channels summed side by side */
    BIAS_ROWS = 64,  /* rows summed in float32 before they join the float64 sum */
    BIAS_LANES = 16, /* channels whose float64 sums a thread makes */
};

/* ---- Weight gradient -------------------------------------------------------------- */

/* The columns of a row of sums, as turn_right has put them, in their order: fours lie side by side.
 * Gradients are larger than caches: they are stored past these, which saves reading the lines. */
void dt_tiles_store_row(const dt_tiles *t, const float *sums, int block, float *to)
{
    const int columns = DT_MIN(DT_TILE, t->out.channels - block * DT_TILE);

    for (int c0 = 0; c0 < columns; c0 += 4) {
        const float *from = sums + (t->conv.type == DT_F32 ? c0 : dt_tile_column(c0));
#ifdef __SSE__
        if (c0 + 4 <= columns && (uintptr_t)(to + c0) % 16 == 0) {
            _mm_stream_ps(to + c0, _mm_loadu_ps(from));
            continue;
        }
#endif
        memcpy(to + c0, from, (size_t)DT_MIN(4, columns - c0) * sizeof *to);
    }
}

/* to[i] = the sum of part[i], part[i + stride], .. over 2 or 4 parts. */
static void part_sum(float *to, const float *part, size_t stride, int count, size_t n)
{
    if (count == 2)
        for (size_t i = 0; i < n; i++)
            to[i] = part[i] + part[i + stride];
    else
        for (size_t i = 0; i < n; i++)
            to[i] = (part[i] + part[i + stride]) + (part[i + 2 * stride] + part[i + 3 * stride]);
}

/* The next row: 128 bytes of each block and part, too far apart for the machine to foresee. */
static void part_ahead(const dt_tiles *t, const float *part)
{
    for (int p = 0; p < t->strips; p++, part += dt_tiles_part(t)) {
        __builtin_prefetch(part + DT_TILE);
        __builtin_prefetch(part + DT_TILE + 16);
    }
}

void dt_tiles_weights_sum(const dt_tiles *t, int64_t row, const float *partial, float *dw)
{
    const int64_t channels = t->in.channels, tap = row / channels, i = row % channels;
    float *to = dw + row * dt_tiles_row(t), sum[DT_TILE];

    for (int b = 0; b < t->out.blocks; b++, to += DT_TILE) {
        const int64_t at = (b * t->taps_y * t->taps_x + tap) * t->in.blocks + i / DT_TILE;
        const float *part = partial + at * DT_TILE_AREA + i % DT_TILE * DT_TILE;
        part_ahead(t, part);
        part_sum(sum, part, dt_tiles_part(t), t->strips, DT_TILE);
        dt_tiles_store_row(t, sum, b, to);
    }
    dt_stream_fence();
}

/* ---- Bias gradient --------------------------------------------------------------- */

/* First row (image x pixel) of a part; part BIAS_PARTS starts at the end. */
static int64_t bias_first(int64_t rows, int part)
{
    return rows * part / BIAS_PARTS;
}

/* Blocks of BIAS_ROWS rows in the largest part. */
static int64_t bias_blocks(const dt_conv *c)
{
    const int64_t rows = (c->n * c->oh * c->ow + BIAS_PARTS - 1) / BIAS_PARTS;
    return (rows + BIAS_ROWS - 1) / BIAS_ROWS;
}

size_t dt_bias_scratch_bytes(const dt_conv *c, int64_t channels)
{
    return dt_align((size_t)(BIAS_PARTS * bias_blocks(c) * channels) * sizeof(float), 64);
}

/* to[width] = the sum of rows of dy, `step` apart, the first of which starts at `at`. */
static void bias_tile(dt_dtype type, const void *dy, size_t at, size_t step, int64_t rows,
                      int64_t width, float *to)
{
    float tile[BIAS_TILE] = {0};

    for (int64_t r = 0; r < rows; r++, at += step) {
        if (type == DT_BF16) {
            const dt_bf16 *row = (const dt_bf16 *)dy + at;
            for (int64_t k = 0; k < width; k++)
                tile[k] += dt_bf16_to_f32(row[k]);
        } else {
            const float *row = (const float *)dy + at;
            for (int64_t k = 0; k < width; k++)
                tile[k] += row[k];
        }
    }
    memcpy(to, tile, (size_t)width * sizeof *to);
}

/* The parts' sums of some channels, then their sum. */
static void bias_channels(const dt_conv *c, const float *block, int64_t channels, int64_t first,
                          int64_t width, float *dbias)
{
    const int64_t rows = c->n * c->oh * c->ow, blocks = bias_blocks(c);
    double sum[BIAS_PARTS][BIAS_LANES] = {{0}};

    for (int part = 0; part < BIAS_PARTS; part++, block += blocks * channels) {
        const int64_t have = bias_first(rows, part + 1) - bias_first(rows, part);
        for (int64_t b = 0; b * BIAS_ROWS < have; b++)
            for (int64_t k = 0; k < width; k++)
                sum[part][k] += (double)block[b * channels + first + k];
    }
    for (int64_t k = 0; k < width; k++)
        dbias[first + k] = (float)((sum[0][k] + sum[1][k]) + (sum[2][k] + sum[3][k]));
}

void dt_bias_gradient(const dt_conv *c, int64_t channels, const void *dy, void *scratch,
                      float *dbias)
{
    const int64_t rows = c->n * c->oh * c->ow, blocks = bias_blocks(c);
    float *block = scratch; /* [BIAS_PARTS][blocks][channels] */

#pragma omp parallel num_threads(c->threads)
    {
#pragma omp for schedule(static)
        for (int64_t b = 0; b < BIAS_PARTS * blocks; b++) {
            const int part = (int)(b / blocks);
            const int64_t r = bias_first(rows, part) + b % blocks * BIAS_ROWS;
            const int64_t end = bias_first(rows, part + 1);
            for (int64_t k = 0; k < channels && r < end; k += BIAS_TILE)
                bias_tile(c->type, dy, (size_t)(r * c->oc + k), (size_t)c->oc,
                          DT_MIN(end - r, BIAS_ROWS), DT_MIN(channels - k, BIAS_TILE),
                          block + b * channels + k);
        }
#pragma omp for schedule(static)
        for (int64_t k = 0; k < channels; k += BIAS_LANES)
            bias_channels(c, block, channels, k, DT_MIN(channels - k, BIAS_LANES), dbias);
    }
}

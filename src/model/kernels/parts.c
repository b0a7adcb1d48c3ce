/* parts.c - parts of a batch for weight gradients, their sum, and the bias gradient. */
#include "parts.h"

enum {
    /* Each part reads the weights once more, and a weight gradient writes one more dw, to
     * be read and added again. Measured (oneDNN bf16, Zen 4, one thread), the cost is below
     * a tenth from this many output pixels on; a second part may cost more than a fourth,
     * because two threads are common. */
    PIXELS_FOR_2 = 256,
    PIXELS_PER_PART = 1024, /* from the fourth on */
    BIAS_TILE = 64,         /* channels summed side by side */
    BIAS_ROWS = 64,         /* rows summed in float32 before they join the float64 sum */
};

int dt_part_count(const dt_conv *c, int most)
{
    const int64_t pixels = c->n * c->oh * c->ow;
    int count = c->n >= 2 && pixels >= PIXELS_FOR_2 ? 2 : 1;

    while (count > 1 && 2 * count <= most && c->n >= 2 * count &&
           pixels >= 2 * count * PIXELS_PER_PART)
        count *= 2;
    return count;
}

void dt_part_sum(float *to, const float *part, size_t stride, int count, size_t n)
{
    if (count == 1)
        memcpy(to, part, n * sizeof *to);
    else if (count == 2)
        for (size_t i = 0; i < n; i++)
            to[i] = part[i] + part[i + stride];
    else
        for (size_t i = 0; i < n; i++)
            to[i] = (part[i] + part[i + stride]) + (part[i + 2 * stride] + part[i + 3 * stride]);
}

bool dt_conv_fits(const int64_t size[][4], size_t count, int64_t most)
{
    for (size_t i = 0; i < count; i++) {
        int64_t left = most;
        for (int k = 0; k < 4; k++)
            left /= DT_MAX(size[i][k], 1);
        if (left == 0)
            return false;
    }
    return true;
}

/* ---- Bias gradient --------------------------------------------------------------- */

size_t dt_bias_scratch_bytes(const dt_conv *c)
{
    return dt_align(DT_MAX_PARTS * (size_t)c->oc * sizeof(double), 64);
}

/* sum[width] += up to BIAS_ROWS rows of dy, which starts at the tile's first channel.
 */
static void bias_add_tile(const dt_conv *c, const void *dy, size_t at, int64_t rows, int64_t width,
                          double *sum)
{
    const size_t step = (size_t)c->oc;
    float tile[BIAS_TILE] = {0};

    for (int64_t r = 0; r < rows; r++, at += step) {
        if (c->type == DT_BF16) {
            const dt_bf16 *row = (const dt_bf16 *)dy + at;
            for (int64_t k = 0; k < width; k++)
                tile[k] += dt_bf16_to_f32(row[k]);
        } else {
            const float *row = (const float *)dy + at;
            for (int64_t k = 0; k < width; k++)
                tile[k] += row[k];
        }
    }
    for (int64_t k = 0; k < width; k++)
        sum[k] += (double)tile[k];
}

static void bias_sum_rows(const dt_conv *c, const void *dy, int64_t first, int64_t end, double *sum)
{
    memset(sum, 0, (size_t)c->oc * sizeof *sum);
    for (int64_t r = first; r < end; r += BIAS_ROWS)
        for (int64_t k = 0; k < c->oc; k += BIAS_TILE) {
            const int64_t rows = DT_MIN(end - r, BIAS_ROWS);
            const int64_t width = DT_MIN(c->oc - k, BIAS_TILE);
            bias_add_tile(c, dy, (size_t)(r * c->oc + k), rows, width, sum + k);
        }
}

void dt_bias_gradient(const dt_conv *c, const void *dy, void *scratch, float *dbias)
{
    const int64_t rows = c->n * c->oh * c->ow;
    double *sum = scratch; /* [DT_MAX_PARTS][oc] */

#pragma omp parallel for num_threads(c->threads) schedule(static, 1)
    for (int i = 0; i < DT_MAX_PARTS; i++)
        bias_sum_rows(c, dy, dt_part_first(rows, DT_MAX_PARTS, i),
                      dt_part_first(rows, DT_MAX_PARTS, i + 1), sum + i * c->oc);
    for (int64_t k = 0; k < c->oc; k++)
        dbias[k] = (float)((sum[k] + sum[k + c->oc]) + (sum[k + 2 * c->oc] + sum[k + 3 * c->oc]));
}

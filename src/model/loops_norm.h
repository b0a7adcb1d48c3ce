/* loops_norm.h - the part of loops.c for batch norm; private to src/model. */
#ifndef DT_LOOPS_NORM_H
#define DT_LOOPS_NORM_H
#include "loops_strip.h"

/* ---- Forward -------------------------------------------------------------------- */

/* to[c] = the sum of x[r][c] over `group` rows, added to what was there. */
static inline void norm_rows_sum(const void *restrict x, int64_t at, int64_t channels, int group,
                                 float *restrict to, dt_dtype type)
{
#pragma omp simd
    for (int64_t c = 0; c < channels; c++) {
        float sum = 0;
        for (int g = 0; g < group; g++)
            sum += get(x, at + g * channels + c, type);
        to[c] += sum;
    }
}

/* Adds the sums of x - work[0] and of its square to work[1] and work[2]. */
static inline void norm_rows_squares(const void *restrict x, int64_t at, int64_t channels,
                                     int group, float *const work[3], dt_dtype type)
{
    const float *restrict shift = work[0];
    float *restrict sums = work[1], *restrict squares = work[2];

#pragma omp simd
    for (int64_t c = 0; c < channels; c++) {
        float sum = 0, square = 0;
        for (int g = 0; g < group; g++) {
            const float d = get(x, at + g * channels + c, type) - shift[c];
            sum += d;
            square += d * d;
        }
        sums[c] += sum;
        squares[c] += square;
    }
}

enum { GROUP = 4 }; /* rows added before a running sum is touched */

/* Sums of x - shift over rows [first, first + rows). The shift is the mean of the
 * block's first quarter: by Cauchy and Schwarz it is at most sqrt(3) standard
 * deviations from the mean of the block, whatever the data, so taking sum^2 / rows from
 * the squares later costs two bits at most. */
static inline void norm_block_sums(const dt_call *c, int64_t first, int64_t rows,
                                   float *const work[3], dt_dtype type)
{
    const int64_t channels = c->step->out_shape.c, quarter = (rows + 3) / 4;
    const bool large = strip_large(&c->step->out_shape, type);
    const void *x = c->in[0];
    int64_t r = 0;

    for (int k = 0; k < 3; k++)
        memset(work[k], 0, (size_t)channels * sizeof(float));
    for (; r + GROUP <= quarter; r += GROUP) {
        if (large)
            ahead(x, (first + r) * channels, GROUP * channels, type);
        norm_rows_sum(x, (first + r) * channels, channels, GROUP, work[0], type);
    }
    for (; r < quarter; r++)
        norm_rows_sum(x, (first + r) * channels, channels, 1, work[0], type);
#pragma omp simd
    for (int64_t i = 0; i < channels; i++)
        work[0][i] /= (float)quarter;
    for (r = 0; r + GROUP <= rows; r += GROUP) {
        if (large)
            ahead(x, (first + r) * channels, GROUP * channels, type);
        norm_rows_squares(x, (first + r) * channels, channels, GROUP, work, type);
    }
    for (; r < rows; r++)
        norm_rows_squares(x, (first + r) * channels, channels, 1, work, type);
}

/* Merge a block of n rows into the moments of the `before` rows before it. */
static inline void norm_fold(double *restrict mean, double *restrict m2, float *const work[3],
                             double before, double n, int64_t channels)
{
    const float *restrict shift = work[0], *restrict sum = work[1];
    const float *restrict square = work[2];
    const double inverse = 1 / n;

#pragma omp simd
    for (int64_t c = 0; c < channels; c++) {
        const double s = (double)sum[c], d = (double)square[c] - s * (s * inverse);
        const dt_moment block = {n, (double)shift[c] + s * inverse, d < 0 ? 0 : d};
        const dt_moment all = dt_moment_merge((dt_moment){before, mean[c], m2[c]}, block);
        mean[c] = all.mean;
        m2[c] = all.m2;
    }
}

static inline void norm_moments_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    const dt_norm_area a = dt_norm_area_of(c);

    for (int64_t block = first; block < first + count; block++) {
        const int64_t row = dt_norm_row(&a.plan, block);
        float *const work[3] = {dt_norm_work(&a, block, 0), dt_norm_work(&a, block, 1),
                                dt_norm_work(&a, block, 2)};
        norm_block_sums(c, row, dt_norm_row(&a.plan, block + 1) - row, work, type);
    }
}

/* Up to NORM_LANES channels from `at` on. */
enum { NORM_LANES = 64 };
static inline void norm_merge_lanes(const dt_norm_area *a, int64_t at, int64_t lanes)
{
    double *restrict mean = dt_norm_sum(a, 0) + at, *restrict m2 = dt_norm_sum(a, 1) + at;

    for (int64_t part = 0; part < a->plan.parts; part++) {
        const int64_t begin = dt_norm_part(&a->plan, part), end = dt_norm_part(&a->plan, part + 1);
        const double before = (double)dt_norm_row(&a->plan, begin);
        const double n = (double)dt_norm_row(&a->plan, end) - before;
        double part_mean[NORM_LANES] = {0}, part_m2[NORM_LANES] = {0};
        for (int64_t b = begin; b < end; b++) {
            float *const work[3] = {dt_norm_work(a, b, 0) + at, dt_norm_work(a, b, 1) + at,
                                    dt_norm_work(a, b, 2) + at};
            const double row = (double)dt_norm_row(&a->plan, b);
            norm_fold(part_mean, part_m2, work, row - before,
                      (double)dt_norm_row(&a->plan, b + 1) - row, lanes);
        }
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) {
            const dt_moment one = {n, part_mean[i], part_m2[i]};
            const dt_moment all =
                part ? dt_moment_merge((dt_moment){before, mean[i], m2[i]}, one) : one;
            mean[i] = all.mean;
            m2[i] = all.m2;
        }
    }
}

static inline void norm_merge_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    const dt_norm_area a = dt_norm_area_of(c);

    (void)type;
    for (int64_t at = first, left; (left = first + count - at) > 0; at += NORM_LANES)
        norm_merge_lanes(&a, at, DT_MIN(left, NORM_LANES));
}

/* The n elements from `at` on, whose coefficients begin at `k`. */
typedef void norm_strip(const dt_call *c, const dt_norm_area *a, int64_t at, int64_t k, int64_t n,
                        float *restrict to, dt_dtype type);

/* Rows [first, first + count) of `out`, strip by strip; `one` is a constant, and so inlined. */
static inline __attribute__((always_inline)) void norm_strips(const dt_call *c, int64_t first,
                                                              int64_t count, void *out,
                                                              norm_strip *one, dt_dtype type)
{
    const dt_norm_area a = dt_norm_area_of(c);
    const int64_t begin = first * a.plan.channels, end = begin + count * a.plan.channels;
    strip s;

    strip_begin(&s, out, &c->step->out_shape, type);
    for (int64_t at = begin, k = 0, n; at < end; at += n, k = k + n < a.wide ? k + n : 0) {
        const int64_t most = DT_MIN(a.wide - k, STRIP), left = end - at;
        n = DT_MIN(left, most);
        one(c, &a, at, k, n, strip_at(&s, at, type), type);
        strip_put(&s, at, n, type);
    }
    strip_fence(&s);
}

static inline void norm_apply_strip(const dt_call *c, const dt_norm_area *a, int64_t at, int64_t k,
                                    int64_t n, float *restrict to, dt_dtype type)
{
    const bool add = c->step->attr.add, positive = c->step->attr.relu;
    const float *restrict shift = a->shift + k, *restrict scale = a->scale + k;
    const float *restrict beta = a->beta + k;
    const void *restrict in = c->in[0], *restrict other = c->in[1];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float y = (get(in, at + i, type) - shift[i]) * scale[i] + beta[i];
        if (add)
            y += get(other, at + i, type);
        if (positive)
            y = relu(y);
        to[i] = y;
    }
}

static inline void norm_apply_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    norm_strips(c, first, count, c->out, norm_apply_strip, type);
}

/* ---- Batch norm: backward ---------------------------------------------------------------------
 *
 * dy' is dy where the fused ReLU let it through. If nothing was added before the ReLU, that is
 * recomputed from x by forward's operations: one tensor less to read, and the same answer. */

/* The largest number that is stored as zero: half of the smallest bf16, since the tie rounds to
 * zero. */
static inline float norm_least(dt_dtype type)
{
    return type == DT_BF16 ? 0x1p-134f : 0.0f;
}

static inline float norm_gate(float x, float shift, float scale, float beta, float dy,
                              dt_dtype type)
{
    return (x - shift) * scale + beta <= norm_least(type) ? 0 : dy;
}

static inline void add_to_double(double *restrict to, const float *restrict from, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] += (double)from[i];
}

typedef struct norm_gradient {
    const void *x, *dy;
    bool gate;                  /* dy is not yet dy' */
    bool large;                 /* more than stays in caches */
    const void *d_out, *d_out2; /* dy is made of them, row by row: */
    void *summand;              /* where dy goes if there is a summand; may be d_out */
    const void *out;            /* of the ReLU between d_out and summand */
    const float *mean, *scale, *beta;
} norm_gradient;

/* Adds the sums of dy' and of dy' (x - mean) over `group` rows to work[0] and work[1].
 */
static inline void norm_rows_gradient(const norm_gradient *n, int64_t at, int64_t channels,
                                      int group, bool gate, float *const work[2], dt_dtype type)
{
    const void *restrict x = n->x, *restrict dy = n->dy;
    const float *restrict mean = n->mean, *restrict scale = n->scale, *restrict beta = n->beta;
    float *restrict sums = work[0], *restrict products = work[1];

#pragma omp simd
    for (int64_t c = 0; c < channels; c++) {
        float sum = 0, product = 0;
        for (int g = 0; g < group; g++) {
            const int64_t i = at + g * channels + c;
            const float at_x = get(x, i, type);
            float d = get(dy, i, type);
            if (gate)
                d = norm_gate(at_x, mean[c], scale[c], beta[c], d, type);
            sum += d;
            product += d * (at_x - mean[c]);
        }
        sums[c] += sum;
        products[c] += product;
    }
}

static inline void norm_group_gradient(const norm_gradient *n, int64_t at, int64_t channels,
                                       int group, float *const work[2], dt_dtype type)
{
    if (n->gate)
        norm_rows_gradient(n, at, channels, group, true, work, type);
    else
        norm_rows_gradient(n, at, channels, group, false, work, type);
}

/* dy' of two readers' gradients, whose sum is rounded once. */
static inline void norm_join(const norm_gradient *n, int64_t first, int64_t count, dt_dtype type)
{
    const void *restrict out = n->out, *restrict d_out2 = n->d_out2;
    strip s = {.out = n->summand};

    for (int64_t at = first, some; at < first + count; at += some) {
        float *to = strip_at(&s, at, type);
        some = DT_MIN(first + count - at, STRIP);
#pragma omp simd
        for (int64_t i = 0; i < some; i++) {
            const float d = get(n->d_out, at + i, type) + get(d_out2, at + i, type);
            to[i] = relu_gradient(get(out, at + i, type), d);
        }
        strip_put(&s, at, some, type);
    }
}

/* Runs before the sums of some rows. Where the batch norm adds, writes dy', which the sums read,
 * as the gradient of what it adds; else prefetches large tensors. */
static inline void norm_group_before(const norm_gradient *n, int64_t row, int64_t rows,
                                     int64_t channels, dt_dtype type)
{
    const int64_t at = row * channels, count = rows * channels;

    if (n->summand && n->d_out2)
        norm_join(n, at, count, type);
    else if (n->summand)
        relu_mask(n->out, n->d_out, n->summand, at, count, type);
    else if (n->large) {
        ahead(n->x, at, count, type);
        ahead(n->d_out, at, count, type);
    }
}

/* Sums over rows [first, last) to work. */
static inline void norm_block_gradient(const norm_gradient *n, int64_t first, int64_t last,
                                       int64_t channels, float *const work[2], dt_dtype type)
{
    for (int k = 0; k < 2; k++)
        memset(work[k], 0, (size_t)channels * sizeof(float));
    for (; first + GROUP <= last; first += GROUP) {
        norm_group_before(n, first, GROUP, channels, type);
        norm_group_gradient(n, first * channels, channels, GROUP, work, type);
    }
    for (; first < last; first++) {
        norm_group_before(n, first, 1, channels, type);
        norm_group_gradient(n, first * channels, channels, 1, work, type);
    }
}

static inline void norm_sums_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    const dt_norm_area a = dt_norm_area_of(c);
    void *summand = c->step->attr.add ? c->d_in[1] : NULL; /* receives dy' */
    const norm_gradient n = {.x = c->in[0],
                             .mean = a.shift,
                             .scale = a.scale,
                             .beta = a.beta,
                             .dy = summand ? summand : c->d_out,
                             .d_out = c->d_out,
                             .d_out2 = c->d_out2,
                             .summand = summand,
                             .out = c->out,
                             .large = strip_large(&c->step->out_shape, type),
                             .gate = c->step->attr.relu && !summand};

    for (int64_t block = first; block < first + count; block++) {
        float *const work[2] = {dt_norm_work(&a, block, 0), dt_norm_work(&a, block, 1)};
        norm_block_gradient(&n, dt_norm_row(&a.plan, block), dt_norm_row(&a.plan, block + 1),
                            a.plan.channels, work, type);
    }
}

static inline void norm_total_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    const dt_norm_area a = dt_norm_area_of(c);

    (void)type;
    for (int k = 0; k < 2; k++)
        for (int64_t at = first, lanes; at < first + count; at += lanes) {
            double *restrict to = dt_norm_sum(&a, k) + at;
            const int64_t left = first + count - at;
            lanes = DT_MIN(left, NORM_LANES);
            for (int64_t part = 0; part < a.plan.parts; part++) {
                double sum[NORM_LANES] = {0};
                for (int64_t b = dt_norm_part(&a.plan, part); b < dt_norm_part(&a.plan, part + 1);
                     b++)
                    add_to_double(sum, dt_norm_work(&a, b, k) + at, lanes);
#pragma omp simd
                for (int64_t i = 0; i < lanes; i++)
                    to[i] = part ? to[i] + sum[i] : sum[i];
            }
        }
}

/* dx = gamma / std (dy' - mean(dy') - xhat mean(dy' xhat)), Ioffe & Szegedy 2015,
 * section 3. The gradient of the other summand already holds dy'. */
static inline void norm_data_strip(const dt_call *c, const dt_norm_area *a, int64_t at, int64_t k,
                                   int64_t n, float *restrict to, dt_dtype type)
{
    const bool have = c->step->attr.add;
    const bool gate = c->step->attr.relu && !have;
    const float *restrict shift = a->shift + k, *restrict scale = a->scale + k;
    const float *restrict center = a->center + k, *restrict slope = a->slope + k;
    const float *restrict beta = a->beta + k;
    const void *restrict x = c->in[0], *restrict dy = have ? c->d_in[1] : c->d_out;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float at_x = get(x, at + i, type);
        float d = get(dy, at + i, type);
        if (gate)
            d = norm_gate(at_x, shift[i], scale[i], beta[i], d, type);
        d -= center[i] + (at_x - shift[i]) * slope[i];
        to[i] = d * scale[i];
    }
}

static inline void norm_data_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    norm_strips(c, first, count, c->d_in[0], norm_data_strip, type);
}
#endif

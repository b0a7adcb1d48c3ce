/* loops_norm.h - the part of loops.c for batch norm; private to src/model. */
#ifndef DT_LOOPS_NORM_H
#define DT_LOOPS_NORM_H
#include "loops_vector.h"

/* ---- Sums over the rows of a block --------------------------------------------------------- */

/* What is summed: two numbers for each x. Kinds are constants. */
typedef enum norm_kind {
    NORM_MEAN,    /* x */
    NORM_SQUARES, /* d = x - mean, and its square */
    NORM_PLAIN,   /* backward: dy', and dy' d. dy' is d_out */
    NORM_GATE,    /* d_out where ReLU, done again, lets x through */
    NORM_MASK,    /* d_out where forward let the number through: the summand's gradient, too */
    NORM_JOIN,    /* d_out + d_out2, likewise, rounded once */
} norm_kind;

typedef struct norm_rows {
    const void *x, *d_out, *d_out2;
    const pair_bits *mask; /* what forward's ReLU let through, */
    const void *out;       /* or where no mask is kept, what it gave */
    void *summand;         /* where dy' goes; may be d_out */
    const float *mean, *scale, *beta;
    int64_t channels, far;
} norm_rows;

/* The largest number that is stored as zero: half of the smallest bf16, since the tie rounds to
 * zero. */
static inline float norm_least(dt_dtype type)
{
    return type == DT_BF16 ? 0x1p-134f : 0.0f;
}

/* dy where ReLU, done again, lets the number through of which this is x - mean. */
VECTOR vec norm_gate(vec x, const float *scale, const float *beta, vec dy, dt_dtype type)
{
    const vec y = x * vec_load(scale) + vec_load(beta);
    return vec_keep(vec_above(y, norm_least(type)), dy);
}

VECTOR void norm_through(const norm_rows *r, int64_t at, int64_t n, vec d[2], dt_dtype type)
{
    lane_mask open[2];

    if (!r->mask) {
        pair_through(r->out, at, n, d, type);
        return;
    }
    pair_masks(r->mask[at / PAIR], open);
    for (int h = 0; h < 2; h++)
        d[h] = vec_keep(open[h], d[h]);
}

/* dy' of n numbers from element `at` on, of which x - mean is known. */
VECTOR void norm_dy(const norm_rows *r, int64_t at, int64_t col, int64_t n, norm_kind kind,
                    const vec x[2], vec d[2], dt_dtype type)
{
    vec second[2];

    pair_fetch(r->d_out, at, r->far, type);
    pair_get(r->d_out, at, n, d, type);
    if (kind == NORM_JOIN) {
        pair_fetch(r->d_out2, at, r->far, type);
        pair_get(r->d_out2, at, n, second, type);
        for (int h = 0; h < 2; h++)
            d[h] += second[h];
    }
    if (kind >= NORM_MASK)
        norm_through(r, at, n, d, type);
    if (kind == NORM_MASK)
        pair_put_exact(r->summand, at, n, d, type);
    if (kind == NORM_JOIN)
        pair_put(r->summand, at, n, d, false, type);
    for (int h = 0; kind == NORM_GATE && h < 2; h++, col += VEC_LANES)
        d[h] = norm_gate(x[h], r->scale + col, r->beta + col, d[h], type);
}

VECTOR void norm_add(float *to, const vec v[2])
{
    for (int h = 0; h < 2; h++)
        *(vec_floats *)(to + h * VEC_LANES) += v[h];
}

/* Adds the sums of n columns over `group` rows, from column `col` and element `at` on. */
VECTOR void norm_columns(const norm_rows *r, int64_t at, int64_t col, int64_t n, int group,
                         norm_kind kind, float *const to[2], dt_dtype type)
{
    vec sum[2] = {{0}}, product[2] = {{0}}, x[2], d[2];

    for (int g = 0; g < group; g++, at += r->channels) {
        pair_fetch(r->x, at, r->far, type);
        pair_get(r->x, at, n, x, type);
        for (int h = 0; kind > NORM_MEAN && h < 2; h++)
            x[h] -= vec_load(r->mean + col + h * VEC_LANES);
        if (kind >= NORM_PLAIN)
            norm_dy(r, at, col, n, kind, x, d, type);
        else
            memcpy(d, x, sizeof d);
        for (int h = 0; h < 2; h++) {
            sum[h] += d[h];
            product[h] += d[h] * x[h];
        }
    }
    norm_add(to[0] + col, sum);
    if (kind > NORM_MEAN)
        norm_add(to[1] + col, product);
}

enum { GROUP = 4 }; /* rows added before a running sum is touched */

/* Sums of rows [first, last) to `to`. */
VECTOR void norm_block(const norm_rows *r, int64_t first, int64_t last, norm_kind kind,
                       float *const to[2], dt_dtype type)
{
    const int64_t channels = r->channels;

    for (int k = 0; k < 1 + (kind > NORM_MEAN); k++)
        memset(to[k], 0, (size_t)channels * sizeof(float));
    for (int64_t row = first, group; row < last; row += group) {
        group = last - row < GROUP ? 1 : GROUP;
        for (int64_t col = 0; col < channels; col += PAIR) {
            const int64_t at = row * channels + col, n = DT_MIN(PAIR, channels - col);
            if (group == GROUP && n == PAIR)
                norm_columns(r, at, col, PAIR, GROUP, kind, to, type);
            else if (group == GROUP && n == VEC_LANES)
                norm_columns(r, at, col, VEC_LANES, GROUP, kind, to, type);
            else
                norm_columns(r, at, col, n, (int)group, kind, to, type);
        }
    }
}

/* How far ahead tensors that do not stay in caches are fetched: rows are read side by side, which a
 * CPU does not predict. The four tensors of a batch norm that adds are fetched on CPUs with AMX
 * only: others were slower (docs/lab/performance.md). */
static inline int64_t norm_far(const dt_step *s, bool backward, dt_dtype type)
{
    enum { FAR = 1 << 13, NEAR = 1 << 10 };

    if (!vec_large(&s->out_shape, type))
        return 0;
    if (backward && s->attr.add)
        return dt_isa_current() >= DT_ISA_AMX ? NEAR : 0;
    return DT_MAX(FAR, GROUP * s->out_shape.c);
}

/* ---- Forward ------------------------------------------------------------------------------- */

/* Sums of x - shift over the rows of blocks. The shift is the mean of the block's first quarter: by
 * Cauchy and Schwarz it is at most sqrt(3) standard deviations from the mean of the block, whatever
 * the data, so taking sum^2 / rows from the squares later costs two bits at most. */
static inline void norm_moments_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    const dt_norm_area a = dt_norm_area_of(c);
    norm_rows r = {
        .x = c->in[0], .channels = a.plan.channels, .far = norm_far(c->step, false, type)};

    for (int64_t block = first; block < first + count; block++) {
        const int64_t row = dt_norm_row(&a.plan, block), end = dt_norm_row(&a.plan, block + 1);
        const int64_t quarter = (end - row + 3) / 4;
        float *const shift = dt_norm_work(&a, block, 0);
        float *const sums[2] = {dt_norm_work(&a, block, 1), dt_norm_work(&a, block, 2)};
        norm_block(&r, row, row + quarter, NORM_MEAN, (float *[2]){shift}, type);
#pragma omp simd
        for (int64_t i = 0; i < a.plan.channels; i++)
            shift[i] /= (float)quarter;
        r.mean = shift;
        norm_block(&r, row, end, NORM_SQUARES, sums, type);
    }
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

/* A pass that makes each number of one or two others, and of its channel's coefficients. */
typedef struct norm_pass {
    dt_norm_area area;
    const void *x, *other;
    void *to;
    pair_bits *mask; /* of what ReLU let through, or NULL */
    bool past;
    int64_t far;
} norm_pass;

static inline norm_pass norm_pass_of(const dt_call *c, const void *other, void *to, dt_dtype type)
{
    enum { FAR = 1 << 10 };
    const dt_shape *shape = &c->step->out_shape;

    return (norm_pass){.area = dt_norm_area_of(c),
                       .x = c->in[0],
                       .other = other,
                       .to = to,
                       .mask = dt_norm_mask(c),
                       .past = vec_past(shape, type),
                       .far = vec_large(shape, type) ? FAR : 0};
}

/* Elements [at, at + n), whose coefficients begin at k. */
typedef void norm_pair(const norm_pass *p, int64_t at, int64_t k, int64_t n, bool add, bool relu,
                       dt_dtype type);

/* Rows [first, first + count); `one` and what is fused are constants. */
VECTOR void norm_run(const norm_pass *p, int64_t first, int64_t count, norm_pair *one, bool add,
                     bool relu, dt_dtype type)
{
    const int64_t channels = p->area.plan.channels, end = (first + count) * channels;

    for (int64_t at = first * channels; at < end; at += p->area.wide) {
        const int64_t wide = DT_MIN(p->area.wide, end - at);
        int64_t k = 0;
        for (; k + PAIR <= wide; k += PAIR)
            one(p, at + k, k, PAIR, add, relu, type);
        if (k < wide)
            one(p, at + k, k, wide - k, add, relu, type);
    }
    vec_fence(p->past);
}

VECTOR void norm_fused(const dt_call *c, int64_t first, int64_t count, const norm_pass *p,
                       norm_pair *one, dt_dtype type)
{
    if (c->step->attr.add)
        norm_run(p, first, count, one, true, true, type);
    else if (c->step->attr.relu)
        norm_run(p, first, count, one, false, true, type);
    else
        norm_run(p, first, count, one, false, false, type);
}

VECTOR void norm_apply_pair(const norm_pass *p, int64_t at, int64_t k, int64_t n, bool add,
                            bool relu, dt_dtype type)
{
    vec y[2], other[2] = {{0}};

    pair_fetch(p->x, at, p->far, type);
    pair_get(p->x, at, n, y, type);
    if (add) {
        pair_fetch(p->other, at, p->far, type);
        pair_get(p->other, at, n, other, type);
    }
    for (int h = 0; h < 2; h++, k += VEC_LANES) {
        y[h] = (y[h] - vec_load(p->area.shift + k)) * vec_load(p->area.scale + k) +
               vec_load(p->area.beta + k);
        if (add)
            y[h] += other[h];
        if (relu)
            y[h] = vec_relu(y[h]);
    }
    if (add && p->mask)
        p->mask[at / PAIR] = pair_above(y, norm_least(type));
    pair_put(p->to, at, n, y, p->past, type);
}

static inline void norm_apply_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    const norm_pass p = norm_pass_of(c, c->in[1], c->out, type);
    norm_fused(c, first, count, &p, norm_apply_pair, type);
}

/* ---- Batch norm: backward ---------------------------------------------------------------------
 *
 * dy' is dy where the fused ReLU let it through. If nothing was added before the ReLU, that is
 * recomputed from x by forward's operations: one tensor less to read, and the same answer. */

static inline void norm_sums_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    const dt_norm_area a = dt_norm_area_of(c);
    const norm_rows r = {.x = c->in[0],
                         .d_out = c->d_out,
                         .d_out2 = c->d_out2,
                         .mask = dt_norm_mask(c),
                         .out = c->out,
                         .summand = c->d_in[1],
                         .mean = a.shift,
                         .scale = a.scale,
                         .beta = a.beta,
                         .channels = a.plan.channels,
                         .far = norm_far(c->step, true, type)};

    for (int64_t block = first; block < first + count; block++) {
        float *const sums[2] = {dt_norm_work(&a, block, 0), dt_norm_work(&a, block, 1)};
        const int64_t row = dt_norm_row(&a.plan, block), end = dt_norm_row(&a.plan, block + 1);
        if (c->step->attr.add && c->d_out2)
            norm_block(&r, row, end, NORM_JOIN, sums, type);
        else if (c->step->attr.add)
            norm_block(&r, row, end, NORM_MASK, sums, type);
        else if (c->step->attr.relu)
            norm_block(&r, row, end, NORM_GATE, sums, type);
        else
            norm_block(&r, row, end, NORM_PLAIN, sums, type);
    }
}

static inline void add_to_double(double *restrict to, const float *restrict from, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] += (double)from[i];
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
VECTOR void norm_data_pair(const norm_pass *p, int64_t at, int64_t k, int64_t n, bool add,
                           bool relu, dt_dtype type)
{
    const dt_norm_area *a = &p->area;
    vec x[2], d[2];

    pair_fetch(p->x, at, p->far, type);
    pair_fetch(p->other, at, p->far, type);
    pair_get(p->x, at, n, x, type);
    pair_get(p->other, at, n, d, type);
    for (int h = 0; h < 2; h++, k += VEC_LANES) {
        x[h] -= vec_load(a->shift + k);
        if (relu && !add)
            d[h] = norm_gate(x[h], a->scale + k, a->beta + k, d[h], type);
        d[h] -= vec_load(a->center + k) + x[h] * vec_load(a->slope + k);
        d[h] *= vec_load(a->scale + k);
    }
    pair_put(p->to, at, n, d, p->past, type);
}

static inline void norm_data_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    const norm_pass p =
        norm_pass_of(c, c->step->attr.add ? c->d_in[1] : c->d_out, c->d_in[0], type);
    norm_fused(c, first, count, &p, norm_data_pair, type);
}
#endif

/* loops_norm.h - the part of loops.c for batch norm; private to src/model. */
#ifndef DT_LOOPS_NORM_H
#define DT_LOOPS_NORM_H
#include "loops_vector.h"

/* ---- Sums over the rows of a block --------------------------------------------------------- */

/* What is summed: two numbers for each x. Kinds are constants. */
typedef enum norm_kind {
    NORM_MEAN,    /* x */
    NORM_SQUARES, /* d = x - mean, and its square */
    NORM_PLAIN,   /* backward: dy', and dy' d */
    NORM_GATE,    /* dy' is dy where ReLU, done again, lets x through */
} norm_kind;

/* Tensors and coefficients of all channels; and what is summed, see dt_rows_take. */
typedef struct norm_rows {
    dt_rows_block block;
    int64_t first, count; /* channels */
    bool staged;
    void *made;            /* x, or backward d_out: the tensor, or staged rows of these channels */
    int64_t wide;          /* numbers from one of its rows to the next */
    void *to;              /* the tensor of x, where staged rows are to go, or NULL */
    const void *x, *dy;    /* backward; dy lies as `made` */
    void *summand;         /* where dy' goes, if it is more than dy; may be d_out; or NULL */
    const void *d_out2;    /* is added, or NULL */
    const pair_bits *mask; /* what forward's ReLU let through, */
    const void *out;       /* or where no mask is kept, what it gave */
    const float *mean, *scale, *beta;
    int64_t channels, far;
} norm_rows;

/* Where some columns of a row are. */
typedef struct norm_place {
    int64_t at, made, col; /* in tensors; in what was made; in coefficients */
} norm_place;

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
    if (!r->mask)
        pair_through(r->out, at, n, d, type);
    for (int h = 0; r->mask && h < 2; h++)
        d[h] = vec_keep(vec_mask((unsigned)r->mask[at / PAIR] >> h * VEC_LANES), d[h]);
}

/* dy' of some neighbouring rows where ReLU and a second gradient make it: rounded once. */
VECTOR void norm_join(const norm_rows *r, norm_place p, int64_t count, int64_t rows, dt_dtype type)
{
    for (int64_t row = 0; row < rows; row++, p.at += r->channels, p.made += r->wide)
        for (int64_t c = 0, n; c < count; c += n) {
            vec d[2], second[2];
            n = DT_MIN(PAIR, count - c);
            pair_fetch(r->x, p.at + c, r->far, type);
            pair_get(r->made, p.made + c, n, d, type);
            if (r->d_out2) {
                pair_fetch(r->d_out2, p.at + c, r->far, type);
                pair_get(r->d_out2, p.at + c, n, second, type);
                for (int h = 0; h < 2; h++)
                    d[h] += second[h];
            }
            norm_through(r, p.at + c, n, d, type);
            pair_put(r->summand, p.at + c, n, d, r->staged, type);
            if (r->staged)
                pair_put_exact(r->made, p.made + c, n, d, false, type);
        }
}

VECTOR void norm_add(float *to, const vec v[2])
{
    for (int h = 0; h < 2; h++)
        *(vec_floats *)(to + h * VEC_LANES) += v[h];
}

/* Adds the sums of n columns over `group` rows. */
VECTOR void norm_columns(const norm_rows *r, norm_place p, int64_t n, int64_t group, norm_kind kind,
                         float *const to[2], dt_dtype type)
{
    const bool backward = kind >= NORM_PLAIN;
    vec sum[2] = {{0}}, product[2] = {{0}}, x[2], d[2];

    for (int64_t g = 0; g < group; g++, p.at += r->channels, p.made += r->wide) {
        if (!r->summand)
            pair_fetch(backward ? r->x : r->made, backward ? p.at : p.made, r->far, type);
        pair_get(backward ? r->x : r->made, backward ? p.at : p.made, n, x, type);
        for (int h = 0; kind > NORM_MEAN && h < 2; h++)
            x[h] -= vec_load(r->mean + p.col + h * VEC_LANES);
        if (backward && !r->summand)
            pair_fetch(r->dy, p.made, r->far, type);
        if (backward)
            pair_get(r->dy, p.made, n, d, type);
        else
            memcpy(d, x, sizeof d);
        for (int h = 0; h < 2; h++) {
            if (kind == NORM_GATE)
                d[h] = norm_gate(x[h], r->scale + p.col + h * VEC_LANES,
                                 r->beta + p.col + h * VEC_LANES, d[h], type);
            sum[h] += d[h];
            product[h] += d[h] * x[h];
        }
    }
    norm_add(to[0] + p.col, sum);
    if (kind > NORM_MEAN)
        norm_add(to[1] + p.col, product);
}

/* Some rows go where they belong, past the caches. */
VECTOR void norm_store(const norm_rows *r, norm_place p, int64_t count, int64_t rows, dt_dtype type)
{
    const int64_t each = (int64_t)dt_dtype_bytes(type);

    for (int64_t row = 0; row < rows; row++, p.at += r->channels, p.made += r->wide)
        for (int64_t i = 0; i < count * each; i += (int64_t)sizeof(vec_halves))
            vec_store((char *)r->to + p.at * each + i,
                      *(const pair_bf16 *)((char *)r->made + p.made * each + i), true);
}

enum { GROUP = 4 }; /* rows added before a running sum is touched */

/* Sums of `count` columns of up to GROUP neighbouring rows. */
VECTOR void norm_group(const norm_rows *r, norm_place p, int64_t count, int64_t group,
                       norm_kind kind, float *const to[2], dt_dtype type)
{
    if (kind == NORM_PLAIN && r->summand)
        norm_join(r, p, count, group, type);
    for (int64_t c = 0; c < count; c += PAIR) {
        const norm_place here = {p.at + c, p.made + c, p.col + c};
        const int64_t n = DT_MIN(PAIR, count - c);
        if (group == GROUP && n == PAIR)
            norm_columns(r, here, PAIR, GROUP, kind, to, type);
        else
            norm_columns(r, here, n, group, kind, to, type);
    }
    if (kind == NORM_SQUARES && r->to)
        norm_store(r, p, count, group, type);
}

/* Sums of `count` columns of neighbouring rows, of which the first begins at p. */
VECTOR void norm_run_rows(const norm_rows *r, norm_place p, int64_t count, int64_t rows,
                          norm_kind kind, float *const to[2], dt_dtype type)
{
    enum { STRIP = 256 }; /* columns of which a group stays in the first-level cache */

    for (int64_t row = 0; row < rows; row += GROUP)
        for (int64_t c = 0; c < count; c += STRIP) {
            const norm_place at = {p.at + row * r->channels + c, p.made + row * r->wide + c,
                                   p.col + c};
            norm_group(r, at, DT_MIN(STRIP, count - c), DT_MIN(rows - row, GROUP), kind, to, type);
        }
}

/* Sums of the first `rows` rows to `to`. */
VECTOR void norm_block(const norm_rows *r, int64_t rows, norm_kind kind, float *const to[2],
                       dt_dtype type)
{
    const dt_rows_block *b = &r->block;
    int64_t made = 0;

    for (int k = 0; k < 1 + (kind > NORM_MEAN); k++)
        memset(to[k] + r->first, 0, (size_t)r->count * sizeof(float));
    for (int64_t run = 0, count; made < rows; run++, made += count) {
        const int64_t row = b->first + run / b->images * b->fold + run % b->images * b->image;
        const int64_t at = row * r->channels + r->first;
        count = DT_MIN(b->pixels, rows - made);
        norm_run_rows(r, (norm_place){at, r->staged ? made * r->wide : at, r->first}, r->count,
                      count, kind, to, type);
    }
}

/* How far ahead tensors are fetched that do not stay in caches: rows are read side by side, which a
 * CPU does not predict. A convolution has just made its own, and what is read beside it is far. The
 * four tensors of a batch norm that adds and is not fed are fetched on CPUs with AMX only: others
 * were slower (docs/lab/performance.md). */
static inline int64_t norm_far(const dt_step *s, dt_way way, dt_dtype type)
{
    enum { FAR = 1 << 13, NEAR = 1 << 10 };

    if (s->fed_by[way] >= 0)
        return way == DT_BACKWARD ? GROUP * s->out_shape.c : 0;
    if (!vec_large(&s->out_shape, type))
        return 0;
    if (way == DT_BACKWARD && s->attr.add)
        return dt_isa_current() >= DT_ISA_AMX ? NEAR : 0;
    return DT_MAX(FAR, GROUP * s->out_shape.c);
}

/* ---- Forward ------------------------------------------------------------------------------- */

/* Sums of x - shift over the rows of blocks. The shift is the mean of the block's first quarter: by
 * Cauchy and Schwarz it is at most sqrt(3) standard deviations from the mean of the block, whatever
 * the data, so taking sum^2 / rows from the squares later costs two bits at most. */
static inline void norm_moments_as(const dt_call *c, int64_t block, int64_t first, int64_t count,
                                   void *rows, dt_dtype type)
{
    const int64_t channels = c->step->out_shape.c;
    float *const shift = dt_norm_work(c, DT_FORWARD, block, 0);
    float *const sums[2] = {dt_norm_work(c, DT_FORWARD, block, 1),
                            dt_norm_work(c, DT_FORWARD, block, 2)};
    void *const x = (void *)(uintptr_t)c->in[0]; /* where a convolution leaves it to store them */
    const norm_rows r = {.block = dt_rows_at(&c->step->rows[DT_FORWARD], block),
                         .first = first,
                         .count = count,
                         .staged = rows != NULL,
                         .made = rows ? rows : x,
                         .wide = rows ? count : channels,
                         .to = rows ? x : NULL,
                         .mean = shift,
                         .channels = channels,
                         .far = norm_far(c->step, DT_FORWARD, type)};
    const int64_t all = dt_rows_in(&r.block), quarter = (all + 3) / 4;

    norm_block(&r, quarter, NORM_MEAN, (float *[2]){shift}, type);
#pragma omp simd
    for (int64_t i = first; i < first + count; i++)
        shift[i] /= (float)quarter;
    norm_block(&r, all, NORM_SQUARES, sums, type);
    dt_stream_fence();
}

/* Merge a block of n rows into the moments of the `before` rows before it. */
static inline void norm_fold(double *restrict mean, double *restrict m2, const float *shift,
                             int64_t stride, double before, double n, int64_t channels)
{
    const float *restrict sum = shift + stride, *restrict square = sum + stride;
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
static inline void norm_merge_lanes(const dt_call *c, int64_t at, int64_t lanes)
{
    const dt_norm_area a = dt_norm_area_of(c);
    const dt_rows *rows = &c->step->rows[DT_FORWARD];
    double *restrict mean = dt_norm_sum(&a, 0) + at, *restrict m2 = dt_norm_sum(&a, 1) + at;
    double before = 0;

    for (int64_t part = 0; part < dt_norm_parts(rows); part++) {
        double part_mean[NORM_LANES] = {0}, part_m2[NORM_LANES] = {0}, n = 0;
        for (int64_t b = dt_norm_part(rows, part); b < dt_norm_part(rows, part + 1); b++) {
            const dt_rows_block block = dt_rows_at(rows, b);
            const float *work = dt_norm_work(c, DT_FORWARD, b, 0) + at;
            norm_fold(part_mean, part_m2, work, a.stride, n, (double)dt_rows_in(&block), lanes);
            n += (double)dt_rows_in(&block);
        }
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) {
            const dt_moment one = {n, part_mean[i], part_m2[i]};
            const dt_moment all = dt_moment_merge((dt_moment){before, mean[i], m2[i]}, one);
            mean[i] = all.mean;
            m2[i] = all.m2;
        }
        before += n;
    }
}

static inline void norm_merge_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    (void)type;
    for (int64_t at = first, left; (left = first + count - at) > 0; at += NORM_LANES)
        norm_merge_lanes(c, at, DT_MIN(left, NORM_LANES));
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
    const int64_t channels = p->area.channels, end = (first + count) * channels;

    for (int64_t at = first * channels; at < end; at += p->area.wide) {
        const int64_t wide = DT_MIN(p->area.wide, end - at);
        int64_t k = 0;
        for (; k + PAIR <= wide; k += PAIR)
            one(p, at + k, k, PAIR, add, relu, type);
        if (k < wide)
            one(p, at + k, k, wide - k, add, relu, type);
    }
    dt_stream_fence();
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

static inline void norm_sums_as(const dt_call *c, int64_t block, int64_t first, int64_t count,
                                void *rows, dt_dtype type)
{
    const dt_norm_area a = dt_norm_area_of(c);
    const bool add = c->step->attr.add;
    float *const sums[2] = {dt_norm_work(c, DT_BACKWARD, block, 0),
                            dt_norm_work(c, DT_BACKWARD, block, 1)};
    void *const d_out = (void *)(uintptr_t)c->d_out;
    const norm_rows r = {.block = dt_rows_at(&c->step->rows[DT_BACKWARD], block),
                         .first = first,
                         .count = count,
                         .staged = rows != NULL,
                         .made = rows ? rows : d_out,
                         .wide = rows ? count : a.channels,
                         .x = c->in[0],
                         .dy = rows  ? rows
                               : add ? c->d_in[1]
                                     : d_out,
                         .summand = add ? c->d_in[1] : NULL,
                         .d_out2 = c->d_out2,
                         .mask = dt_norm_mask(c),
                         .out = c->out,
                         .mean = c->saved,
                         .scale = a.scale,
                         .beta = a.beta,
                         .channels = a.channels,
                         .far = norm_far(c->step, DT_BACKWARD, type)};

    if (c->step->attr.relu && !add)
        norm_block(&r, dt_rows_in(&r.block), NORM_GATE, sums, type);
    else
        norm_block(&r, dt_rows_in(&r.block), NORM_PLAIN, sums, type);
    dt_stream_fence();
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
    const dt_rows *rows = &c->step->rows[DT_BACKWARD];

    (void)type;
    for (int k = 0; k < 2; k++)
        for (int64_t at = first, lanes; at < first + count; at += lanes) {
            double *restrict to = dt_norm_sum(&a, k) + at;
            const int64_t left = first + count - at;
            lanes = DT_MIN(left, NORM_LANES);
            for (int64_t part = 0; part < dt_norm_parts(rows); part++) {
                double sum[NORM_LANES] = {0};
                for (int64_t b = dt_norm_part(rows, part); b < dt_norm_part(rows, part + 1); b++)
                    add_to_double(sum, dt_norm_work(c, DT_BACKWARD, b, k) + at, lanes);
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

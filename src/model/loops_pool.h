/* loops_pool.h - the part of loops.c for pooling; private to src/model.
 *
 * A spot is up to LANES channels of one pixel: of the output going forward, of the input going
 * backward. Its values lie in small arrays while the positions of the other tensor that belong to
 * it are visited in row-major order. */
#ifndef DT_LOOPS_POOL_H
#define DT_LOOPS_POOL_H
#include "loops_vector.h"

enum { LANES = 64 };

typedef struct pool_range {
    int64_t first, last; /* last is not part of it */
} pool_range;

typedef struct pool_spot {
    int64_t at;        /* first element of the spot */
    int64_t lanes;     /* 1..LANES */
    pool_range y, x;   /* forward: kernel positions; backward: output pixels */
    int64_t base;      /* first element of position (0, 0); positions follow by `pitch` */
    int64_t pitch[2];  /* elements from row to row, from pixel to pixel */
    int64_t origin[2]; /* backward: the input pixel counted from the padding's edge */
} pool_spot;

static inline int64_t pool_spots(const dt_shape *s)
{
    return s->w * ((s->c + LANES - 1) / LANES);
}

/* The kernel positions of output `o` that lie on the input. */
static inline pool_range pool_taps(const dt_attr *a, int d, int64_t o, int64_t in)
{
    const int64_t start = o * a->stride[d] - a->pad[d];
    return (pool_range){start < 0 ? -start : 0,
                        start + a->kernel[d] > in ? in - start : a->kernel[d]};
}

/* The outputs whose window holds input `i`. */
static inline pool_range pool_windows(const dt_attr *a, int d, int64_t i, int64_t out)
{
    const int64_t before = i + a->pad[d] - a->kernel[d];
    const int64_t last = (i + a->pad[d]) / a->stride[d] + 1;
    return (pool_range){before < 0 ? 0 : before / a->stride[d] + 1, last < out ? last : out};
}

/* Spot i of an output row. */
static inline pool_spot pool_forward(const dt_call *c, int64_t row, int64_t i)
{
    const dt_shape *in = &c->step->in_shape[0], *out = &c->step->out_shape;
    const dt_attr *a = &c->step->attr;
    const int64_t ox = i % out->w, ch = i / out->w * LANES;
    const int64_t image = row / out->h, oy = row % out->h;
    const int64_t iy = oy * a->stride[0] - a->pad[0], ix = ox * a->stride[1] - a->pad[1];

    return (pool_spot){.at = (row * out->w + ox) * out->c + ch,
                       .lanes = DT_MIN(out->c - ch, LANES),
                       .y = pool_taps(a, 0, oy, in->h),
                       .x = pool_taps(a, 1, ox, in->w),
                       .base = ((image * in->h + iy) * in->w + ix) * in->c + ch,
                       .pitch = {in->w * in->c, in->c}};
}

/* Spot i of an input row. */
static inline pool_spot pool_backward(const dt_call *c, int64_t row, int64_t i)
{
    const dt_shape *in = &c->step->in_shape[0], *out = &c->step->out_shape;
    const dt_attr *a = &c->step->attr;
    const int64_t ix = i % in->w, ch = i / in->w * LANES;
    const int64_t image = row / in->h, iy = row % in->h;

    return (pool_spot){.at = (row * in->w + ix) * in->c + ch,
                       .lanes = DT_MIN(in->c - ch, LANES),
                       .y = pool_windows(a, 0, iy, out->h),
                       .x = pool_windows(a, 1, ix, out->w),
                       .base = image * out->h * out->w * out->c + ch,
                       .pitch = {out->w * out->c, out->c},
                       .origin = {iy + a->pad[0], ix + a->pad[1]}};
}

/* ---- Maximum: saves for each output the kernel position that won, row-major ----- */

static inline void maxpool_tap(const void *restrict x, int64_t from, int32_t tap,
                               float *restrict best, int32_t *restrict won, int64_t lanes,
                               dt_dtype type)
{
#pragma omp simd
    for (int64_t l = 0; l < lanes; l++) {
        const float v = get(x, from + l, type);
        const bool wins = (v > best[l]) | (v != v);
        best[l] = wins ? v : best[l];
        won[l] = wins ? tap : won[l];
    }
}

/* The first of equals wins; a NaN wins, as in PyTorch. */
static inline void maxpool_spot(const dt_call *c, const pool_spot *s, int64_t lanes, dt_dtype type)
{
    const int64_t width = c->step->attr.kernel[1];
    uint8_t *saved = c->saved;
    float best[LANES];
    int32_t won[LANES];

#pragma omp simd
    for (int64_t l = 0; l < lanes; l++) {
        best[l] = -INFINITY;
        won[l] = (int32_t)(s->y.first * width + s->x.first);
    }
    for (int64_t y = s->y.first; y < s->y.last; y++)
        for (int64_t x = s->x.first; x < s->x.last; x++)
            maxpool_tap(c->in[0], s->base + y * s->pitch[0] + x * s->pitch[1],
                        (int32_t)(y * width + x), best, won, lanes, type);
#pragma omp simd
    for (int64_t l = 0; l < lanes; l++)
        put(c->out, s->at + l, best[l], type);
#pragma omp simd
    for (int64_t l = 0; l < lanes; l++)
        saved[s->at + l] = (uint8_t)won[l];
}

/* The same for a whole window with a side that is a constant, so that all stays in registers.
 * The maximum needs no rounding. */
static inline void maxpool_window(const dt_call *c, const pool_spot *s, int side, dt_dtype type)
{
    const void *restrict in = c->in[0];
    void *restrict out = c->out;
    uint8_t *restrict saved = c->saved;

#pragma omp simd
    for (int64_t l = 0; l < LANES; l++) {
        float best = -INFINITY;
        int32_t won = 0;
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++) {
                const float v = get(in, s->base + y * s->pitch[0] + x * s->pitch[1] + l, type);
                const bool wins = (v > best) | (v != v);
                best = wins ? v : best;
                won = wins ? y * side + x : won;
            }
        put(out, s->at + l, best, type);
        saved[s->at + l] = (uint8_t)won;
    }
}

/* Windows of this side whose positions all lie on the input. */
static inline bool maxpool_whole(const pool_spot *s, const dt_attr *a, int side)
{
    return s->lanes == LANES && a->kernel[0] == side && a->kernel[1] == side &&
           s->y.last - s->y.first == side && s->x.last - s->x.first == side;
}

static inline void maxpool_forward_as(const dt_call *c, int64_t first, int64_t count, dt_dtype type)
{
    for (int64_t row = first; row < first + count; row++)
        for (int64_t i = 0; i < pool_spots(&c->step->out_shape); i++) {
            const pool_spot s = pool_forward(c, row, i);
            if (maxpool_whole(&s, &c->step->attr, 3))
                maxpool_window(c, &s, 3, type);
            else if (maxpool_whole(&s, &c->step->attr, 2))
                maxpool_window(c, &s, 2, type);
            else if (s.lanes == LANES)
                maxpool_spot(c, &s, LANES, type);
            else
                maxpool_spot(c, &s, s.lanes, type);
        }
}

/* The gradients of the windows that hold the pixel and that it won. */
static inline void maxpool_gather(const dt_call *c, const pool_spot *s, int64_t lanes,
                                  dt_dtype type)
{
    const dt_attr *a = &c->step->attr;
    const uint8_t *restrict won = c->saved;
    const void *restrict dy = c->d_out;
    float sum[LANES] = {0};

    for (int64_t y = s->y.first; y < s->y.last; y++)
        for (int64_t x = s->x.first; x < s->x.last; x++) {
            const int64_t from = s->base + y * s->pitch[0] + x * s->pitch[1];
            const int32_t tap = (int32_t)((s->origin[0] - y * a->stride[0]) * a->kernel[1] +
                                          s->origin[1] - x * a->stride[1]);
#pragma omp simd
            for (int64_t l = 0; l < lanes; l++) {
                const float d = get(dy, from + l, type);
                sum[l] += won[from + l] == tap ? d : 0;
            }
        }
#pragma omp simd
    for (int64_t l = 0; l < lanes; l++)
        put(c->d_in[0], s->at + l, sum[l], type);
}

static inline void maxpool_backward_as(const dt_call *c, int64_t first, int64_t count,
                                       dt_dtype type)
{
    for (int64_t row = first; row < first + count; row++)
        for (int64_t i = 0; i < pool_spots(&c->step->in_shape[0]); i++) {
            const pool_spot s = pool_backward(c, row, i);
            if (s.lanes == LANES)
                maxpool_gather(c, &s, LANES, type);
            else
                maxpool_gather(c, &s, s.lanes, type);
        }
}

/* ---- Average over the image ----------------------------------------------------- */

/* Row sums are added to the total, so that no float32 sum is longer than a side. */
static inline void globalavgpool_spot(const dt_call *c, int64_t image, int64_t first, int64_t lanes,
                                      dt_dtype type)
{
    const dt_shape *in = &c->step->in_shape[0];
    const float area = (float)(in->h * in->w);
    float total[LANES] = {0};

    for (int64_t y = 0; y < in->h; y++) {
        float sum[LANES] = {0};
        for (int64_t x = 0; x < in->w; x++) {
            const int64_t from = ((image * in->h + y) * in->w + x) * in->c + first;
#pragma omp simd
            for (int64_t l = 0; l < lanes; l++)
                sum[l] += get(c->in[0], from + l, type);
        }
#pragma omp simd
        for (int64_t l = 0; l < lanes; l++)
            total[l] += sum[l];
    }
#pragma omp simd
    for (int64_t l = 0; l < lanes; l++)
        put(c->out, image * in->c + first + l, total[l] / area, type);
}

static inline void globalavgpool_forward_as(const dt_call *c, int64_t first, int64_t count,
                                            dt_dtype type)
{
    const int64_t channels = c->step->in_shape[0].c;

    for (int64_t image = first; image < first + count; image++)
        for (int64_t ch = 0; ch < channels; ch += LANES)
            globalavgpool_spot(c, image, ch, DT_MIN(channels - ch, LANES), type);
}

static inline void globalavgpool_backward_as(const dt_call *c, int64_t first, int64_t count,
                                             dt_dtype type)
{
    const dt_shape *in = &c->step->in_shape[0];
    const float area = (float)(in->h * in->w);
    const void *restrict dy = c->d_out;
    void *restrict dx = c->d_in[0];

    for (int64_t pixel = first * in->h * in->w; pixel < (first + count) * in->h * in->w; pixel++) {
        const int64_t from = pixel / (in->h * in->w) * in->c;
#pragma omp simd
        for (int64_t i = 0; i < in->c; i++)
            put(dx, pixel * in->c + i, get(dy, from + i, type) / area, type);
    }
}
#endif

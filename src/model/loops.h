/* loops.h - the inner loops of the operations that have no matrix product; private to
 * src/model and to extra/costs.
 *
 * loops.c is plain C whose inner loops run over channels or elements without a branch.
 * It is compiled once as it is and once for each instruction set (loops_avx2.c, loops_avx512.c,
 * loops_avx512_bf16.c). The compiler makes vectors of it, or loops_vector.h does.
 * There is no FMA and no sum across lanes, so all of them give the same bits. */
#ifndef DT_LOOPS_H
#define DT_LOOPS_H
#include "op.h"

/* Items [first, first + count) of a call. An item is what a thread may take on its own:
 * its result depends on nothing but its index. */
typedef void (*dt_loop)(const dt_call *c, int64_t first, int64_t count);

/* Loops that are a whole pass, a dt_op.forward or backward: name, items, and the member of the call
 * without which there is nothing to do. */
#define DT_PASS_LIST(X)                                                                            \
    X(fork_backward, elements, d_in[0])                                                            \
    X(add_forward, elements, out)                                                                  \
    X(add_backward, elements, d_out)                                                               \
    X(relu_forward, elements, out)                                                                 \
    X(relu_backward, elements, d_in[0])                                                            \
    X(gelu_forward, elements, out)                                                                 \
    X(gelu_backward, elements, d_in[0])                                                            \
    X(maxpool_forward, windows, out)                                                               \
    X(maxpool_backward, lines, d_in[0])                                                            \
    X(globalavgpool_forward, images, out)                                                          \
    X(globalavgpool_backward, images, d_in[0])
#define DT_LOOP_LIST(X) /* name, items */                                                          \
    DT_PASS_LIST(X)                                                                                \
    X(norm_merge, channels, )                                                                      \
    X(norm_apply, rows, )                                                                          \
    X(norm_total, channels, )                                                                      \
    X(norm_data, rows, )

typedef struct dt_loops {
    const char *isa;
#define X(name, items, needs) dt_loop name;
    DT_LOOP_LIST(X)
#undef X
    dt_rows_take *norm_sum[DT_WAYS]; /* context: the batch norm's dt_call */
} dt_loops;
#define X(name, items, needs) void dt_##name(const dt_call *c);
DT_PASS_LIST(X)
#undef X
extern const dt_loops dt_loops_portable, dt_loops_avx2, dt_loops_avx512, dt_loops_avx512_bf16;

/* The set for dt_isa_current(). */
const dt_loops *dt_loops_current(void);
/* dt_op.prepare of operations that only have to name their loops. */
dt_status dt_loops_prepare(dt_step *s, dt_model *m);
/* Run all items, neighbouring ones on one thread. At most ceil(items / grain) of the step's threads
 * take part; if one does, no other is woken. */
void dt_loop_run(const dt_call *c, dt_loop loop, int64_t items, int64_t grain);
enum { DT_LOOP_GRAIN = 1 << 15 };                 /* elements worth a thread's while: some 10 us */
static inline int64_t dt_loop_grain(int64_t work) /* of items of so many elements */
{
    return work < DT_LOOP_GRAIN ? DT_LOOP_GRAIN / work : 1;
}

/* ---- Batch norm ----------------------------------------------------------------- */

/* Rows (images x pixels) are summed over by blocks (rows.h): those of a convolution, else
 * DT_NORM_ROWS or fewer, which stay in the second-level cache and are what threads take. A part is
 * some neighbouring blocks. A block is summed in float32; blocks, then parts, are added in their
 * order in float64. */
enum {
    DT_NORM_PARTS = 32,
    DT_NORM_ROWS = 512,
    DT_NORM_ELEMENTS = 1 << 16,
    DT_NORM_WIDE = 512,
    DT_NORM_MERGED = 16, /* channels whose sums a thread adds up, at least */
    DT_NORM_COEFS = 5
};
enum { DT_PAIR_MOST = 32 }; /* numbers of the widest pair of vectors, see loops_vector.h */

/* Without a convolution: the rows of a block, and all blocks; the same where a layer is cut. */
static inline int64_t dt_norm_block(const dt_step *s)
{
    const int64_t rows = DT_NORM_ELEMENTS / (s->cut ? s->out_cut.whole : s->out_shape.c);
    return rows > DT_NORM_ROWS ? DT_NORM_ROWS : rows < 16 ? 16 : rows;
}
static inline dt_rows dt_norm_rows(const dt_step *s)
{
    return (dt_rows){1, 1, s->out_shape.n * s->out_shape.h * s->out_shape.w, dt_norm_block(s),
                     1, 1};
}
/* First block of a part; part `parts` starts at the end. */
static inline int64_t dt_norm_parts(const dt_rows *r)
{
    return DT_MIN(dt_rows_blocks(r), DT_NORM_PARTS);
}
static inline int64_t dt_norm_part(const dt_rows *r, int64_t part)
{
    return dt_rows_blocks(r) * part / dt_norm_parts(r);
}

/* The areas of a call; a vector has `stride` elements, channels rounded up to DT_PAIR_MOST.
 *   saved    mean, inverse standard deviation: float32; where dt_norm_masks says so, a bit for each
 *            number of which forward's ReLU let it through
 *   sums     of each block three vectors of float32, backward two
 *   scratch  two vectors of float64, over all rows; then the coefficients, float32.
 * Coefficients of few channels are repeated to `wide` elements: as many whole pixels as go into
 * DT_NORM_WIDE, so that a loop over channels is a long one. */
typedef struct dt_norm_area {
    int64_t rows, channels, stride, wide;
    double *sum;
    float *shift; /* subtracted from x: the mean */
    float *scale; /* gamma / std */
    float *beta;
    float *center; /* backward: mean of dy' */
    float *slope;  /* backward: mean of dy' xhat, / std */
} dt_norm_area;

static inline int64_t dt_norm_stride(int64_t channels)
{
    return (int64_t)dt_align((size_t)channels, DT_PAIR_MOST);
}
static inline int64_t dt_norm_wide(int64_t channels)
{
    return channels < DT_NORM_WIDE ? DT_NORM_WIDE / channels * channels : channels;
}
/* Backward reads a bit for each number in place of the output. */
static inline bool dt_norm_masks(const dt_step *s)
{
    return s->mode == DT_TRAIN && s->attr.add && s->out_shape.c % DT_PAIR_MOST == 0;
}
static inline size_t dt_norm_saved_bytes(const dt_step *s)
{
    const size_t bits = dt_norm_masks(s) ? (size_t)dt_shape_count(&s->out_shape) : 0;
    return (size_t)dt_norm_stride(s->out_shape.c) * 2 * sizeof(float) + bits / 8;
}
static inline void *dt_norm_mask(const dt_call *c)
{
    const int64_t stride = dt_norm_stride(c->step->out_shape.c);
    return dt_norm_masks(c->step) ? (float *)c->saved + 2 * stride : NULL;
}
static inline size_t dt_norm_sums_bytes(const dt_step *s, dt_way way)
{
    const size_t vectors = (size_t)dt_rows_blocks(&s->rows[way]) * (way == DT_FORWARD ? 3 : 2);
    return vectors * (size_t)dt_norm_stride(s->out_shape.c) * sizeof(float);
}
static inline size_t dt_norm_scratch_bytes(const dt_step *s)
{
    const int64_t channels = s->out_shape.c;
    return (size_t)dt_norm_stride(channels) * 2 * sizeof(double) +
           (size_t)dt_norm_stride(dt_norm_wide(channels)) * DT_NORM_COEFS * sizeof(float);
}
static inline dt_norm_area dt_norm_area_of(const dt_call *c)
{
    const dt_shape *s = &c->step->out_shape;
    const int64_t wide = dt_norm_wide(s->c), stride = dt_norm_stride(s->c);
    const int64_t each = dt_norm_stride(wide);
    double *sum = c->scratch;
    float *coef = (float *)(sum + 2 * stride);
    return (dt_norm_area){.rows = s->n * s->h * s->w,
                          .channels = s->c,
                          .stride = stride,
                          .wide = wide,
                          .sum = sum,
                          .shift = coef,
                          .scale = coef + each,
                          .beta = coef + 2 * each,
                          .center = coef + 3 * each,
                          .slope = coef + 4 * each};
}
/* k = 0, 1: the float64 vectors; mean and m2, or the sums of dy' and of dy' (x - mean). */
static inline double *dt_norm_sum(const dt_norm_area *a, int k)
{
    return a->sum + k * a->stride;
}
/* The float32 vectors of a block: shift, sum and squares of x - shift; or both sums. */
static inline float *dt_norm_work(const dt_call *c, dt_way way, int64_t block, int k)
{
    const int64_t vectors = way == DT_FORWARD ? 3 : 2;
    return c->sums[way] + (vectors * block + k) * dt_norm_stride(c->step->out_shape.c);
}
#endif

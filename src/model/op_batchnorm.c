/* op_batchnorm.c - batch norm (Ioffe & Szegedy 2015), and in the same pass, where the network says
 * so, ReLU, or the sum with in[1] and then ReLU. Training normalises with the batch's own mean and
 * biased variance and reports its moments, or with those of its group of shards (the sums of
 * backward likewise: Ioffe & Szegedy's formulas over the union); evaluation with the running
 * statistics.
 *
 *   param     gamma, beta [c]
 *   saved     mean, inverse standard deviation [c] float32; with a sum, a bit for each number
 *   backward  reads in[0]; with a sum the bits, or out where dt_norm_masks says no. d_in[1], the
 *             gradient of the other summand, may be d_out's memory; d_out2 only with a sum */
#include "loops.h"

static void batchnorm_declare(dt_net *net, dt_node *n, const dt_shape *in)
{
    const float *gamma = n->attr.init_gamma;

    dt_declare_param(net, n, "weight", DT_GAMMA, 1, &in[0].c,
                     (dt_init){.low = gamma[0], .high = gamma[1]});
    dt_declare_param(net, n, "bias", DT_BETA, 1, &in[0].c, (dt_init){.low = 0});
    dt_declare_norm(net, n, in[0].c);
}

static dt_status batchnorm_prepare(dt_step *s, dt_model *m)
{
    for (int way = 0; way < (s->mode == DT_TRAIN ? DT_WAYS : 0); way++) {
        if (s->rows[way].width == 0)
            s->rows[way] = dt_norm_rows(s);
        s->sums_bytes[way] = dt_norm_sums_bytes(s, (dt_way)way);
    }
    s->saves = DT_SAVE_IN0 | (s->attr.add && !dt_norm_masks(s) ? DT_SAVE_OUT : 0u);
    s->saved_bytes = dt_norm_saved_bytes(s);
    s->scratch_bytes = dt_norm_scratch_bytes(s);
    return dt_loops_prepare(s, m);
}

/* ---- Sums over a block of rows -------------------------------------------------- */

static void batchnorm_moments(const dt_call *c, int64_t first, int64_t count)
{
    for (int64_t block = first; block < first + count; block++)
        dt_loops_current()->norm_sum[DT_FORWARD](c, block, 0, c->step->out_shape.c, NULL);
}

static void batchnorm_sums(const dt_call *c, int64_t first, int64_t count)
{
    for (int64_t block = first; block < first + count; block++)
        dt_loops_current()->norm_sum[DT_BACKWARD](c, block, 0, c->step->out_shape.c, NULL);
}

/* Of all blocks, unless a convolution has seen to it. */
static void batchnorm_sum(const dt_call *c, dt_way way)
{
    if (c->step->fed_by[way] < 0)
        dt_loop_run(c, way == DT_FORWARD ? batchnorm_moments : batchnorm_sums,
                    dt_rows_blocks(&c->step->rows[way]), 1);
}

/* ---- Forward -------------------------------------------------------------------- */

/* Mean and inverse standard deviation of channel i to `saved`. */
static void batchnorm_save(const dt_call *c, const dt_norm_area *a, int64_t i, dt_moment m)
{
    float *mean = c->saved, *inverse = mean + a->stride;

    mean[i] = (float)m.mean;
    inverse[i] = (float)(1 / sqrt(m.m2 / m.count + (double)c->step->attr.eps));
}

/* Moments of the batch, of some channels: to the caller, to `saved`, and to the group. */
static void batchnorm_merge(const dt_call *c, int64_t first, int64_t count)
{
    const dt_norm_area a = dt_norm_area_of(c);

    dt_loops_current()->norm_merge(c, first, count);
    for (int64_t i = first; i < first + count; i++) {
        const dt_moment m = {(double)a.rows, dt_norm_sum(&a, 0)[i], dt_norm_sum(&a, 1)[i]};
        if (c->moments)
            c->moments[i] = m;
        if (c->local)
            ((dt_moment *)c->local)[i] = m;
        batchnorm_save(c, &a, i, m);
    }
}

/* Repeats the coefficients of the channels, see dt_norm_area. */
static void batchnorm_widen(const dt_norm_area *a)
{
    float *const coef[DT_NORM_COEFS] = {a->shift, a->scale, a->beta, a->center, a->slope};

    for (int k = 0; k < DT_NORM_COEFS; k++)
        for (int64_t i = a->channels; i < a->wide; i++)
            coef[k][i] = coef[k][i - a->channels];
}

/* y = (x - shift) scale + beta. Training: with what is in `saved`; evaluation: with the running
 * statistics. */
static void batchnorm_line(const dt_call *c, const dt_norm_area *a)
{
    const bool train = c->step->mode == DT_TRAIN;
    const float *mean = train ? c->saved : c->running_mean;

    for (int64_t i = 0; i < a->channels; i++) {
        const float inverse =
            train ? mean[a->stride + i]
                  : (float)(1 / sqrt((double)c->running_var[i] + (double)c->step->attr.eps));
        a->shift[i] = mean[i];
        a->scale[i] = c->param[0][i] * inverse;
        a->beta[i] = c->param[1][i];
    }
}

static void batchnorm_forward_local(const dt_call *c)
{
    batchnorm_sum(c, DT_FORWARD);
    dt_loop_run(c, batchnorm_merge, c->step->out_shape.c, DT_NORM_MERGED);
}

static void batchnorm_forward_shared(const dt_call *c)
{
    const dt_norm_area a = dt_norm_area_of(c);

    for (int64_t i = 0; c->local && i < a.channels; i++)
        batchnorm_save(c, &a, i, ((const dt_moment *)c->shared)[i]);
    batchnorm_line(c, &a);
    batchnorm_widen(&a);
    dt_loop_run(c, dt_loops_current()->norm_apply, a.rows, dt_norm_block(c->step));
}

/* ---- Backward ------------------------------------------------------------------- */

/* The gradients of gamma and beta, of some channels, which are the batch's own even where
 * statistics are shared. */
static void batchnorm_total(const dt_call *c, int64_t first, int64_t count)
{
    const dt_norm_area a = dt_norm_area_of(c);
    const float *inverse = (const float *)c->saved + a.stride;

    dt_loops_current()->norm_total(c, first, count);
    for (int64_t i = first; i < first + count; i++) {
        c->d_param[0][i] = (float)(dt_norm_sum(&a, 1)[i] * (double)inverse[i]);
        c->d_param[1][i] = (float)dt_norm_sum(&a, 0)[i];
    }
}

/* Sums of dy' and of dy' (x - mean) over the batch, left in the area. */
static void batchnorm_backward_local(const dt_call *c)
{
    const dt_norm_area a = dt_norm_area_of(c);
    double *local = c->local;

    batchnorm_line(c, &a);
    batchnorm_sum(c, DT_BACKWARD);
    dt_loop_run(c, batchnorm_total, a.channels, DT_NORM_MERGED);
    for (int k = 0; local && k < 2; k++)
        memcpy(local + k * a.channels, dt_norm_sum(&a, k), (size_t)a.channels * sizeof *local);
}

/* The data gradient, with both sums over the n numbers that share their statistics. */
static void batchnorm_backward_shared(const dt_call *c)
{
    const dt_norm_area a = dt_norm_area_of(c);
    const double *sums = c->local ? c->shared : dt_norm_sum(&a, 0);
    const double *products = c->local ? sums + a.channels : dt_norm_sum(&a, 1);
    const double n = c->local ? c->shared_count : (double)a.rows;
    const float *inverse = (const float *)c->saved + a.stride;

    if (!c->d_in[0])
        return;
    if (c->local) /* since the sums, scratch may have been another shard's */
        batchnorm_line(c, &a);
    for (int64_t i = 0; i < a.channels; i++) {
        const double product = products[i] * (double)inverse[i];
        a.center[i] = (float)(sums[i] / n);
        a.slope[i] = (float)(product / n * (double)inverse[i]);
    }
    batchnorm_widen(&a);
    dt_loop_run(c, dt_loops_current()->norm_data, a.rows, dt_norm_block(c->step));
}

const dt_op dt_op_batchnorm = {
    .name = "batchnorm",
    .saves = DT_SAVE_IN0 | DT_SAVE_OUT,
    .infer = dt_infer_same,
    .declare = batchnorm_declare,
    .prepare = batchnorm_prepare,
    .local = {batchnorm_forward_local, batchnorm_backward_local},
    .forward = batchnorm_forward_shared,
    .backward = batchnorm_backward_shared,
};

/* work.c - the least that a step's passes have to compute and to move, and how threads share it. */
#include "costs.h"
#include "model/kernels/tiles/tiles.h"
#include "model/loops.h"

/* Pairs of an output and a kernel position along one axis that meet a pixel of the image. */
static int64_t work_taps(int64_t in, int64_t out, int kernel, int stride, int pad)
{
    int64_t taps = 0;

    for (int64_t o = 0; o < out; o++) {
        const int64_t first = o * stride - pad, end = first + kernel;
        const int64_t inside = DT_MIN(end, in) - DT_MAX(first, 0);
        taps += DT_MAX(inside, 0);
    }
    return taps;
}

/* The same for all passes: each multiplies every weight with the same pairs of pixels. */
static int64_t work_flops(const dt_plan *p, const dt_step *s)
{
    const dt_shape *in = &s->in_shape[0], *out = &s->out_shape;
    const dt_attr *a = &s->attr;

    if (s->op != &dt_op_conv2d)
        return s->op->weights ? 2 * out->n * (int64_t)p->model->net->param[s->node->param[0]].count
                              : 0;
    return 2 * out->n * in->c * out->c *
           work_taps(in->h, out->h, a->kernel[0], a->stride[0], a->pad[0]) *
           work_taps(in->w, out->w, a->kernel[1], a->stride[1], a->pad[1]);
}

static size_t work_tensor(const dt_shape *s, dt_dtype type)
{
    return (size_t)dt_shape_count(s) * dt_dtype_bytes(type);
}

/* The first `count` parameters, or their gradients. pack: a packed copy stands for the weights. */
static size_t work_params(const dt_plan *p, const dt_step *s, int count, int pack)
{
    size_t bytes = 0;

    for (int k = 0; k < DT_MIN(count, s->node->n_param); k++)
        bytes += k == 0 && pack >= 0
                     ? p->model->pack[pack].bytes
                     : p->model->net->param[s->node->param[k]].count * sizeof(float);
    return bytes;
}

/* The first `ins` inputs and perhaps the output, and what is kept from forward to backward. */
static size_t work_values(const dt_step *s, int ins, bool out)
{
    size_t bytes = s->saved_bytes + (out ? work_tensor(&s->out_shape, s->out_type) : 0);

    for (int k = 0; k < ins; k++)
        bytes += work_tensor(&s->in_shape[k], s->in_type[k]);
    return bytes;
}

/* The output's gradient, two readers' two, none of the loss; and what is wanted of the inputs'. */
static size_t work_gradients(const dt_plan *p, const dt_step *s, bool inputs)
{
    const bool none = p->value[s->node->out].grad_block == DT_NO_BLOCK;
    size_t bytes = none ? 0 : work_tensor(&s->out_shape, s->grad_type);

    bytes *= s->node->second ? 2 : 1;
    for (int k = 0; k < s->node->n_in && inputs; k++)
        bytes += s->wants_d_in[k] ? work_tensor(&s->in_shape[k], s->grad_type) : 0;
    return bytes;
}

/* Of products the two halves of backward are passes of their own, of the others one is both. */
static size_t work_bytes(const dt_plan *p, const dt_step *s, dt_pass pass)
{
    const bool product = s->op->weights != NULL, data = pass == DT_PASS_DATA;
    size_t bytes = 0;

    if (pass == DT_PASS_FORWARD && s->op != &dt_op_fork) /* its outputs are its input's memory */
        return work_params(p, s, DT_MAX_PARAM, s->pack[pass]) + work_values(s, s->node->n_in, true);
    const bool there = data ? !product || s->wants_d_in[0] : product;
    if (pass == DT_PASS_FORWARD || p->mode != DT_TRAIN || !there)
        return 0;
    if (data)
        bytes = work_params(p, s, 1, s->pack[pass]); /* no bias, beta */
    if (!data || !product)
        bytes += work_values(s, (s->saves & DT_SAVE_IN0) != 0, s->saves & DT_SAVE_OUT) +
                 work_params(p, s, DT_MAX_PARAM, -1);
    return bytes + work_gradients(p, s, data);
}

dt_plan_row dt_plan_row_get(const dt_plan *p, size_t i)
{
    const dt_step *s = &p->step[i];
    const dt_value *out = &p->value[s->node->out];
    const dt_block *own = dt_plan_own_block(p, s->node->out);
    dt_plan_row row = {.op = dt_step_title(s),
                       .out_bytes = own ? work_tensor(&out->shape, out->type) : 0,
                       .out_offset = own ? own->offset : 0,
                       .saved_bytes = s->saved_bytes,
                       .scratch_bytes = s->scratch_bytes};

    snprintf(row.name, sizeof row.name, "%s", s->node->name);
    memcpy(row.kernels, s->kernels, sizeof row.kernels);
    snprintf(row.out_shape, sizeof row.out_shape, "[%lld, %lld, %lld, %lld] %s",
             (long long)out->shape.n, (long long)out->shape.h, (long long)out->shape.w,
             (long long)out->shape.c, dt_dtype_name(out->type));
    for (int k = 0; k < s->node->n_param; k++)
        row.params += p->model->net->param[s->node->param[k]].count;
    if (s->op->weights && (s->cut || !p->remote)) /* each pixel meets each weight */
        row.macs = out->shape.n * out->shape.h * out->shape.w *
                   (int64_t)p->model->net->param[s->node->param[0]].count;
    return row;
}

dt_work dt_plan_work(const dt_plan *p, size_t i, dt_pass pass)
{
    const int64_t bytes = (int64_t)work_bytes(p, &p->step[i], pass);

    return (dt_work){bytes > 0 ? work_flops(p, &p->step[i]) : 0, bytes};
}

/* ---- How threads share it ------------------------------------------------------------------- */

dt_share dt_share_loop(int64_t items, int64_t grain, double seconds, int threads)
{
    const int64_t most = grain > 0 ? (items + grain - 1) / grain : 1;
    const int64_t units = DT_MAX(1, DT_MIN(most, threads));
    const double longest = (double)((items + units - 1) / units) / (double)DT_MAX(items, 1);

    return (dt_share){(int)units, seconds, seconds * longest, 0};
}

static void add_loop(dt_share *all, const dt_step *s, int64_t items, int64_t grain, double seconds)
{
    const dt_share one = dt_share_loop(items, grain, seconds, s->threads);

    all->units = DT_MAX(all->units, one.units);
    all->alone_s += one.alone_s;
    all->longest_s += one.longest_s;
}

/* The sums, unless a convolution sees to them, read what the second sweep reads again; of each
 * channel some numbers are computed by one thread. */
static void add_norm(dt_share *all, const dt_step *s, dt_pass pass, double seconds)
{
    const dt_way way = pass == DT_PASS_FORWARD ? DT_FORWARD : DT_BACKWARD;
    const int64_t channels = s->out_shape.c;
    const int64_t blocks = s->sums_bytes[way] ? dt_rows_blocks(&s->rows[way]) : 0;
    const double first = pass == DT_PASS_FORWARD && !s->attr.add ? 0.5 : 0.67;
    const double merge_s = 1.5e-9, channel_s = 4e-9, call_s = 1e-6;

    if (blocks > 0 && s->fed_by[way] < 0)
        add_loop(all, s, blocks, 1, first * seconds);
    add_loop(all, s, channels, DT_NORM_MERGED, merge_s * (double)(blocks * channels));
    add_loop(all, s, dt_shape_count(&s->out_shape) / channels, dt_norm_block(s), seconds);
    add_loop(all, s, 1, 0, call_s + channel_s * (double)channels);
}

/* Of most operations a loop over lines of the image: of the output forward, of the input
 * backward. */
static dt_share share_loops(const dt_step *s, dt_pass pass, double seconds)
{
    const dt_shape *of = pass == DT_PASS_FORWARD ? &s->out_shape : &s->in_shape[0];
    dt_share all = {0};

    if (s->op == &dt_op_batchnorm)
        add_norm(&all, s, pass, seconds);
    else if (s->op == &dt_op_globalavgpool)
        add_loop(&all, s, s->in_shape[0].n, 1, seconds);
    else if (s->op == &dt_op_softmax_xent || s->op->moves)
        add_loop(&all, s, 1, 0, seconds);
    else
        add_loop(&all, s, of->n * of->h, dt_loop_grain(of->w * of->c), seconds);
    return all;
}

/* Of a kernel that is not there: one thread. fed_s: what it spends on the sums of a batch norm. */
static dt_share share_units(const dt_step *s, dt_pass pass, double seconds, double fed_s)
{
    const dt_tiles *t = s->tiles[pass];

    if (!t)
        return (dt_share){1, seconds, seconds, 0};
    dt_share share = {t->units, t->alone.seconds + fed_s, 0, -t->alone.bytes};
    for (int k = 0; k < t->units; k++) {
        const dt_unit unit = dt_tiles_unit(t, k);
        const double part = (double)(t->start[k + 1] - t->start[k]) / (double)t->start[t->units];
        share.longest_s = DT_MAX(share.longest_s, unit.seconds + fed_s * part);
        share.again += unit.bytes;
    }
    share.again = DT_MAX(share.again, 0);
    return share;
}

dt_share dt_plan_share(const dt_plan *p, size_t i, dt_pass pass)
{
    const double bytes_per_s = 30e9;
    const double fed_norm = 0.5; /* of what a batch norm reads and writes: what stays in caches */
    const dt_work work = dt_plan_work(p, i, pass);
    const dt_step *s = &p->step[i];

    if (work.bytes == 0)
        return (dt_share){0};
    if (!s->op->weights)
        return share_loops(s, pass, (double)work.bytes / bytes_per_s);
    const int fed = s->feeds[pass];
    const double first = fed < 0 ? 0 : fed_norm * (double)dt_plan_work(p, (size_t)fed, pass).bytes;
    return share_units(s, pass, (double)work.bytes / bytes_per_s, first / bytes_per_s);
}

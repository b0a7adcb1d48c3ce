/* naive_op.h - the operations as a textbook has them, in double precision: the oracle
 * of tests/ref and tests/grad. Shares nothing with the code under test but the
 * description of the problem. Convolutions are in naive.h. */
#ifndef DT_NAIVE_OP_H
#define DT_NAIVE_OP_H
#include "naive.h"

typedef struct naive_call {
    const dt_step *s; /* shapes and attributes only */
    double *in[DT_MAX_IN], *param[DT_MAX_PARAM], *out, *d_out;
    double *d_in[DT_MAX_IN], *d_param[DT_MAX_PARAM];
    double *running_mean, *running_var;
    dt_moment *moments;    /* batchnorm, training: written */
    const int32_t *labels; /* loss */
} naive_call;

static inline int64_t naive_at(const dt_shape *s, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return ((n * s->h + h) * s->w + w) * s->c + c;
}

static inline void naive_fork_forward(naive_call *c)
{
    memcpy(c->out, c->in[0], (size_t)dt_shape_count(&c->s->out_shape) * sizeof *c->out);
}

static inline void naive_fork_backward(naive_call *c)
{
    memcpy(c->d_in[0], c->d_out, (size_t)dt_shape_count(&c->s->out_shape) * sizeof *c->out);
}

static inline void naive_relu_forward(naive_call *c)
{
    for (int64_t i = 0; i < dt_shape_count(&c->s->out_shape); i++)
        c->out[i] = c->in[0][i] > 0 ? c->in[0][i] : 0;
}

static inline void naive_relu_backward(naive_call *c)
{
    for (int64_t i = 0; i < dt_shape_count(&c->s->out_shape); i++)
        c->d_in[0][i] = c->out[i] > 0 ? c->d_out[i] : 0;
}

/* x P(x), P the distribution function of the normal distribution; erfc keeps its tail's digits */
static inline void naive_gelu_forward(naive_call *c)
{
    for (int64_t i = 0; i < dt_shape_count(&c->s->out_shape); i++)
        c->out[i] = c->in[0][i] * 0.5 * erfc(-c->in[0][i] * sqrt(0.5));
}

static inline void naive_gelu_backward(naive_call *c)
{
    for (int64_t i = 0; i < dt_shape_count(&c->s->out_shape); i++) {
        const double x = c->in[0][i], bell = exp(-0.5 * x * x) / sqrt(8 * atan(1));
        c->d_in[0][i] = c->d_out[i] * (0.5 * erfc(-x * sqrt(0.5)) + x * bell);
    }
}

/* ---- Batch norm: one channel at a time ------------------------------------------ */

typedef struct naive_norm {
    double mean, var;
} naive_norm;

static inline naive_norm naive_norm_of(const naive_call *c, int64_t ch)
{
    const int64_t channels = c->s->out_shape.c;
    const int64_t rows = dt_shape_count(&c->s->out_shape) / channels;
    naive_norm n = {0, 0};

    if (c->s->mode == DT_EVAL)
        return (naive_norm){c->running_mean[ch], c->running_var[ch]};
    for (int64_t r = 0; r < rows; r++)
        n.mean += c->in[0][r * channels + ch] / (double)rows;
    for (int64_t r = 0; r < rows; r++)
        n.var += pow(c->in[0][r * channels + ch] - n.mean, 2) / (double)rows;
    if (c->moments)
        c->moments[ch] = (dt_moment){(double)rows, n.mean, n.var * (double)rows};
    return n;
}

static inline void naive_batchnorm_forward(naive_call *c)
{
    const int64_t channels = c->s->out_shape.c;

    for (int64_t ch = 0; ch < channels; ch++) {
        const naive_norm n = naive_norm_of(c, ch);
        const double std = sqrt(n.var + (double)c->s->attr.eps);
        for (int64_t i = ch; i < dt_shape_count(&c->s->out_shape); i += channels) {
            double y = c->param[0][ch] * ((c->in[0][i] - n.mean) / std) + c->param[1][ch];
            if (c->s->attr.add)
                y += c->in[1][i];
            c->out[i] = c->s->attr.relu && y <= 0 ? 0 : y;
        }
    }
}

/* By the chain rule through mean and variance; c->out must hold the forward result. */
static inline void naive_batchnorm_backward(naive_call *c)
{
    const int64_t channels = c->s->out_shape.c, count = dt_shape_count(&c->s->out_shape);
    const double rows = (double)(count / channels);

    for (int64_t ch = 0; ch < channels; ch++) {
        const naive_norm n = naive_norm_of(c, ch);
        const double std = sqrt(n.var + (double)c->s->attr.eps), gamma = c->param[0][ch];
        double d_gamma = 0, d_beta = 0, d_var = 0, d_mean = 0;
        for (int64_t i = ch; i < count; i += channels) {
            const double dy = c->s->attr.relu && c->out[i] <= 0 ? 0 : c->d_out[i];
            const double x = c->in[0][i] - n.mean;
            d_gamma += dy * x / std;
            d_beta += dy;
            d_var += dy * gamma * x * -0.5 * pow(std, -3);
            d_mean += dy * gamma * -1 / std;
        }
        for (int64_t i = ch; i < count; i += channels) {
            const double dy = c->s->attr.relu && c->out[i] <= 0 ? 0 : c->d_out[i];
            c->d_in[0][i] =
                dy * gamma / std + d_var * 2 * (c->in[0][i] - n.mean) / rows + d_mean / rows;
            if (c->s->attr.add)
                c->d_in[1][i] = dy;
        }
        c->d_param[0][ch] = d_gamma;
        c->d_param[1][ch] = d_beta;
    }
}

/* ---- Pooling: scatter, where the code under test gathers ------------------------ */

/* The pixels of the window of output (n, h, w, c) that are on the input. */
typedef struct naive_pixel_list {
    int64_t at[256];
    int count;
} naive_pixel_list;

static inline naive_pixel_list naive_window(const dt_step *s, int64_t n, int64_t h, int64_t w,
                                            int64_t ch)
{
    naive_pixel_list p = {.count = 0};
    for (int i = 0; i < s->attr.kernel[0]; i++)
        for (int j = 0; j < s->attr.kernel[1]; j++) {
            const int64_t y = h * s->attr.stride[0] - s->attr.pad[0] + i;
            const int64_t x = w * s->attr.stride[1] - s->attr.pad[1] + j;
            if (y >= 0 && y < s->in_shape[0].h && x >= 0 && x < s->in_shape[0].w)
                p.at[p.count++] = naive_at(&s->in_shape[0], n, y, x, ch);
        }
    return p;
}

static inline int64_t naive_winner(const double *x, const naive_pixel_list *p)
{
    int64_t best = p->at[0];
    for (int k = 1; k < p->count; k++)
        if (x[p->at[k]] > x[best] || isnan(x[p->at[k]]))
            best = p->at[k];
    return best;
}

static inline void naive_maxpool(naive_call *c, bool backward)
{
    const dt_shape *o = &c->s->out_shape;

    for (int64_t i = 0; backward && i < dt_shape_count(&c->s->in_shape[0]); i++)
        c->d_in[0][i] = 0;
    for (int64_t i = 0; i < dt_shape_count(o); i++) {
        const int64_t ch = i % o->c, w = i / o->c % o->w, h = i / o->c / o->w % o->h;
        const naive_pixel_list p = naive_window(c->s, i / o->c / o->w / o->h, h, w, ch);
        const int64_t winner = naive_winner(c->in[0], &p);
        if (backward)
            c->d_in[0][winner] += c->d_out[i];
        else
            c->out[i] = c->in[0][winner];
    }
}

static inline void naive_maxpool_forward(naive_call *c)
{
    naive_maxpool(c, false);
}
static inline void naive_maxpool_backward(naive_call *c)
{
    naive_maxpool(c, true);
}

static inline void naive_globalavgpool_forward(naive_call *c)
{
    const dt_shape *in = &c->s->in_shape[0];
    for (int64_t i = 0; i < in->n * in->c; i++) {
        c->out[i] = 0;
        for (int64_t p = 0; p < in->h * in->w; p++)
            c->out[i] += c->in[0][(i / in->c * in->h * in->w + p) * in->c + i % in->c] /
                         (double)(in->h * in->w);
    }
}

static inline void naive_globalavgpool_backward(naive_call *c)
{
    const dt_shape *in = &c->s->in_shape[0];
    for (int64_t i = 0; i < dt_shape_count(in); i++) {
        const int64_t image = i / (in->h * in->w * in->c);
        c->d_in[0][i] = c->d_out[image * in->c + i % in->c] / (double)(in->h * in->w);
    }
}

static inline void naive_add_forward(naive_call *c)
{
    for (int64_t i = 0; i < dt_shape_count(&c->s->out_shape); i++)
        c->out[i] = c->in[0][i] + c->in[1][i];
}

static inline void naive_add_backward(naive_call *c)
{
    for (int64_t i = 0; i < dt_shape_count(&c->s->out_shape); i++)
        c->d_in[0][i] = c->d_in[1][i] = c->d_out[i];
}

/* ---- Loss: -sum_j y_j log(softmax(z)_j + eps); d_out is 1 / n_global ------------ */

static inline double naive_scale(const naive_call *c)
{
    return c->s->logit_scale > 0 ? (double)c->s->logit_scale : 1;
}

/* log(sum_j exp(scale (z_j - z_k))), which is -log p_k */
static inline double naive_surprise(const naive_call *c, const double *z, int64_t k)
{
    const int64_t classes = c->s->in_shape[0].c;
    const double scale = naive_scale(c);
    double max = z[0], sum = 0;
    for (int64_t j = 1; j < classes; j++)
        max = z[j] > max ? z[j] : max;
    for (int64_t j = 0; j < classes; j++)
        sum += exp(scale * (z[j] - max));
    return scale * (max - z[k]) + log(sum);
}

static inline double naive_target(const naive_call *c, int64_t i, int64_t k)
{
    const double s = c->s->mode == DT_TRAIN ? (double)c->s->label_smoothing : 0;
    return (k == c->labels[i] ? 1 - s : 0) + s / (double)c->s->in_shape[0].c;
}

static inline void naive_softmax_xent_forward(naive_call *c)
{
    const int64_t classes = c->s->in_shape[0].c;
    const double eps = (double)c->s->loss_epsilon;
    for (int64_t i = 0; i < c->s->in_shape[0].n; i++) {
        c->out[i] = 0;
        for (int64_t k = 0; k < classes; k++) {
            const double surprise = naive_surprise(c, c->in[0] + i * classes, k);
            const double log_p = eps > 0 ? log(exp(-surprise) + eps) : -surprise;
            c->out[i] -= naive_target(c, i, k) * log_p;
        }
    }
}

/* dp_j / dz_k = p_j ([j = k] - p_k), dloss / dp_j = -y_j / (p_j + eps) */
static inline void naive_softmax_xent_backward(naive_call *c)
{
    const int64_t classes = c->s->in_shape[0].c;
    const double eps = (double)c->s->loss_epsilon;
    for (int64_t i = 0; i < c->s->in_shape[0].n; i++)
        for (int64_t k = 0; k < classes; k++) {
            const double *z = c->in[0] + i * classes;
            const double pk = exp(-naive_surprise(c, z, k));
            double dz = 0;
            for (int64_t j = 0; j < classes; j++) {
                const double p = exp(-naive_surprise(c, z, j));
                const double pull = eps > 0 ? p / (p + eps) : 1; /* p / p, also of 0 */
                dz -= naive_target(c, i, j) * pull * ((j == k) - pk);
            }
            c->d_in[0][i * classes + k] = naive_scale(c) * dz * c->d_out[i];
        }
}

/* ---- Convolution and linear layer ----------------------------------------------- */

static inline dt_conv naive_conv_of(const dt_step *s)
{
    const dt_shape *in = &s->in_shape[0], *out = &s->out_shape;
    dt_conv v = {.n = in->n,
                 .ih = in->h,
                 .iw = in->w,
                 .ic = in->c,
                 .oh = out->h,
                 .ow = out->w,
                 .oc = out->c,
                 .kernel = {1, 1},
                 .stride = {1, 1}};
    if (s->attr.kernel[0]) {
        memcpy(v.kernel, s->attr.kernel, sizeof v.kernel);
        memcpy(v.stride, s->attr.stride, sizeof v.stride);
        memcpy(v.pad, s->attr.pad, sizeof v.pad);
    } else { /* a linear layer sees an image as one row of features */
        v.ic *= v.ih * v.iw;
        v.ih = v.iw = 1;
    }
    return v;
}

static inline void naive_conv2d_forward(naive_call *c)
{
    const dt_conv v = naive_conv_of(c->s);
    naive_conv(&v, DT_PASS_FORWARD, c->in[0], c->param[0], c->out);
    if (c->s->attr.bias)
        naive_bias(&v, c->param[1], c->out);
}

static inline void naive_conv2d_backward(naive_call *c)
{
    const dt_conv v = naive_conv_of(c->s);
    naive_conv(&v, DT_PASS_DATA, c->d_in[0], c->param[0], c->d_out);
    naive_conv(&v, DT_PASS_WEIGHTS, c->in[0], c->d_param[0], c->d_out);
    if (c->s->attr.bias)
        naive_bias_gradient(&v, c->d_out, c->d_param[1]);
}

#define naive_linear_forward naive_conv2d_forward
#define naive_linear_backward naive_conv2d_backward

/* ---- One row per operation ------------------------------------------------------ */

typedef struct naive_op {
    const dt_op *op;
    void (*forward)(naive_call *c);
    void (*backward)(naive_call *c); /* after forward */
} naive_op;

static inline const naive_op *naive_find(const dt_op *op)
{
    static const naive_op rows[] = {
#define X(name) {&dt_op_##name, naive_##name##_forward, naive_##name##_backward},
        DT_OP_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == op)
            return &rows[i];
    return NULL;
}
#endif

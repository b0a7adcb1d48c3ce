/* naive.h - convolution as it stands in a textbook: seven loops, double precision. The
 * oracle of tests/ref and tests/grad; shares nothing with the code under test but the
 * description of the problem. */
#ifndef DT_NAIVE_H
#define DT_NAIVE_H
#include "model/kernels/kernel.h"

static inline size_t naive_x_count(const dt_conv *c)
{
    return (size_t)(c->n * c->ih * c->iw * c->ic);
}
static inline size_t naive_y_count(const dt_conv *c)
{
    return (size_t)(c->n * c->oh * c->ow * c->oc);
}
static inline size_t naive_w_count(const dt_conv *c)
{
    return (size_t)(c->kernel[0] * c->kernel[1] * c->ic * c->oc);
}

/* All channels of one pair of pixels: x[ic] under kernel place w[ic][oc] of y[oc]. */
static inline void naive_pixel(const dt_conv *c, dt_pass pass, double *x, double *w, double *y)
{
    for (int64_t ic = 0; ic < c->ic; ic++)
        for (int64_t oc = 0; oc < c->oc; oc++) {
            double *weight = &w[ic * c->oc + oc];
            if (pass == DT_PASS_FORWARD)
                y[oc] += x[ic] * *weight;
            else if (pass == DT_PASS_DATA)
                x[ic] += y[oc] * *weight;
            else
                *weight += x[ic] * y[oc];
        }
}

/* The operand that the pass computes is overwritten, the two others are read:
 * forward y, data x (as dx, with y as dy), weights w (as dw, with y as dy). */
static inline void naive_conv(const dt_conv *c, dt_pass pass, double *x, double *w, double *y)
{
    if (pass == DT_PASS_FORWARD)
        memset(y, 0, naive_y_count(c) * sizeof *y);
    else if (pass == DT_PASS_DATA)
        memset(x, 0, naive_x_count(c) * sizeof *x);
    else
        memset(w, 0, naive_w_count(c) * sizeof *w);

    for (int64_t n = 0; n < c->n; n++)
        for (int64_t i = 0; i < c->oh; i++)
            for (int64_t j = 0; j < c->ow; j++)
                for (int64_t kh = 0; kh < c->kernel[0]; kh++)
                    for (int64_t kw = 0; kw < c->kernel[1]; kw++) {
                        const int64_t h = i * c->stride[0] - c->pad[0] + kh;
                        const int64_t v = j * c->stride[1] - c->pad[1] + kw;
                        if (h < 0 || h >= c->ih || v < 0 || v >= c->iw)
                            continue;
                        naive_pixel(c, pass, x + ((n * c->ih + h) * c->iw + v) * c->ic,
                                    w + (kh * c->kernel[1] + kw) * c->ic * c->oc,
                                    y + ((n * c->oh + i) * c->ow + j) * c->oc);
                    }
}

/* y[rows][oc] += bias[oc] */
static inline void naive_bias(const dt_conv *c, const double *bias, double *y)
{
    for (size_t i = 0; i < naive_y_count(c); i++)
        y[i] += bias[i % (size_t)c->oc];
}

/* dbias[oc] = sum over rows of dy[rows][oc] */
static inline void naive_bias_gradient(const dt_conv *c, const double *dy, double *dbias)
{
    memset(dbias, 0, (size_t)c->oc * sizeof *dbias);
    for (size_t i = 0; i < naive_y_count(c); i++)
        dbias[i % (size_t)c->oc] += dy[i];
}
#endif

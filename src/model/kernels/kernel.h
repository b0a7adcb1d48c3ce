/* kernel.h - a pass of a convolution, as convolutions and linear layers call it; private to
 * src/model. A linear layer is a 1x1 convolution on a 1x1 image. */
#ifndef DT_KERNEL_H
#define DT_KERNEL_H
#include "../op.h"

/* y[n][oh][ow][oc] = sum x[n][i][j][ic] w[kh][kw][ic][oc] (+ bias[oc]); NHWC. A whole layer: its
 * shape alone decides the order of each sum, and so the bits. */
typedef struct dt_conv {
    int64_t n, ih, iw, ic, oh, ow, oc;
    int kernel[2], stride[2], pad[4]; /* pad: top, left, bottom, right */
    bool bias;
    dt_dtype type;     /* x, weights, dx, dy */
    dt_dtype out_type; /* y: type, or DT_F32 for logits */
    int threads;       /* results never depend on it */
    bool taken;        /* dt_conv_args.take is called; neither do they on this */
} dt_conv;

typedef struct dt_kernel_info {
    size_t scratch_bytes;
    size_t packed_bytes; /* forward, data */
    const char *backend; /* for `dtrain plan` */
    char layout[96];     /* identifies the packed bytes; see dt_model_add_pack */
} dt_kernel_info;

/* Operands of one run; which ones are read depends on the pass. Of the channels that it writes a
 * pass may compute some, see dt_kernel_open: then y or dx, and master, dw and biases on that side,
 * have these alone. What is summed over is whole: x, or dy for dx; and the weights pass has dy's
 * pixels whole, with the address of the first of its channels. */
typedef struct dt_conv_args {
    const void *x, *dy; /* type */
    void *y, *dx;       /* out_type, type */
    const void *packed; /* forward, data */
    const float *bias;  /* [oc], forward */
    float *dw;          /* [kh][kw][ic][oc], written; weights pass; master is alike */
    float *dbias;       /* [oc], written; weights pass with bias */
    void *scratch;
    dt_rows_take *take; /* forward, data gradient, of a conv that is taken: for each block of */
    const void *taker;  /* dt_kernel_rows and some channels, with this context */
} dt_conv_args;

/* One thread's share of a pass, before it waits for the others. */
typedef struct dt_unit {
    double seconds; /* modelled, on a core of some 500 GFLOP/s in bf16 */
    double bytes;   /* that it reads, whether or not other units read them, too */
} dt_unit;

/* Best for the instruction set and the shape, by fixed rules, never by timing: a timed choice would
 * change results. DT_UNSUPPORTED: too large; DT_NOMEM. *t is to be closed whatever the outcome.
 *   some  output channels of y, dw and dbias, or input channels of dx; NULL: all. Any range will do
 *         that is not empty: no sum is cut, so each number has the bits that the whole layer gives
 *         it. 40 channels take as long as 64 */
typedef struct dt_tiles dt_tiles;
dt_status dt_kernel_open(dt_tiles **t, const dt_conv *c, dt_pass pass, const dt_cut *some,
                         dt_kernel_info *info) DT_MUST_CHECK;
void dt_kernel_close(dt_tiles *t);
/* Blocks of rows as forward or the data gradient of a whole layer finishes them; width 0:
 * it does not. */
dt_rows dt_kernel_rows(const dt_conv *c, dt_pass pass);
/* dt_tile_backend.check. */
dt_status dt_engine_check(const dt_tiles *t, const char *layer) DT_MUST_CHECK;
void dt_kernel_run(const dt_tiles *t, const dt_conv_args *a);
/* A dt_pack_func of forward and data gradient; t: dt_tiles. */
void dt_kernel_pack(const void *t, const float *master, void *packed, size_t first, size_t end);
#endif

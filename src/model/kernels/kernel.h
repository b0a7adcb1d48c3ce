/* kernel.h - how to be a compute kernel; private to src/model.
 *
 * A kernel row runs passes of a convolution; a linear layer is a 1x1 convolution on a
 * 1x1 image. Write one file <name>.c that defines dt_kernel_<name> and add one row to
 * DT_KERNEL_LIST (model.h), best first. Choice is by fixed rules (the first row that supports the
 * problem), never by timing: a timed choice would change results. */
#ifndef DT_KERNEL_H
#define DT_KERNEL_H
#include "../op.h"

/* y[n][oh][ow][oc] = sum x[n][i][j][ic] w[kh][kw][ic][oc] (+ bias[oc]); NHWC. */
typedef struct dt_conv {
    int64_t n, ih, iw, ic, oh, ow, oc;
    int kernel[2], stride[2], pad[4]; /* pad: top, left, bottom, right */
    bool bias;
    dt_dtype type;     /* x, weights, dx, dy */
    dt_dtype out_type; /* y: type, or DT_F32 for logits */
    int threads;       /* results never depend on it */
} dt_conv;

typedef struct dt_kernel_info {
    char impl[64]; /* for `dtrain plan`, e.g. "brgconv:avx512_core_bf16" */
    size_t scratch_bytes;
    size_t packed_bytes; /* 0: reads the master weights */
    char layout[96];     /* identifies the packed bytes; see dt_model_add_pack */
} dt_kernel_info;

/* Operands of one run; which ones are read depends on the pass. */
typedef struct dt_conv_args {
    const void *x, *dy;  /* type */
    void *y, *dx;        /* out_type, type */
    const void *packed;  /* forward, data */
    const float *master; /* forward, data: [kh][kw][ic][oc], when nothing is packed */
    const float *bias;   /* [oc], forward */
    float *dw;           /* [kh][kw][ic][oc], written; weights pass */
    float *dbias;        /* [oc], written; weights pass with bias */
    void *scratch;
} dt_conv_args;

/* What one thread does of a pass, before it waits for the others. */
typedef struct dt_unit {
    double seconds; /* modelled, on a core of some 500 GFLOP/s in bf16 */
    double bytes;   /* read, those too that other units read */
} dt_unit;

typedef struct dt_kernel {
    const char *name;
    bool (*supports)(const dt_conv *c, dt_pass pass);
    dt_status (*open)(void **state, const dt_conv *c, dt_pass pass, dt_kernel_info *info);
    dt_status (*run)(void *state, const dt_conv_args *a);
    void (*pack)(const void *state, const float *master, void *packed, size_t first,
                 size_t end); /* if packed_bytes; a dt_pack_func */
    void (*close)(void *state);
    /* Optional. The units into unit[threads], and what one thread alone would do; returns how many
     * there are. */
    int (*units)(const void *state, dt_unit *unit, dt_unit *alone);
    const char *library; /* what it stands on, and which version */
    void (*version)(char *out, size_t size);
} dt_kernel;

#define X(name) extern const dt_kernel dt_kernel_##name;
DT_KERNEL_LIST(X)
#undef X

/* The first row that supports the pass, or the one named; DT_UNSUPPORTED otherwise. */
dt_status dt_kernel_choose(const char *name, const dt_conv *c, dt_pass pass,
                           const dt_kernel **k) DT_MUST_CHECK;
#endif

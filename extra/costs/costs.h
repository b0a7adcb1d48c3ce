/* costs.h - the arithmetic and the bytes of a plan's steps, and this machine's rates; the
 * public header of extra/costs. Everything is Local. */
#ifndef DT_COSTS_H
#define DT_COSTS_H
#include "model/plan.h"

/* One line of `dtrain plan` or `dtrain summary`, in execution order. */
typedef struct dt_plan_row {
    const char *op;     /* "conv2d", "batchnorm+relu" */
    char name[48];      /* of the node */
    char out_shape[48]; /* "[32, 56, 56, 256] bf16" */
    char kernels[160];  /* "tiles dot", "own avx512" */
    size_t params;      /* trainable numbers of the step */
    int64_t macs;       /* multiply-accumulates of the forward pass, whole batch */
    size_t out_bytes, out_offset, saved_bytes, scratch_bytes;
} dt_plan_row;
dt_plan_row dt_plan_row_get(const dt_plan *p, size_t i);

/* The least that a pass of row i has to do for the plan's batch; all 0: there is no such pass. */
typedef struct dt_work {
    /* Multiplications and additions of convolutions and linear layers, those with padding left
     * out; 0 for other operations. */
    int64_t flops;
    int64_t bytes; /* operands, packed weights too, read once, and results written once */
} dt_work;
dt_work dt_plan_work(const dt_plan *p, size_t i, dt_pass pass);

/* How the plan's threads share a pass of row i. Times are modelled, for a core of some 500
 * GFLOP/s in bf16 and 30 GB/s: what matters is how they compare. All 0: there is no such pass. */
typedef struct dt_share {
    int units;        /* threads that have something to do */
    double alone_s;   /* one thread */
    double longest_s; /* these threads, until the last one is done; packing twice included */
    double again;     /* bytes that a thread reads although another thread has read them */
} dt_share;
dt_share dt_plan_share(const dt_plan *p, size_t i, dt_pass pass);
/* The same of a loop that one thread does in `seconds`. Each thread takes at least `grain` items;
 * grain 0: one takes all. */
dt_share dt_share_loop(int64_t items, int64_t grain, double seconds, int threads);

/* Rates that `threads` threads of this process reach when all run at once: the best of several.
 * Processes that share a machine measure at the same moment. */
typedef struct dt_peaks {
    /* Multiplications and additions per second by type, of the kernels, on random
     * numbers in the caches; float32's where bf16 has none. */
    double flops[DT_DTYPES];
    char flops_by[DT_DTYPES][80]; /* the kernels: "tiles dot" */
    double bytes_per_s;           /* reads plus writes, in place, over stream_mib */
    int stream_mib;               /* 256, or 32 per thread up to 2048: more than caches hold */
} dt_peaks;
/* A second and a half. DT_NOMEM. */
dt_status dt_peaks_measure(dt_peaks *p, int threads) DT_MUST_CHECK;
#endif

/* op.h - how to be an operation; private to src/model.
 *
 * Write one file op_<name>.c that defines dt_op_<name> (linear is in op_conv2d.c), add one row to
 * DT_OP_LIST and one case to tests/grad/cases.c, its naive form to tests/support/naive_op.h. */
#ifndef DT_OP_H
#define DT_OP_H
#include "rows.h"

typedef struct dt_shape {
    int64_t n, h, w, c; /* NHWC; vectors have h = w = 1 */
} dt_shape;
static inline int64_t dt_shape_count(const dt_shape *s)
{
    return s->n * s->h * s->w * s->c;
}

/* All operations share one attribute struct; fields that an operation does not read are zero. */
typedef struct dt_attr {
    int64_t out;                        /* output channels */
    int kernel[2];                      /* height, width */
    int stride[2];                      /* height, width */
    int pad[4];                         /* top, left, bottom, right */
    bool bias;                          /* conv2d, linear */
    bool relu, add;                     /* batchnorm: in[1] is added (only with relu), then ReLU */
    float eps, momentum;                /* batchnorm; momentum in PyTorch's sense */
    float init_weight[2], init_bias[2]; /* conv2d, linear: U(lo, hi); a weight's lo == hi > 0:
                                         * normal with that standard deviation */
    float init_gamma[2];                /* batchnorm: U(lo, hi); lo == hi: constant */
    bool dirac;      /* conv2d: filter i, of as many as there are inputs, passes on input i */
    bool frozen;     /* conv2d, batchnorm: weight or gamma keeps its initial numbers */
    int bias_epochs; /* conv2d: its bias is trained in the first so many; 0: in all */
    bool flat;       /* a move: an image becomes a pixel of all its features */
} dt_attr;

enum { DT_MAX_IN = 2, DT_MAX_PARAM = 2 };

typedef struct dt_op dt_op;
typedef struct dt_node { /* what the network's author wrote */
    const dt_op *op;
    char name[48]; /* state_dict prefix, e.g. "layer1.0.conv1"; "" where none */
    dt_attr attr;
    int in[DT_MAX_IN]; /* value ids; -1: absent */
    int n_in;
    int out;                 /* value id */
    int param[DT_MAX_PARAM]; /* index into the net's parameters (state_dict order) */
    int n_param;
    int norm; /* index into the net's norms, -1: none */
    /* Set in a plan: */
    int second; /* its output once more, for a second reader: value id; 0: there is none */
    bool cut;   /* runs on all ranks, for their channels */
    /* For the value and its gradient: copies bring it to another layout (dt_op.moves); the output
     * and the input are one memory. */
    bool moves[DT_WAYS], stays[DT_WAYS];
} dt_node;

/* dt_op.infer of operations whose output has the shape of all inputs. */
dt_status dt_infer_same(const dt_node *n, const dt_shape *in, dt_shape *out) DT_MUST_CHECK;
/* The same of a window that slides over the image and has `channels` outputs. */
dt_status dt_infer_window(const dt_node *n, const dt_shape *in, int64_t channels,
                          dt_shape *out) DT_MUST_CHECK;

/* Initialiser of one parameter: U(low, high), the constant low if they are equal. `normal`: of
 * standard deviation low. `dirac`: then some filters as dt_attr says. */
typedef struct dt_init {
    float low, high;
    bool normal, dirac;
} dt_init;

/* For dt_op.declare: what the node owns goes into the net's tables. */
void dt_declare_param(dt_net *net, dt_node *n, const char *suffix, dt_param_kind kind, int rank,
                      const int64_t *dim, dt_init init);
void dt_declare_norm(dt_net *net, dt_node *n, int64_t channels);

typedef struct dt_step { /* one compiled node; immutable after prepare */
    const dt_op *op;
    const dt_node *node;
    dt_attr attr; /* node's */
    dt_mode mode;
    int threads;
    dt_shape in_shape[DT_MAX_IN], out_shape;
    dt_dtype in_type[DT_MAX_IN], out_type;
    dt_dtype grad_type;         /* of every d_in and d_out: the model's precision */
    bool wants_d_in[DT_MAX_IN]; /* false for the images */
    float label_smoothing;      /* softmax_xent, training */
    float loss_epsilon;         /* softmax_xent; 0: log-sum-exp */
    float logit_scale;          /* softmax_xent; 0: 1 */
    unsigned saves;             /* the op's; prepare may take away what it does not need */
    size_t saved_bytes;         /* set by prepare: kept from forward to backward */
    size_t scratch_bytes;       /* set by prepare: free again after each call */
    int pack[2];                /* set by prepare: ids from dt_model_add_pack, -1: none */
    /* Batch norm: the rows that are summed over, as a convolution finishes them (width 0: none
     * does); bytes of their sums, set by prepare; the convolution that calls the sums, which
     * `feeds` this step, or -1. */
    dt_rows rows[DT_WAYS];
    size_t sums_bytes[DT_WAYS];
    int fed_by[DT_WAYS], feeds[DT_PASS_COUNT];
    struct dt_tiles *tiles[DT_PASS_COUNT]; /* set by prepare, owned: kernels of a convolution or
                                            * linear layer; NULL: the pass has none */
    char kernels[160];                     /* set by prepare, for `dtrain plan` */
    /* Cut: a convolution or linear layer has whole shapes and the channels that are its own, of the
     * output and of the input's gradient. Other operations have the shapes of the own channels;
     * code that decides about the order of a sum looks at out_cut.whole. */
    bool cut;
    dt_cut in_cut, out_cut;
    bool idle; /* cut: no channel is its own */
} dt_step;

const char *dt_step_title(const dt_step *s); /* "conv2d", "batchnorm+relu" */

/* What an operation sees at run time; every pointer was resolved by dt_exec_create. */
typedef struct dt_call {
    const dt_step *step;
    const void *in[DT_MAX_IN];               /* NHWC, in_type */
    void *out;                               /* NHWC, out_type */
    const void *d_out;                       /* NHWC, grad_type; NULL for the loss */
    const void *d_out2;                      /* what a second reader adds to it, or NULL */
    void *d_in[DT_MAX_IN];                   /* NULL: not wanted */
    const float *param[DT_MAX_PARAM];        /* master weights, slab order */
    float *d_param[DT_MAX_PARAM];            /* set for each backward call */
    const float *running_mean, *running_var; /* this norm's channels */
    const void *packed[2];                   /* by dt_step.pack */
    void *saved, *scratch;                   /* 64-byte aligned */
    float *sums[DT_WAYS];                    /* of each block of dt_step.rows */
    dt_moment *moments;                      /* this norm's channels; NULL: not wanted */
    const int32_t *labels;                   /* [n], loss only */
    dt_result *result;                       /* loss only: forward writes it */
    double divisor;                          /* loss only: backward divides by it */
    /* Statistics that a group of shards shares, see dt_op.local. */
    void *local;         /* this shard's, before they are combined; NULL: nothing is shared */
    const void *shared;  /* the group's, after that */
    double shared_count; /* numbers per channel in the group, from forward on */
    const struct dt_call *feeds[DT_PASS_COUNT]; /* by dt_step.feeds */
} dt_call;

enum { DT_SAVE_IN0 = 1, DT_SAVE_OUT = 2 };

/* The blocks of rows in which conv2d finishes its output, or its input's gradient; width 0: it does
 * not. */
dt_rows dt_conv2d_rows(const dt_step *s, dt_pass pass);

struct dt_op {
    const char *name;
    bool moves;     /* from one layout to another, between layers that are cut and others */
    unsigned saves; /* DT_SAVE_*: what backward reads again; drives liveness */
    /* Pure. Output shape, or DT_SHAPE with a reason. */
    dt_status (*infer)(const dt_node *n, const dt_shape *in, dt_shape *out);
    /* Optional. Parameters, norms and initialisers; allocates nothing. */
    void (*declare)(dt_net *net, dt_node *n, const dt_shape *in);
    /* Optional. Once per plan: build kernels, state the saved and scratch bytes. */
    dt_status (*prepare)(dt_step *s, dt_model *m);
    /* Hot path: no allocation, no I/O, no locks. NULL: nothing to do. */
    void (*forward)(const dt_call *c);
    /* Writes d_in and d_param, never adds: where a value fans out, the plan inserts a fork, or the
     * producer, a batchnorm with `add`, adds d_out2. */
    void (*backward)(const dt_call *c);
    /* Optional. A separate pass for d_param, called before backward, which then skips d_param. */
    void (*weights)(const dt_call *c);
    /* Optional, training only: the first half of forward and backward, behind which a group of
     * shards combines statistics (dt_norm_sync in model.h). Writes call.local: dt_moment [c];
     * backward double [2][c], and d_param. The other half, forward or backward, then reads
     * call.shared; of a group of this one shard it is the same, and may be left out. */
    void (*local[DT_WAYS])(const dt_call *c);
};

/* fork: one value read by two nodes; forward is an alias, backward the sum. */
#define DT_OP_LIST(X) /* a row per operation; also in extra: convert/onnx.c, costs/work.c */       \
    X(conv2d)                                                                                      \
    X(linear)                                                                                      \
    X(batchnorm) X(relu) X(gelu) X(maxpool) X(globalavgpool) X(add) X(fork) X(softmax_xent)

#define X(name) extern const dt_op dt_op_##name;
DT_OP_LIST(X)
#undef X

/* After stores past the caches, before other threads read. */
static inline void dt_stream_fence(void)
{
#ifdef __SSE__
    __builtin_ia32_sfence();
#endif
}

/* ---- Offered by the model to prepare -------------------------------------------------- */

/* A packed copy of the weights. Equal (tensor, layout) pairs of different plans share memory.
 *   layout    identifies bytes and order, e.g. "forward 3x3 of 2 blocks to channels 0 to 128"
 *   by_input  of a cut weight: the copy is made of DT_SLAB_BY_INPUT
 *   pack      packs master (slab order) into the pieces of packed that begin in bytes [first, end);
 *             a copy that cannot be divided is one piece; context must live as long as the plan
 *   id_out    to be stored in step->pack[] */
typedef void (*dt_pack_func)(const void *context, const float *master, void *packed, size_t first,
                             size_t end);
dt_status dt_model_add_pack(dt_model *m, const dt_step *s, bool by_input, const char *layout,
                            size_t bytes, dt_pack_func pack, const void *context,
                            int *id_out) DT_MUST_CHECK;

#endif

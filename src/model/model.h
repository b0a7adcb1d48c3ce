/* model.h - the CNN engine; the public header of src/model.
 *
 * A network is defined (dt_net), given parameters and kernels (dt_model), compiled for a batch size
 * and mode (dt_plan) and bound to memory (dt_exec). Activations are NHWC in bf16 or float32; master
 * weights, gradients and momentum are float32, convolution weights [kh][kw][ci][co] (co fastest).
 * They lie in *backward order*: offset 0 is the parameter whose gradient is finished first, so "the
 * first n floats are final" says all that an exchange needs to know. All memory comes from the
 * caller; after dt_exec_create nothing is allocated. No function communicates: data of other
 * ranks come and go by the caller's functions.
 *
 * Bits: results depend on the batch and the recipe, never on `threads`. */
#ifndef DT_MODEL_H
#define DT_MODEL_H
#include "base/base.h"

/* ---- Definition --------------------------------------------------------------------- */

/* Batch norm's constants are the network's, classes the data source's. */
typedef struct dt_net_spec {
    const char *net;     /* "resnet50", "vgg11", "resnet9", "airbench", "mlp" */
    const char *variant; /* resnet50: "mindspore", "torchvision"; vgg11: "wide" has three
                          * linear layers, any other text one; other networks ignore it */
    const char *stem;    /* resnet50: "imagenet", "cifar"; others ignore it */
    int image_size;      /* 0: the network's own */
    int classes;
    int width_divisor; /* of all channel counts: 1; tests take 16 */
} dt_net_spec;

typedef struct dt_net dt_net; /* immutable once created; its members are below */
/* DT_CONFIG: unknown name, variant or stem, image too small; the message lists names. *net is to be
 * destroyed whatever the outcome. */
dt_status dt_net_create(dt_net **net, const dt_net_spec *spec) DT_MUST_CHECK;
void dt_net_destroy(dt_net *net);
/* One file net_<name>.c each. */
#define DT_NET_LIST(X) X(resnet50) X(vgg11) X(resnet9) X(airbench) X(mlp)

/* ---- Parameters and buffers ----------------------------------------------------------- */

typedef enum dt_param_kind { DT_WEIGHT, DT_BIAS, DT_GAMMA, DT_BETA } dt_param_kind;
typedef struct dt_param {
    char name[64]; /* torchvision's state_dict name */
    dt_param_kind kind;
    int rank;       /* 4: OIHW, 2: OI, 1 */
    int64_t dim[4]; /* logical shape as files have it */
    int64_t pixels; /* of a kernel, or of the image that a linear layer reads; else 1 */
    size_t count;   /* elements */
    size_t offset;  /* floats from the slab's start; a multiple of 16 */
    bool frozen;    /* it is not trained; its gradient is computed all the same */
    int epochs;     /* it is trained in the first so many; 0: in all */
} dt_param;
typedef struct dt_norm { /* one batch norm's running statistics */
    char name[64];       /* "layer1.0.bn1": prefix of running_mean, running_var */
    size_t channels;
    size_t offset;  /* of its first channel among all batch-norm channels */
    float momentum; /* of running statistics, in PyTorch's sense */
} dt_norm;

struct dt_net {          /* read only */
    dt_net_spec spec;    /* image_size resolved */
    const char *schemes; /* the namings that the network has, each with a space before it */
    dt_param *param; /* [params], in state_dict order; offsets fall from the first to the last */
    dt_norm *norm;   /* [norms], in state_dict order */
    size_t params, norms;
    size_t slab_floats;     /* master, gradient, momentum: each */
    size_t norm_channels;   /* running mean, running variance: each */
    size_t weight_total;    /* numbers of all parameters, without padding */
    size_t largest;         /* numbers of the largest parameter */
    bool whitens;           /* the first one is made of the images: dt_model_whiten */
    size_t ops;             /* operations, the last makes the logits; the loss does not count */
    struct dt_net_own *own; /* private to src/model and to extras: net.h */
};
bool dt_net_is_head(const dt_net *net, size_t i); /* of the layer that makes the logits */

/* The name of a tensor in another naming, "" where that naming has no such tensor. `scheme` is
 * one of --names; `name` a full torchvision name such as "layer1.0.bn1.running_mean", at
 * most 127 characters. DT_CONFIG when the network has no such scheme. */
dt_status dt_net_rename(const dt_net *net, const char *scheme, const char *name, char *out,
                        size_t out_size) DT_MUST_CHECK;
/* Copy one master tensor from slab order (HWIO) to file order (OIHW), also a linear layer's over
 * more than one pixel; dt_param_from_file: back. */
void dt_param_to_file(const dt_param *p, const float *slab, float *file);
/* Only rows [first, end) of dim[0], to their places in the whole tensor's file order. */
void dt_param_rows_to_file(const dt_param *p, const float *slab, float *file, size_t first,
                           size_t end);
void dt_param_from_file(const dt_param *p, const float *file, float *slab);

/* A network's numbers, all borrowed. Running statistics are NULL for a file without, such
 * as momentum's. */
typedef struct dt_weights {
    const dt_net *net;
    float *master;                     /* [net->slab_floats]; 64-byte aligned for a model */
    float *running_mean, *running_var; /* [net->norm_channels] */
} dt_weights;

/* For messages: float i of a parameter as it lies in memory, with the indices that files have
 * ("layer1.0.conv1.weight[3][0][1][1]"), and of a batch norm's statistics. Both return out. */
enum { DT_ELEMENT_CHARS = 160 };
const char *dt_param_element(const dt_param *p, size_t i, char out[DT_ELEMENT_CHARS]);
const char *dt_norm_element(const dt_norm *n, size_t i, char out[DT_ELEMENT_CHARS]);

/* All tensors of a slab, in state_dict order, as files have them: OIHW, float32
 * little-endian. */
dt_status dt_hash_slab(dt_hash *h, const dt_net *net, const float *slab) DT_MUST_CHECK;

/* ---- Model: parameters, kernels, packed weights --------------------------------------- */

/* Channels [first, first + count) of `whole`: a rank's part of a value or parameter; may be empty.
 * Parts begin at multiples of 32 with an engine, or if each can have 32. No bit depends on it. */
typedef struct dt_cut {
    int64_t first, count, whole;
} dt_cut;
dt_cut dt_cut_of(int64_t channels, int part, int parts);
/* What cuts layers over ranks: extra/split sets it. NULL: this build does not. */
extern const struct dt_plan_split *dt_plan_split;

typedef struct dt_model_opts {
    /* Which convolutions and linear layers are cut: `parts` ranks compute them, each its channels.
     * Words "PATTERN=out" (cut) and "PATTERN=batch" (not cut); a later word overrides an earlier
     * one. PATTERN: "all", or an operation's name with * and {a,b}. NULL, or 1 part: none is cut.
     * This model is part `part`. More than 1 part needs dt_plan_split. */
    const char *strategy;
    int part, parts;
    dt_dtype precision;
    int threads; /* >= 1; results do not depend on it */
    float label_smoothing;
    float loss_epsilon; /* of log(p + epsilon) in the loss; 0: log-sum-exp, without one */
    float logit_scale;  /* of the logits in the loss; 0: 1 */
} dt_model_opts;
typedef struct dt_model dt_model;

/* "auto", "fp32" or "bf16" to a type: auto is bf16 if dt_isa_bits is avx512_bf16 or amx, else fp32.
 * DT_UNSUPPORTED: bf16 was asked for, and dt_isa_bits is neither. */
dt_status dt_precision_choose(const char *name, dt_dtype *type) DT_MUST_CHECK;

/* What multiplies in float32 in models that are made from now on: "own", dtrain's kernels, or a
 * library, which is loaded. DT_UNSUPPORTED: it is not in this build, or not on this machine. */
#define DT_ENGINE_LIST(X) X(own) X(openblas) X(onednn)
dt_status dt_engine_use(const char *name) DT_MUST_CHECK;
/* Library, version, build and core: with an engine, the class of bits. NULL: own. */
const char *dt_engine_text(void);

/* `net` is borrowed and must outlive the model. DT_CONFIG: the strategy cannot be read, or names an
 * operation that the network has not. *m is to be destroyed whatever the outcome. */
dt_status dt_model_create(dt_model **m, const dt_net *net, const dt_model_opts *opts) DT_MUST_CHECK;
/* All plans of the model must be destroyed before. */
void dt_model_destroy(dt_model *m);

/* The slabs of a model, each in backward order:
 *   HOME      home parameters: all, except the ones of cut layers
 *   CUT       this rank's pieces of cut layers' parameters, [kh][kw][ci][own co]
 *   BY_INPUT  a copy of each cut weight by input, [kh][kw][own ci][co]. The caller makes it of all
 *             ranks' pieces after each update. The gradient of the own input channels reads it */
typedef enum { DT_SLAB_HOME, DT_SLAB_CUT, DT_SLAB_BY_INPUT, DT_SLAB_KINDS } dt_slab_kind;
/* This model's part of a parameter, and where it lies. */
typedef struct dt_piece {
    bool cut;
    size_t offset, count; /* floats of DT_SLAB_CUT if it is cut, else of DT_SLAB_HOME */
    dt_cut out, in;       /* cut: of dim[0], and of a weight's dim[1] */
    size_t by_input;      /* a cut weight's floats of DT_SLAB_BY_INPUT begin there */
} dt_piece;
const dt_net *dt_model_net(const dt_model *m);
dt_piece dt_model_piece(const dt_model *m, size_t param);
size_t dt_model_floats(const dt_model *m, dt_slab_kind kind);

/* Bytes of packed compute weights that all plans made so far need together. */
size_t dt_model_packed_bytes(const dt_model *m);

/* Give the model its memory (borrowed), after the last dt_plan_create.
 *   packed  [dt_model_packed_bytes], 64-byte aligned */
void dt_model_bind(dt_model *m, const dt_weights *weights, void *packed);
/* The same of what is cut; weights->master has home parameters alone then.
 *   master, by_input  [dt_model_floats]
 *   packed            [dt_model_cut_packed_bytes], 64-byte aligned */
size_t dt_model_cut_packed_bytes(const dt_model *m);
void dt_model_bind_cut(dt_model *m, float *master, float *by_input, void *packed);
/* Initial weights by the network's own initialisers, keyed by (seed, tensor); running
 * mean 0 and variance 1. Packs. */
dt_status dt_model_init(dt_model *m, uint32_t seed) DT_MUST_CHECK;
/* Call this after dt_model_init for a net that whitens. `patches`, the mean of p p' over patches p,
 * is overwritten. The filters become its eigenvectors and their negatives, each at a scale that
 * gives outputs of mean square near 1. Packs. */
void dt_model_whiten(dt_model *m, double patches[DT_PATCH][DT_PATCH]);
/* Pack part `part` of the home parameters' copies, 1 / parts of their bytes, and all copies of
 * DT_SLAB_CUT. Call it after every write to the master weights; ranks that share one set of copies
 * pack a part each. */
void dt_model_pack(dt_model *m, int part, int parts);
/* Pack copies from DT_SLAB_BY_INPUT, before the first backward that reads them. */
void dt_model_pack_by_input(dt_model *m);
/* running = (1 - momentum) * running + momentum * batch with the network's momentum (PyTorch's
 * sense), the variance unbiased: m2 / max(count - 1, 1).
 *   moments  [net->norm_channels], pooled over all shards */
void dt_model_update_running(dt_model *m, const dt_moment *moments);

/* ---- Plan ------------------------------------------------------------------------------ */

typedef enum dt_mode { DT_TRAIN, DT_EVAL } dt_mode;
typedef struct dt_plan dt_plan; /* immutable; holds offsets, not pointers */
/* batch >= 1 images. Same kernels and blocking for the same arguments, always.
 *   remote  a plan for another rank's shard, in which only cut steps run and values that are home
 *           take no memory */
dt_status dt_plan_create(dt_plan **p, dt_model *m, int64_t batch, dt_mode mode,
                         bool remote) DT_MUST_CHECK;
void dt_plan_destroy(dt_plan *p);
typedef struct dt_plan_facts {
    int64_t batch;
    size_t arena_bytes;   /* activations and their gradients */
    size_t scratch_bytes; /* may be shared by all plans */
    dt_digest digest; /* of steps, shapes, types and offsets, not kernels: ranks' CPUs may differ */
} dt_plan_facts;
dt_plan_facts dt_plan_ask(const dt_plan *p);

/* Forward, and backward's two halves: the gradients of the input, and of the weights of
 * convolutions and linear layers. Other operations' whole backward is DT_PASS_DATA. */
typedef enum dt_pass { DT_PASS_FORWARD, DT_PASS_DATA, DT_PASS_WEIGHTS, DT_PASS_COUNT } dt_pass;
/* Events of DT_LANE_LAYER (base/activity.h) have the kind i * DT_CLOCKED + w, where i is the plan's
 * row. w: a dt_pass of one context, or time in dt_norm_sync.combine or in dt_observer.ready. */
enum { DT_CLOCKED_COMBINE = DT_PASS_COUNT, DT_CLOCKED_READY, DT_CLOCKED };

/* ---- Execution --------------------------------------------------------------------------- */

typedef struct dt_result {
    double loss_sum; /* sum of the samples' losses, added in sample order */
    int64_t correct; /* samples whose largest logit is the label's (lowest index wins) */
} dt_result;

typedef struct dt_exec {
    void *input;         /* [batch][image][image][3] in the plan's precision, for the loader */
    int32_t *labels;     /* [batch], for the loader */
    const float *logits; /* of the last forward: [batch][classes] */
    /* Private to src/model: */
    const dt_plan *plan;  /* borrowed */
    struct dt_call *call; /* [plan->steps], owned */
    char *arena;          /* borrowed */
    dt_result result;
} dt_exec;
/* arena, scratch: borrowed, 64-byte aligned, of the plan's sizes; the model must be bound.
 * Several execs may share memory if they are not used at the same time. *e is to be destroyed
 * whatever the outcome. */
dt_status dt_exec_create(dt_exec **e, const dt_plan *p, void *arena, void *scratch) DT_MUST_CHECK;
void dt_exec_destroy(dt_exec *e);

/* Called after each backward step with the number of floats of the gradients of DT_SLAB_HOME and
 * DT_SLAB_CUT that are final (it never falls); the last call passes all. */
typedef struct dt_observer {
    dt_status (*ready)(void *context, const size_t floats_done[2]);
    void *context;
} dt_observer;

/* ---- Layers that are cut over ranks ------------------------------------------------------ */

/* Where a value is: whole, on the rank that has the shard (home); each rank has its channels of all
 * shards; or whole on all ranks, as the inputs and gradients that a cut layer sums over. */
typedef enum dt_layout { DT_HOME, DT_CUT, DT_WHOLE } dt_layout;
typedef enum dt_way { DT_FORWARD, DT_BACKWARD, DT_WAYS } dt_way;
/* A move step brings a value to another layout, forward and backward. The caller copies. `before`
 * is called before a step of shard k, for each shard that has images, ascending, on all ranks in
 * the same order: it completes shard k's copies of the step that ran before, and starts those of
 * this step, if it is a move. */
typedef struct dt_wave_moves {
    void *context;
    dt_status (*before)(void *context, int step, dt_way way, int k);
} dt_wave_moves;

/* ---- Shards that share batch-norm statistics -------------------------------------------- */

/* How the caller combines values over groups of shards, here or on other ranks. Each batch norm,
 * forward and backward, on all ranks in the same order, calls leaf for each of the caller's shards,
 * ascending, then combine, then result for each of them. Values are, forward, dt_moment [channels],
 * joined by dt_moment_merge; backward double [2 * channels], added. */
typedef struct dt_norm_sync {
    void *context;
    /* Where to write the k-th shard's value, before asking for the next one. */
    void *(*leaf)(void *context, dt_way way, size_t channels, int k);
    dt_status (*combine)(void *context, dt_way way, size_t channels);
    /* The value of the k-th shard's group; read before the next leaf is asked for. */
    const void *(*result)(void *context, dt_way way, int k);
} dt_norm_sync;

/* Contexts that run in lockstep: each takes a step of the network before any takes the next.
 * One context is a wave of one. Where no statistics are shared, or a group is one shard, a
 * context has the bits that it has alone.
 *   plan     gives the steps: a plan of the execs' model and mode, of any batch; NULL: exec[0]'s
 *   exec     [count], each with its arena, and one scratch for all; an entry NULL: a
 *            shard of 0 images, whose results are zeros
 *   sync     NULL: no shards share batch-norm statistics
 * Where layers are cut, a wave is all shards of the ranks that cut them together; shards of other
 * ranks have contexts of remote plans:
 *   moves     NULL: nothing is cut
 *   first_home, homes  the shards that are this rank's
 *   cut_sync  of batch norms that are cut: asked for all shards of the wave
 *   cut_grad  [count] of DT_SLAB_CUT's floats, written by backward for all shards */
typedef struct dt_wave {
    const dt_plan *plan;
    dt_exec *const *exec;
    int count;
    const dt_norm_sync *sync;
    const dt_wave_moves *moves;
    int first_home, homes;
    const dt_norm_sync *cut_sync;
    float *const *cut_grad;
} dt_wave;
/* Forward passes over the batches in input and labels.
 *   moments  [count] of net->norm_channels each: every shard's own; training only. The array, or
 *            an entry, may be NULL
 *   result   [count] */
dt_status dt_exec_forward(const dt_wave *w, dt_moment *const *moments,
                          dt_result *result) DT_MUST_CHECK;
/* Backward passes; every sample's loss weighs 1 / divisor. Writes grad, never adds. grad[k]
 * is a summand: only the sum over shards is the gradient of the loss with the shared statistics.
 *   divisor   images of the global batch, for the mean over it
 *   grad      [count] of DT_SLAB_HOME's floats each, 64-byte aligned; a remote shard's is not
 *             used. Left untouched: padding between tensors, and all of a shard without images
 *   observer  may be NULL; learns how many floats are final in each grad */
dt_status dt_exec_backward(const dt_wave *w, double divisor, float *const *grad,
                           const dt_observer *observer) DT_MUST_CHECK;

/* Index of a sample's largest logit, as the loss has it; the lowest wins. */
int64_t dt_logits_choose(const float *z, int64_t classes);
#endif

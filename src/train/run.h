/* run.h - everything that one run holds: model, data and ranks together; private to src/train and
 * to extras. Training, evaluation and the benchmark are built on it. */
#ifndef DT_RUN_H
#define DT_RUN_H
#include "observer.h"
#include "optim.h"
#include "schedule.h"
#include "train.h"

/* A run for training needs more than the evaluation of a model. */
typedef enum dt_purpose { DT_FOR_TRAINING, DT_FOR_EVALUATION } dt_purpose;

/* Members of a shard's leaf in the loss tree; first_loss is 0 except in shard 0. */
enum { DT_SUM_LOSS, DT_SUM_FIRST_LOSS, DT_SUM_SAVE, DT_SUM_STOP, DT_SUM_COUNT };

/* Parameters whose gradient is summed over the same ranks: [DT_SLAB_HOME] whole parameters,
 * over all ranks; [DT_SLAB_CUT] this rank's pieces of cut layers, over the ranks that have the same
 * pieces. */
typedef struct dt_domain {
    dt_comm *comm; /* borrowed */
    dt_slab master, momentum, packed, gradients;
    dt_slab average; /* of weights; in DT_SLAB_HOME, of running statistics behind them */
    dt_exchange *exchange;
    dt_optim optim;
    dt_norm_sync *sync; /* by lockstep.c; NULL: no shards share statistics */
} dt_domain;
enum { DT_DOMAINS = 2 };

/* Training's plans, and a place for each shard of a wave: all of the rank's shards if they share
 * batch-norm statistics; all of the group's if layers are cut; else one. */
enum { DT_MAX_PLANS = 4 }; /* 2 sizes (shards differ by one image) x 2 (full, last batch) */
typedef struct dt_contexts {
    dt_plan *plan[DT_MAX_PLANS];   /* owned, like all below; NULL after the last */
    dt_plan *remote[DT_MAX_PLANS]; /* where layers are cut: of other ranks' shards; else NULL */
    dt_exec **exec;                /* [places][DT_MAX_PLANS]; those of one place share memory */
    dt_moment **moments;           /* [places], in r->arena */
    dt_wave wave;                  /* wave.count: places; any plan has its steps */
    /* Of the wave that runs, [places] each: */
    dt_exec **now;            /* wave.exec; NULL: a shard without images */
    int *which;               /* its plan */
    float **grad[DT_DOMAINS]; /* borrowed from the exchanges; NULL: another rank's shard */
    dt_result *result;
} dt_contexts;

/* The ranks among which layers are cut. Rank r is number r % parts of group r / parts. In a
 * cut layer every rank of a group computes all shards of the group. Where nothing is cut, parts is
 * 1, first and end are this rank's, and all else is zero. */
typedef struct dt_grid {
    int parts, part;   /* ranks of a group; this one's number */
    bool trial;        /* the group's other ranks are not there: dt_run_open_as */
    int index;         /* of its group */
    dt_comm *group;    /* the group's ranks; owned, like all below */
    dt_comm *replicas; /* the ranks that have this number in each group: the same cut */
    int first, end;    /* shards of the group */
    dt_slab by_input;  /* DT_SLAB_BY_INPUT */
    dt_slab whole;     /* rank 0: the state as files have it, after dt_grid_collect */
    struct dt_moves *moves;
    bool turns;                /* dt_grid_turn is under way */
    struct dt_grid_wave *wave; /* [2]: training's contexts, the test's */
} dt_grid;

/* What --strategy auto has chosen; parts 0: it was not asked. */
typedef struct dt_choice {
    int parts;
    double seconds, whole_s; /* predicted for a step; for one without cuts */
    char strategy[DT_OPTION_CHARS], text[300];
} dt_choice;

struct dt_run {
    dt_comm *comm; /* borrowed */
    bool trains;   /* DT_FOR_TRAINING */
    dt_options o;  /* resolved: nothing is auto any more */
    dt_dtype precision;
    int threads, first_shard, end_shard; /* this rank's */
    double own_loss;                     /* sum over its images in this step */
    dt_affinity affinity;                /* where its threads run */
    int bn_group;        /* shards that share batch-norm statistics; 0: each has its own */
    char bn[24];         /* --bn node, resolved; r->o.bn points here */
    char init[PATH_MAX]; /* the model that --init stands for, once it is loaded; "": none */

    dt_source *source;
    dt_slab data_memory;
    dt_loader *loader;

    int classes;       /* in a trial, the least that the network has */
    int height, width; /* of the images that the model was trained on; 0: the source's own */
    dt_net *net;
    dt_model *model;
    dt_contexts contexts;
    dt_contexts test; /* chunks: a full one, and the last */
    dt_grid grid;
    dt_choice choice; /* r->o has its strategy */
    int64_t test_chunk;
    int64_t *tally; /* of the last test, owned; NULL: there was none (evaluate.c) */
    /* Called with each test image's logits; NULL: not called. Local. */
    dt_status (*answer)(const struct dt_run *r, int64_t image, const float *logits);
    dt_domain domain[DT_DOMAINS];
    int domains; /* 1: no layer is cut */
    dt_slab running, arena, scratch, check_room;
    dt_weights weights;  /* the numbers as files and hashes want them; borrowed, like the next */
    dt_weights average;  /* of --ema or --lookahead; net is NULL without */
    dt_slab node_memory; /* where the exchange shares: `running`, and DT_SLAB_HOME's slabs */
    uint64_t node_bytes; /* this run's on a node, without data */
    uint64_t node_free;  /* free before this run or its data took any; 0: unknown */
    bool shares;         /* weights, momentum and statistics are one copy per node */
    bool writes;         /* this rank, the node's first, fills that copy */

    dt_reduce *loss_tree, *moment_tree;
    double sample_weight; /* a sample weighs this / global batch: 1, or S for --reduce sum */
    void *observed[DT_OBSERVERS]; /* states of its observers */
    dt_schedule schedule;
    int64_t steps_per_epoch, total_steps;
};

/* Open data, build, compile, check memory, take it, and compare all ranks. On any error
 * (already agreed and printed) r is released. Collective. */
dt_status dt_run_open(dt_run *r, dt_comm *c, const dt_options *o, dt_purpose purpose) DT_MUST_CHECK;
/* The same for an *r that is zero, except its comm. To test a model, the caller may also have set
 * height and width of the images that the model was trained on, and a source in place of --data's,
 * which r owns from then on, even after a failure.
 * A trial only clocks steps; it sets grid.parts and classes. If it cuts layers, comm is a world of
 * one and does the work of the last of `parts` ranks. Nothing comes from the others, so the numbers
 * are not a run's. */
dt_status dt_run_open_as(dt_run *r, const dt_options *o, dt_purpose purpose) DT_MUST_CHECK;
void dt_run_close(dt_run *r); /* Collective */
/* All slabs, the exchange and the trees, once plans are made: a part of dt_run_open.
 * DT_NOMEM, with the figure, before anything is taken. Agreed. Collective. */
dt_status dt_run_take_memory(dt_run *r) DT_MUST_CHECK;
/* Build, MPI, class of bits, the data's manifest and content, and every plan (steps, shapes,
 * offsets) are equal on all ranks; options are compared before, by src/cli.
 * DT_MISMATCH names the field, two ranks and both values. Collective. */
dt_status dt_fingerprint_run(dt_run *r) DT_MUST_CHECK;
/* The instruction set, or the engine, whose bits the run has. Local. */
static inline const char *dt_run_isa(const dt_run *r)
{
    const char *floats = dt_engine_text() ? dt_engine_text() : "any CPU";
    return r->precision == DT_BF16 ? dt_isa_name(dt_isa_bits()) : floats;
}
/* A checkpoint's numbers of the run, without its position. Local. */
dt_snapshot dt_run_snapshot(const dt_run *r);
/* The model computes with these: r->weights, or r->average. Local. */
void dt_run_bind(dt_run *r, const dt_weights *w);
/* Pack the weights for the kernels, after they were written. Collective. */
dt_status dt_run_pack(dt_run *r) DT_MUST_CHECK;
/* Pack these weights for the kernels; the node's ranks share the work. Call it once no rank uses
 * the old packed copies. Contexts read parameters without a packed copy where they were bound when
 * opened: the test's in the tested weights, training's in the trained ones. Collective. */
dt_status dt_run_use(dt_run *r, const dt_weights *w) DT_MUST_CHECK;
/* dt_newest_model by rank 0 for all: where a run still trains, ranks could find different ones.
 * Agreed. Collective. */
dt_status dt_run_newest(dt_comm *c, const char *path, char out[PATH_MAX]) DT_MUST_CHECK;
/* Hashes of the run's weights, and of all its state at that position. Agreed. Collective. */
dt_status dt_run_hash(dt_run *r, dt_position at, char weights[DT_DIGEST_CHARS],
                      char all[DT_DIGEST_CHARS]) DT_MUST_CHECK;
/* Weights and running statistics from the model `path`, compared across ranks; without `head` all
 * but the classifier's. Collective. */
dt_status dt_run_load(dt_run *r, const char *path, bool head) DT_MUST_CHECK;
/* The same of --init, if it is given. Collective. */
dt_status dt_run_init(dt_run *r) DT_MUST_CHECK;
/* Weights, running statistics and momentum of rank 0 to all ranks, then compared. Collective. */
dt_status dt_run_broadcast(dt_run *r) DT_MUST_CHECK;
static inline dt_exchange *dt_run_exchange(const dt_run *r)
{
    return r->domain[DT_SLAB_HOME].exchange;
}
/* Bytes in GiB. Local. */
static inline double dt_gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}
/* The first lines of a run, in a person's words: one for each fact, eight at most. Local. */
void dt_banner_print(FILE *f, const dt_run *r, const char *folder);
/* Warns of options that are given and change nothing in a training. Local. */
void dt_banner_warn(const dt_options *o);
/* How many ranks on one node would be faster with the same bits; `ranks`: none would. Ranks that
 * take turns on a core wait for one another, and more than some 8 threads share a shard unevenly
 * (docs/lab/performance.md). Local. */
int dt_banner_ranks(int cores, int ranks, int threads, int64_t shards);

/* Seconds of this rank from dt_record_restart to the last dt_activity_phase. The shortest wait of
 * all ranks is exposed exchange; what this rank waited longer is waiting for others. Collective. */
dt_status dt_account_take(dt_comm *c, double account[DT_ACCOUNTS]) DT_MUST_CHECK;

typedef struct dt_step_result {
    bool save, stop;       /* a rank asked for it: it holds for all, after this step */
    dt_step_record record; /* the same on all ranks, except own_loss; no times */
} dt_step_result;
/* One optimizer step on global batch `step` of `epoch` (both from 0); `save`: this rank asks for
 * a checkpoint. DT_NUMERIC, agreed and printed, before anything is updated, when the loss is not
 * finite. Collective. */
dt_status dt_run_step(dt_run *r, int64_t epoch, int64_t step, bool save,
                      dt_step_result *result) DT_MUST_CHECK;

static inline double dt_class_accuracy(const dt_test_result *t, int c)
{
    return t->class_images[c] ? (double)t->class_correct[c] / (double)t->class_images[c] : 0;
}
/* The whole test set, cut into chunks whose bounds do not depend on the ranks. A request to stop is
 * obeyed after the current chunks. report: shows how far it is; NULL: nothing does. Collective. */
dt_status dt_run_test(dt_run *r, dt_report *report, dt_test_result *result) DT_MUST_CHECK;

/* --dry-run: takes the place of training, once a run is open; an extra sets it. Collective. */
extern dt_status (*dt_dry_run)(dt_run *r);

/* Sets r->bn_group; `node` becomes group:N in r->o, N the shards of each node. DT_CONFIG,
 * agreed, when nodes hold different numbers of shards. Collective. */
dt_status dt_lockstep_resolve(dt_run *r) DT_MUST_CHECK;
/* The trees of groups of shards, for layers of at most `channels`; all arguments (same). *sync is
 * NULL for a group of 0, where every shard has its own statistics; close it after a failure, too.
 * Collective. */
dt_status dt_lockstep_open(dt_norm_sync **sync, dt_comm *c, int shards, int group,
                           size_t channels) DT_MUST_CHECK;
void dt_lockstep_close(dt_norm_sync *sync);

/* Add a plan for shards of `images` images, and one for remote shards if layers are cut. Local. */
dt_status dt_contexts_add(dt_run *r, dt_contexts *c, int64_t images, dt_mode mode) DT_MUST_CHECK;
/* Bytes of r->arena that the waves take, and of r->scratch, once plans are made. Local. */
size_t dt_contexts_bytes(const dt_run *r, const dt_contexts *c);
size_t dt_contexts_scratch(const dt_contexts *c);
/* Bind all places to r->arena and r->scratch. DT_NOMEM. Local. */
dt_status dt_contexts_open(dt_run *r, dt_contexts *c) DT_MUST_CHECK;
void dt_contexts_close(dt_contexts *c);
static inline bool dt_contexts_home(const dt_contexts *c, int k)
{
    return k >= c->wave.first_home && k < c->wave.first_home + c->wave.homes;
}
/* c->now[k] = place k's context for a shard of so many images; NULL for one of none. Local. */
dt_status dt_contexts_find(dt_contexts *c, int k, int64_t images) DT_MUST_CHECK;

/* ---- Layers that are cut over ranks: what extra/split adds ---- */

/* `choose` and `load` find out which layers are cut; the others are called only if some are.
 * NULL: this build cannot cut layers. */
extern const struct dt_run_split {
    /* --strategy auto measures, decides, and sets strategy and tensor_parallel of r->o. r is open
     * as far as its network. Agreed. Collective. */
    dt_status (*choose)(dt_run *r);
    dt_status (*load)(dt_options *o, char line[DT_OPTION_CHARS]); /* dt_strategy_load */
    /* Who cuts with whom, from the options. Agreed. Collective. */
    dt_status (*open)(dt_run *r);
    void (*stop)(dt_run *r);  /* after it no move reads weights. Collective */
    void (*close)(dt_run *r); /* Collective */
    /* The moves of all contexts, weights and state, once memory is bound. Agreed. Collective. */
    dt_status (*bind)(dt_run *r);
    /* Each shard's moments of cut batch norms to the rank whose shard it is. Collective. */
    dt_status (*moments)(dt_run *r);
    /* Begin to send the cut weights' copies by input, after weights were written. This goes on in
     * the next forward. Until `turned` has packed the copies, no weight may change. Collective. */
    dt_status (*turn)(dt_run *r);
    dt_status (*turned)(dt_run *r);
    /* On rank 0: the whole state (dt_run_snapshot) from all pieces. Collective. */
    dt_status (*collect)(dt_run *r);
    /* Rank 0's whole state to all pieces, which are not yet packed. Collective. */
    dt_status (*spread)(dt_run *r);
} * dt_run_split;
static inline bool dt_grid_cuts(const dt_run *r)
{
    return r->grid.parts > 1;
}
/* Whether this rank has the state that dt_run_snapshot tells of. */
static inline bool dt_grid_knows(const dt_run *r)
{
    return !dt_grid_cuts(r) || r->comm->rank == 0;
}
/* dt_grid_bind, ...: the same where layers are cut, nothing elsewhere. */
#define DT_GRID_LIST(X) X(bind) X(moments) X(turn) X(turned) X(collect) X(spread)
#define X(name)                                                                                    \
    DT_MUST_CHECK static inline dt_status dt_grid_##name(dt_run *r)                                \
    {                                                                                              \
        return dt_grid_cuts(r) ? dt_run_split->name(r) : DT_OK;                                    \
    }
DT_GRID_LIST(X)
#undef X

#endif

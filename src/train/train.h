/* train.h - where model, data and ranks meet; the public header of src/train.
 *
 * Options are one table: DT_OPTION_LIST generates the struct below, the command line, the
 * YAML keys, --help, the table of effective options, the saved configuration and the
 * ranks' fingerprint. The defaults are the Ascend tutorial's recipe (configs/tutorial.yaml). */
#ifndef DT_TRAIN_H
#define DT_TRAIN_H
#include "data/data.h"
#include "dist/dist.h"
#include "model/model.h"
#include <limits.h>
#include <stdio.h>

#define DT_SCHEDULE_LIST(X) X(constant) X(step) X(cosine) X(onecycle)
#define DT_OTHER_COMMANDS "Other commands" /* the group of options that are not training's */
#define DT_REPORT_LIST(X) X(auto) X(mindspore) X(cs744)

/* One row per option:
 *   X(type, field, scope, default, low, high, choices, group, metavar, help)
 * type    TEXT const char *; CHOICE one word of `choices`; COUNT int64_t in [low, high];
 *         AUTO int64_t like COUNT, or the word "auto", stored as 0; REAL double in
 *         [low, high]; AUTO_REAL double like REAL, or "auto", stored as -1; FLAG bool, also
 *         --no-NAME and YAML true/false
 * field   the option's name with '_' for '-'
 * scope   RUN changes the result's bits; LENGTH ends the run earlier or later; HOW neither;
 *         HERE neither, and it belongs to one start: its place, its machine. All but HERE are
 *         a run's own, which it keeps when it is resumed
 * The fingerprint compares every option across ranks. */
#define DT_OPTION_LIST(X)                                                                                 \
    X(TEXT, data, HOW, "cifar-10-batches-bin", 0, 0, "", "Data", "PATH",                                  \
      "CIFAR-10 binary folder, folder of train/CLASS/*.png|jpg, or synthetic[:N]")                        \
    X(COUNT, subset, RUN, 0, 0, 1e9, "", "Data", "N",                                                     \
      "use only the first N training images (0: all)")                                                    \
    X(CHOICE, augment, RUN, "cifar", 0, 0, DT_AUGMENT_LIST(DT_WORD), "Data", "NAME",                      \
      "cifar: zero-pad 4, random crop, random flip")                                                      \
    X(CHOICE, normalize, RUN, "tutorial", 0, 0, DT_NORMALIZE_LIST(DT_WORD), "Data", "NAME",               \
      "channel constants; the tutorial's are in B G R order, applied to R G B images")                    \
    X(CHOICE, resize, RUN, "auto", 0, 0, " auto" DT_RESIZE_LIST(DT_WORD), "Data", "HOW",                  \
      "enlarge images in float, or rounded to uint8 (auto: uint8 for resnet50's mindspore variant)")      \
    X(FLAG, drop_remainder, RUN, true, 0, 0, "", "Data", NULL,                                            \
      "leave out the uneven last batch of an epoch, as the tutorial does")                                \
    X(AUTO, batch, RUN, 32, 1, 1e6, "", "Data", "N",                                                      \
      "images per shard and step (auto: as --global-batch says)")                                         \
    X(AUTO, global_batch, RUN, 0, 1, 1e8, "", "Data", "N",                                                \
      "images per step over all shards (auto: batch x shards)")                                           \
    X(AUTO, shards, RUN, 0, 1, 65536, "", "Data", "S",                                                    \
      "shards per global batch: the unit of results (auto: ranks x accum)")                               \
    X(AUTO, accum, RUN, 0, 1, 65536, "", "Data", "K", "shards per rank and step (auto: 1)")               \
    X(CHOICE, net, RUN, "resnet50", 0, 0, DT_NET_LIST(DT_WORD), "Network", "NAME",                        \
      "network")                                                                                          \
    X(CHOICE, variant, RUN, "mindspore", 0, 0, " mindspore torchvision", "Network", "NAME",               \
      "resnet50: stride on the first 1x1, \"same\" padding; or on the 3x3, pad 3")                        \
    X(CHOICE, stem, RUN, "imagenet", 0, 0, " imagenet cifar", "Network", "NAME",                          \
      "resnet50: 7x7 stride 2 and max pool; or 3x3 stride 1")                                             \
    X(AUTO, image_size, RUN, 0, 8, 1024, "", "Network", "N",                                              \
      "height = width fed to the network (auto: 224 for the imagenet stem, else 32)")                     \
    X(COUNT, width_divisor, RUN, 1, 1, 64, "", "Network", "N",                                            \
      "divide all channel counts: for tests")                                                             \
    X(TEXT, bn, RUN, "local", 0, 0, "", "Network", "SCOPE",                                               \
      "batch-norm statistics over one shard, all, a node's, or N neighbours: local, sync, node, group:N") \
    X(TEXT, init, RUN, "", 0, 0, "", "Network", "FILE",                                                   \
      "start from the weights of this model file")                                                        \
    X(FLAG, init_head, RUN, true, 0, 0, "", "Network", NULL,                                              \
      "with the file's classifier too, or the network's own: for weights of other classes")               \
    X(COUNT, epochs, LENGTH, 10, 1, 1e6, "", "Training", "N",                                             \
      "passes over the training set")                                                                     \
    X(COUNT, max_steps, LENGTH, -1, -1, 1e12, "", "Training", "N",                                        \
      "stop after N steps (-1: no limit; 0: save the initial model)")                                     \
    X(REAL, lr, RUN, 0.01, 0, 1e6, "", "Training", "RATE", "learning rate, used as given")                \
    X(CHOICE, lr_scale, RUN, "none", 0, 0, " none linear sqrt", "Training", "RULE",                       \
      "multiply the rate by (global batch / --lr-batch), or its square root")                             \
    X(COUNT, lr_batch, RUN, 256, 1, 1e8, "", "Training", "N",                                             \
      "global batch that --lr was chosen for")                                                            \
    X(REAL, momentum, RUN, 0.9, 0, 1, "", "Training", "M", "SGD momentum")                                \
    X(FLAG, nesterov, RUN, false, 0, 0, "", "Training", NULL, "Nesterov's momentum")                      \
    X(REAL, weight_decay, RUN, 0, 0, 1e3, "", "Training", "D",                                            \
      "L2 factor added to the gradient")                                                                  \
    X(CHOICE, decay, RUN, "all", 0, 0, " all weights", "Training", "WHAT",                                \
      "decay all parameters, as PyTorch does, or convolution and linear weights only")                    \
    X(CHOICE, schedule, RUN, "constant", 0, 0, DT_SCHEDULE_LIST(DT_WORD), "Training", "NAME",             \
      "learning rate over the run")                                                                       \
    X(REAL, warmup, RUN, 0, 0, 1e6, "", "Training", "EPOCHS",                                             \
      "linear warm-up before the schedule")                                                               \
    X(TEXT, milestones, RUN, "0.5,0.75", 0, 0, "", "Training", "LIST",                                    \
      "step: multiply by --gamma at these fractions of the run")                                          \
    X(REAL, gamma, RUN, 0.1, 0, 1, "", "Training", "G", "step: factor at each milestone")                 \
    X(REAL, peak, RUN, 0.2, 0, 1, "", "Training", "FRACTION",                                             \
      "onecycle: where the rate is highest")                                                              \
    X(REAL, label_smoothing, RUN, 0, 0, 0.999, "", "Training", "S", "label smoothing")                    \
    X(AUTO_REAL, loss_epsilon, RUN, -1, 0, 1, "", "Training", "E",                                        \
      "loss: log(p + E), or (0) log-sum-exp (auto: 1e-24 for resnet50's mindspore variant, else 0)")      \
    X(CHOICE, reduce, RUN, "mean", 0, 0, " mean sum", "Training", "HOW",                                  \
      "weigh a sample 1/global batch, or (sum) shards/global batch")                                      \
    X(CHOICE, grad_dtype, RUN, "fp32", 0, 0, " fp32 bf16", "Training", "TYPE",                            \
      "bf16: round each shard's gradient once, and send that")                                            \
    X(COUNT, seed, RUN, 1, 0, 4294967295.0, "", "Training", "N", "key of all random draws")               \
    X(CHOICE, precision, RUN, "auto", 0, 0, " auto fp32 bf16", "Machine", "TYPE",                         \
      "auto: bf16 where the CPU has AMX or AVX512_BF16, else fp32")                                       \
    X(CHOICE, kernels, RUN, "auto", 0, 0, " auto" DT_KERNEL_LIST(DT_WORD), "Machine", "NAME",             \
      "convolution and linear kernels (auto: the first that can)")                                        \
    X(CHOICE, isa, RUN, "amx", 0, 0, DT_ISA_NAMES, "Machine", "SET",                                      \
      "highest instruction set to use, where the CPU has it")                                             \
    X(AUTO, threads, HERE, 0, 1, 1024, "", "Machine", "N",                                                \
      "threads per rank (auto: this node's cores / its ranks)")                                           \
    X(CHOICE, exchange, HOW, "auto", 0, 0, " auto" DT_EXCHANGE_LIST(DT_WORD) " all", "Machine", "NAME",   \
      "how gradients are summed over ranks (all: bench only)")                                            \
    X(REAL, bucket_mb, HERE, 25, 0, 1e6, "", "Machine", "MIB",                                            \
      "size of a gradient bucket (0: whole)")                                                             \
    X(REAL, first_bucket_mb, HERE, 1, 0, 1e6, "", "Machine", "MIB",                                       \
      "first bucket that backward fills")                                                                 \
    X(REAL, last_bucket_mb, HERE, 1, 0, 1e6, "", "Machine", "MIB",                                        \
      "last bucket that backward fills")                                                                  \
    X(FLAG, broadcast, HERE, false, 0, 0, "", "Machine", NULL,                                            \
      "send weights, statistics and momentum of rank 0 to all before the first step")                     \
    X(COUNT, split_nodes, HERE, 1, 1, 1024, "", "Machine", "N",                                           \
      "treat each node's ranks as N nodes: to test what several nodes do")                                \
    X(FLAG, unfused, RUN, false, 0, 0, "", "Machine", NULL,                                               \
      "keep batch norm, add and ReLU as separate steps: the reference")                                   \
    X(TEXT, out, HERE, "", 0, 0, "", "Output", "DIR",                                                     \
      "run folder (default: runs/<date>-<name>); average, convert: the new file")                         \
    X(CHOICE, names, HOW, "torchvision", 0, 0, " torchvision kuangliu cs744 mindspore", "Output", "SCHEME",         \
      "tensor names in model.safetensors")                                                                \
    X(CHOICE, log_style, HOW, "auto", 0, 0, DT_REPORT_LIST(DT_WORD), "Output", "STYLE",                   \
      "progress bar or lines; or the tutorial's, or the course's lines")                                  \
    X(REAL, log_every, HOW, 10, 0, 1e6, "", "Output", "SECONDS",                                          \
      "interval of progress lines")                                                                       \
    X(FLAG, verbose, HOW, false, 0, 0, "", "Output", NULL,                                                \
      "print all options and what takes how much memory before the first step")                          \
    X(TEXT, save_every, HOW, "10m", 0, 0, "", "Checkpoints", "WHEN",                                      \
      "checkpoint every N steps, or 30s, 10m, 2h (0: never)")                                             \
    X(COUNT, keep_last, HOW, 2, 1, 1e6, "", "Checkpoints", "N",                                           \
      "newest checkpoints to keep")                                                                       \
    X(FLAG, keep_best, HOW, false, 0, 0, "", "Checkpoints", NULL,                                         \
      "checkpoint each epoch that tests best so far, and keep it")                                        \
    X(COUNT, keep_every, HOW, 0, 0, 1e12, "", "Checkpoints", "M",                                         \
      "also keep checkpoints whose step is a multiple of M (0: none)")                                    \
    X(CHOICE, on_save_error, HOW, "continue", 0, 0, " continue stop", "Checkpoints", "WHAT",              \
      "when a checkpoint cannot be written: warn and train on, or end the run")                           \
    X(TEXT, resume, HERE, "never", 0, 0, "", "Checkpoints", "FROM",                                       \
      "auto: the newest valid checkpoint in --out; a run or checkpoint folder; never")                    \
    X(FLAG, resume_force, HERE, false, 0, 0, "", "Checkpoints", NULL,                                     \
      "resume although options were changed that change the run")                                         \
    X(COUNT, check_every, HOW, 50, 0, 1e9, "", "Checks", "K",                                             \
      "compare weights over ranks every K steps (0: never)")                                              \
    X(COUNT, replay_every, HOW, 0, 0, 1e9, "", "Checks", "K",                                             \
      "every K steps, run a shard again on another rank and compare (0: never)")                          \
    X(TEXT, flip, HERE, "", 0, 0, "", "Checks", "WHERE",                                                  \
      "flip a bit, to see the checks find it: WHAT:RANK:STEP:TENSOR[:BIT]")                               \
    X(TEXT, model, HERE, "", 0, 0, "", DT_OTHER_COMMANDS, "FILE", "eval: the model file")                 \
    X(COUNT, steps, HERE, 10, 1, 1e6, "", DT_OTHER_COMMANDS, "N", "bench: measured steps")                \
    X(COUNT, warmup_steps, HERE, 3, 0, 1e6, "", DT_OTHER_COMMANDS, "N",                                   \
      "bench: steps before them")                                                                         \
    X(FLAG, scaling, HERE, false, 0, 0, "", DT_OTHER_COMMANDS, NULL,                                      \
      "bench: also on 1, 2, 4, ... of the ranks")                                                         \
    X(FLAG, json, HERE, false, 0, 0, "", DT_OTHER_COMMANDS, NULL, "bench, env: print JSON")

#define DT_ISA_WORD(name, text) " " text
#define DT_ISA_NAMES DT_ISA_LIST(DT_ISA_WORD)

enum {
#define X(...) +1
    DT_OPTIONS = 0 DT_OPTION_LIST(X)
#undef X
};
typedef struct dt_options {
#define DT_FIELD_TEXT const char *
#define DT_FIELD_CHOICE const char *
#define DT_FIELD_COUNT int64_t
#define DT_FIELD_AUTO int64_t
#define DT_FIELD_REAL double
#define DT_FIELD_AUTO_REAL double
#define DT_FIELD_FLAG bool
#define X(type, field, ...) DT_FIELD_##type field;
    DT_OPTION_LIST(X)
#undef X
    bool given[DT_OPTIONS]; /* set by dt_option_set, in the table's order: no mere default */
} dt_options;

typedef enum dt_option_type {
    DT_OPTION_TEXT, DT_OPTION_CHOICE, DT_OPTION_COUNT, DT_OPTION_AUTO, DT_OPTION_REAL,
    DT_OPTION_AUTO_REAL, DT_OPTION_FLAG
} dt_option_type;
typedef enum dt_option_scope { DT_SCOPE_RUN, DT_SCOPE_LENGTH, DT_SCOPE_HOW, DT_SCOPE_HERE } dt_option_scope;
typedef struct dt_option_row {
    const char *name; /* the field's; the command line has '-' for '_' */
    dt_option_type type;
    dt_option_scope scope;
    size_t offset; /* in dt_options */
    double low, high;
    const char *choices, *group, *metavar, *help;
} dt_option_row;
extern const dt_option_row dt_option_table[];
extern const size_t dt_option_count;

/* All defaults. Local. */
void dt_options_init(dt_options *o);
/* A value as text ("0.01", "true", "auto") into buf; returns buf. Local. */
const char *dt_option_text(const dt_option_row *row, const dt_options *o, char *buf, size_t size);
/* Parse and check one value; `place` names where it stands ("--lr", "a.yaml:3:5", "DTRAIN_LR").
 * Text values are borrowed: they must outlive o. DT_USAGE for the command line's own kind,
 * passed in `code`, e.g. DT_CONFIG for files. Local. */
dt_status dt_option_set(const dt_option_row *row, dt_options *o, const char *text,
                        const char *place, dt_status code) DT_MUST_CHECK;
const dt_option_row *dt_option_find(const char *name); /* '-' or '_'; NULL: unknown */
const char *dt_option_nearest(const char *name);       /* smallest edit distance */
/* Levenshtein distance in bytes, of at most 63 each; '-' and '_' are equal, cases too. Local. */
size_t dt_text_distance(const char *a, const char *b);

/* Check options against each other and resolve them to the pair (global_batch, shards), the
 * only two of the four that a run reads: batch and accum become auto, so that saved options
 * give the same bits on any number of ranks. A given global_batch is taken as it is. A second
 * call changes nothing. DT_CONFIG: world > shards; shards and accum that contradict each
 * other; no batch at all. Local, equal on all ranks. */
dt_status dt_options_check(dt_options *o, int world) DT_MUST_CHECK;
/* All options with their values by group, as lines for a reader. Local. */
void dt_options_print(FILE *f, const dt_options *o);
/* The same as a configuration file: --config reads exactly these options back. Local. */
void dt_options_yaml(FILE *f, const dt_options *o);

/* The options.yaml that was saved with the run or checkpoint that --resume names; where the run's
 * own is missing, that of its newest valid checkpoint. "": --resume is never, or there is nothing
 * to go on from yet. DT_NOINPUT: it names nothing; DT_FORMAT. Local. */
dt_status dt_resume_options(const dt_options *o, char path[PATH_MAX]) DT_MUST_CHECK;

/* From now on, until dt_train has its run set up, SIGUSR1, SIGTERM and SIGINT end the process by
 * `leave`, which must not return, with a line to print: there is nothing yet to be saved. After
 * that they are wishes, which dt_train obeys, as SIGHUP is from now on. Before MPI is started:
 * that may take a second, in which they would end the rank without a word. Local. */
dt_status dt_signals_catch(void (*leave)(const char *line)) DT_MUST_CHECK;

/* ---- Commands; all Collective, same options on all ranks (checked) -------------------------- */

/* Train: the run folder gets options.yaml, metrics.jsonl and model.safetensors. */
dt_status dt_train(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
/* Evaluate --model on the test images; prints loss and accuracy on rank 0. */
dt_status dt_eval(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
/* Time the trainer's own loop on synthetic data; --exchange all: one row per exchange. */
dt_status dt_bench(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
/* Check a checkpoint, a run folder's checkpoints (newest first) and model, or a model file:
 * every byte, that all numbers are finite, that shapes fit the network. One line of stdout
 * each; DT_FORMAT with the first thing that is wrong. */
dt_status dt_verify(dt_comm *c, const char *path) DT_MUST_CHECK;
/* The arithmetic mean of the weights and running statistics of model files, checkpoints or
 * the newest states of runs, path[0] to path[count - 1], to the file --out in the naming --names. Summed
 * in float64 in the order given and rounded once; of one file the result is its numbers.
 * num_batches_tracked is the last one's. DT_FORMAT: another network or normalisation than
 * the first. */
dt_status dt_average(dt_comm *c, const dt_options *o, const char *const *path,
                     size_t count) DT_MUST_CHECK;
/* Network spec, precision and threads as the options mean them. Local. */
dt_status dt_options_net(const dt_options *o, int classes, dt_net_spec *spec) DT_MUST_CHECK;
/* Resolve what "auto" leaves to the tutorial that the network is of, so that saved options
 * say it: loss_epsilon, resize. A second call changes nothing. Local. */
void dt_options_resolve(dt_options *o, const dt_net *net);
/* Threads of a rank where --threads is auto: its share of what its node's ranks may use
 * together, within its own mask and quota, at least 1. Local. */
int dt_threads_auto(const dt_comm *c);
/* dtrain's own build, then its libraries, one field each; ends with {NULL, NULL}. Local. */
const dt_field *dt_library_versions(void);
#endif

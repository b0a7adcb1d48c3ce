/* options.h - the option table; the public header of src/options.
 *
 * DT_OPTION_LIST generates the struct below, the command line, the YAML keys, --help, the
 * table of effective options, the saved configuration and the ranks' fingerprint. The
 * defaults are the Ascend tutorial's recipe (configs/tutorial.yaml). */
#ifndef DT_OPTIONS_H
#define DT_OPTIONS_H
#include "data/data.h"
#include "dist/dist.h"
#include "model/model.h"

#define DT_SCHEDULE_LIST(X) X(constant) X(step) X(cosine) X(onecycle) X(triangle) X(exponential)
#define DT_REPORT_LIST(X) X(auto) X(mindspore) X(cs744)
#define DT_ISA_WORD(name, text) " " text
#define DT_ISA_NAMES DT_ISA_LIST(DT_ISA_WORD)

/* What an option decides. */
typedef enum dt_option_scope {
    DT_SCOPE_RESULT, /* the result's bits */
    DT_SCOPE_LENGTH, /* how long the schedule is */
    DT_SCOPE_HOW,    /* neither; a resumed run keeps it, like those above */
    DT_SCOPE_HERE,   /* this start, its place and its machine; not kept, like all below */
    DT_SCOPE_COMMAND /* other commands; training refuses it */
} dt_option_scope;

/* Where an option is shown: DT_USE_* sets the members daily, said and commands. */
#define DT_USE_RARE false, false, "" /* in --help=all alone */
#define DT_USE_DAILY true, false, "" /* in --help */
#define DT_USE_SAID true, true, ""   /* also in --help; a run's first lines tell the value */
#define DT_USE_COMMANDS(list)                                                                      \
    false, false, list /* these commands take it, and their --help shows it; others refuse */

/* One kind of row for each type of value:
 *   TEXT       const char *, of a `syntax` (NULL: any text)
 *   CHOICE     const char *, one word of `choices`
 *   COUNT      int64_t in [low, high]
 *   AUTO       as COUNT, or the word "auto", stored as 0
 *   REAL       double in [low, high]
 *   AUTO_REAL  as REAL, or the word "auto", stored as -1
 *   FLAG       bool, also --no-NAME, and YAML's true and false
 * field    the option's name with '_' for '-'
 * use      RARE, DAILY, SAID or COMMANDS
 * group    its heading in --help, nothing else
 * metavar  stands for the value in --help
 * Each expands to X(type, field, scope, use, default, low, high, choices, syntax, group, metavar,
 * help). The fingerprint compares every option across ranks. */
/* clang-format off */
#define DT_TEXT(X, field, scope, use, value, syntax, group, metavar, help) \
    X(TEXT, field, scope, use, value, 0, 0, "", syntax, group, metavar, help)
#define DT_CHOICE(X, field, scope, use, value, choices, group, metavar, help) \
    X(CHOICE, field, scope, use, value, 0, 0, choices, NULL, group, metavar, help)
#define DT_COUNT(X, field, scope, use, value, low, high, group, metavar, help) \
    X(COUNT, field, scope, use, value, low, high, "", NULL, group, metavar, help)
#define DT_AUTO(X, field, scope, use, value, low, high, group, metavar, help) \
    X(AUTO, field, scope, use, value, low, high, "", NULL, group, metavar, help)
#define DT_REAL(X, field, scope, use, value, low, high, group, metavar, help) \
    X(REAL, field, scope, use, value, low, high, "", NULL, group, metavar, help)
#define DT_AUTO_REAL(X, field, scope, use, value, low, high, group, metavar, help) \
    X(AUTO_REAL, field, scope, use, value, low, high, "", NULL, group, metavar, help)
#define DT_FLAG(X, field, scope, use, value, group, help) \
    X(FLAG, field, scope, use, value, 0, 0, "", NULL, group, NULL, help)

#define DT_OPTION_LIST(X)                                                                          \
    DT_TEXT(X, data, HOW, SAID, "cifar-10-batches-bin", NULL, "Data", "PATH",                      \
        "CIFAR-10 or -100 binary folder, folder of train/CLASS/*.png|jpg, or synthetic[:N]")               \
    DT_COUNT(X, subset, RESULT, DAILY, 0, 0, 1e9, "Data", "N",                                     \
        "use only the first N training images (0: all)")                                           \
    DT_COUNT(X, holdout, RESULT, DAILY, 0, 0, 1e9, "Data", "N",                                    \
        "keep N training images out, the same for all seeds, and test on them, not on the test images") \
    DT_CHOICE(X, augment, RESULT, DAILY, "cifar", DT_AUGMENT_LIST(DT_WORD), "Data", "NAME",        \
        "cifar: zero-pad 4, random crop, random flip; alternate: its two sides take turns; airbench: so, and mirror-pad 2") \
    DT_COUNT(X, cutout, RESULT, DAILY, 0, 0, 1024, "Data", "N",                                    \
        "a square of N x N pixels at a random place of each training image becomes the mean (0: none)") \
    DT_CHOICE(X, normalize, RESULT, RARE, "tutorial", DT_NORMALIZE_LIST(DT_WORD), "Data", "NAME",  \
        "channel constants; the tutorial's are in B G R order, applied to R G B images")           \
    DT_CHOICE(X, resize, RESULT, RARE, "auto", " auto" DT_RESIZE_LIST(DT_WORD), "Data", "HOW",     \
        "enlarge images in float, or rounded to uint8 (auto: uint8 for resnet50's mindspore variant)") \
    DT_FLAG(X, drop_remainder, RESULT, RARE, true, "Data",                                         \
        "leave out the uneven last batch of an epoch, as the tutorial does")                       \
    DT_AUTO(X, batch, RESULT, SAID, 32, 1, 1e6, "Data", "N",                                       \
        "images per shard and step (auto: as --global-batch says)")                                \
    DT_AUTO(X, global_batch, RESULT, SAID, 0, 1, 1e8, "Data", "N",                                 \
        "images per step over all shards (auto: batch x shards)")                                  \
    DT_AUTO(X, shards, RESULT, SAID, 0, 1, 65536, "Data", "S",                                     \
        "shards per global batch: the unit of results (auto: ranks x accum)")                      \
    DT_AUTO(X, accum, RESULT, SAID, 0, 1, 65536, "Data", "K", "shards a rank and step (auto: 1)")  \
    DT_CHOICE(X, net, RESULT, SAID, "resnet50", DT_NET_LIST(DT_WORD), "Network", "NAME", "network") \
    DT_CHOICE(X, variant, RESULT, SAID, "mindspore", " mindspore torchvision wide", "Network", "NAME", \
        "resnet50: stride on the first 1x1, \"same\" padding; or on the 3x3, pad 3. vgg11 wide: three linear layers") \
    DT_CHOICE(X, stem, RESULT, SAID, "imagenet", " imagenet cifar", "Network", "NAME",             \
        "resnet50: 7x7 stride 2 and max pool; or 3x3 stride 1")                                    \
    DT_AUTO(X, image_size, RESULT, SAID, 0, 8, 1024, "Network", "N",                               \
        "height = width fed to the network (auto: 224 for the imagenet stem, else 32)")            \
    DT_COUNT(X, width_divisor, RESULT, RARE, 1, 1, 64, "Network", "N",                             \
        "divide all channel counts: for tests")                                                    \
    DT_TEXT(X, bn, RESULT, DAILY, "local", &dt_bn_syntax, "Network", "SCOPE",                        \
        "batch-norm statistics over one shard, all, a node's, or N neighbours: local, sync, node, group:N") \
    DT_TEXT(X, init, RESULT, DAILY, "", NULL, "Network", "FILE", "start from the weights of this model file") \
    DT_FLAG(X, init_head, RESULT, RARE, true, "Network",                                           \
        "with the file's classifier too, or the network's own: for weights of other classes")      \
    DT_COUNT(X, epochs, LENGTH, SAID, 10, 1, 1e6, "Training", "N", "passes over the training set") \
    DT_COUNT(X, max_steps, HOW, SAID, -1, -1, 1e12, "Training", "N",                            \
        "end after N steps of these epochs (-1: no limit; 0: save the initial model)")                            \
    DT_FLAG(X, dry_run, HERE, DAILY, false, "Training",                                            \
        "two steps and a piece of the test, how long the run would take, and nothing is written")  \
    DT_REAL(X, lr, RESULT, SAID, 0.01, 0, 1e6, "Training", "RATE", "learning rate, used as given") \
    DT_TEXT(X, lr_scale, RESULT, RARE, "none", &dt_lr_scale_syntax, "Training", "RULE",              \
        "linear:N: --lr is for a global batch of N (256); multiply it by global batch / N, or sqrt:N: by its root; or none") \
    DT_REAL(X, momentum, RESULT, DAILY, 0.9, 0, 1, "Training", "M", "SGD momentum")                \
    DT_FLAG(X, nesterov, RESULT, DAILY, false, "Training", "Nesterov's momentum")                  \
    DT_REAL(X, weight_decay, RESULT, DAILY, 0, 0, 1e3, "Training", "D",                            \
        "L2 factor added to the gradient")                                                         \
    DT_REAL(X, ema, RESULT, DAILY, 0, 0, 0.999999, "Training", "D",                                \
        "test and save the weights' moving average, which keeps D of itself each step (0: none)") \
    DT_COUNT(X, lookahead, RESULT, RARE, 0, 0, 1e6, "Training", "N",                               \
        "every N steps the weights become a moving average, which is tested and saved (0: none)")  \
    DT_CHOICE(X, decay, RESULT, RARE, "all", " all weights decoupled", "Training", "WHAT",         \
        "decay all parameters, as PyTorch does, or convolution and linear weights only; decoupled: all, by D / --lr") \
    DT_REAL(X, norm_bias_rate, RESULT, RARE, 1, 0, 1e6, "Training", "F",                           \
        "multiply the rate of batch norm's biases by F")                                           \
    DT_CHOICE(X, schedule, RESULT, SAID, "constant", DT_SCHEDULE_LIST(DT_WORD), "Training", "NAME", \
        "learning rate over the run")                                                              \
    DT_AUTO(X, schedule_steps, RESULT, RARE, 0, 1, 1e12, "Training", "N",                          \
        "length of the schedule (auto: all epochs, also where --max-steps ends earlier)")          \
    DT_REAL(X, warmup, RESULT, DAILY, 0, 0, 1e6, "Training", "EPOCHS",                             \
        "linear warm-up before the schedule")                                                      \
    DT_TEXT(X, milestones, RESULT, DAILY, "0.5,0.75", &dt_milestones_syntax, "Training", "LIST",     \
        "step: multiply by --gamma at these fractions of the run (the nearest step)")              \
    DT_REAL(X, gamma, RESULT, DAILY, 0.1, 0, 1, "Training", "G", "step: factor at each milestone") \
    DT_REAL(X, peak, RESULT, RARE, 0.2, 0, 1, "Training", "FRACTION",                              \
        "onecycle, triangle: where the rate is at its peak")                                       \
    DT_REAL(X, lr_to, RESULT, RARE, 10, 1e-30, 1e6, "Training", "RATE",                            \
        "exponential, lr-find (from a 100000th of it): the last rate; between, each is the last one times the same factor") \
    DT_REAL(X, label_smoothing, RESULT, DAILY, 0, 0, 0.999, "Training", "S", "label smoothing")    \
    DT_REAL(X, logit_scale, RESULT, DAILY, 1, 1e-6, 1e6, "Training", "F",                          \
        "multiply the logits by F before the softmax, here and in tests")                          \
    DT_AUTO_REAL(X, loss_epsilon, RESULT, RARE, -1, 0, 1, "Training", "E",                         \
        "loss: log(p + E), or (0) log-sum-exp (auto: 1e-24 for resnet50's mindspore variant, else 0)") \
    DT_CHOICE(X, reduce, RESULT, RARE, "mean", " mean sum", "Training", "HOW",                     \
        "weigh a sample 1/global batch, or (sum) shards/global batch")                             \
    DT_TEXT(X, grad_compress, RESULT, RARE, "none", &dt_grad_compress_syntax, "Training", "HOW",     \
        "bf16: round each shard's gradient once, and send that; 2bit:T: send -T, 0 or T (0.001), keep the rest for the next step; or none") \
    DT_COUNT(X, seed, RESULT, DAILY, 1, 0, 4294967295.0, "Training", "N", "key of all random draws") \
    DT_CHOICE(X, precision, RESULT, SAID, "auto", " auto fp32 bf16", "Machine", "TYPE",            \
        "auto: bf16 where the CPU has AMX or AVX512_BF16, else fp32")                              \
    DT_CHOICE(X, isa, RESULT, DAILY, "auto", " auto" DT_ISA_NAMES, "Machine", "SET",               \
        "instruction set whose bits are computed (auto: the CPU's best; amx: anywhere)")           \
    DT_CHOICE(X, engine, RESULT, SAID, "own", DT_ENGINE_LIST(DT_WORD) " all", "Machine", "NAME",  \
        "whose products in float32 (all: bench only)")                                             \
    DT_AUTO(X, threads, HERE, SAID, 0, 1, 1024, "Machine", "N",                                    \
        "threads per rank (auto: OMP_NUM_THREADS, or this node's cores / its ranks)")              \
    DT_CHOICE(X, exchange, HOW, SAID, "auto", " auto" DT_EXCHANGE_LIST(DT_WORD) " all", "Machine", "NAME", \
        "how gradients are summed over ranks (all: bench only)")                                   \
    DT_TEXT(X, strategy, HOW, RARE, "", NULL, "Machine", "WORDS",                                  \
        "layers that several ranks compute together: all=out, 'features.{15,18}=out classifier=out', @FILE; or auto: the quickest ones") \
    DT_AUTO(X, tensor_parallel, HERE, RARE, 0, 1, 1024, "Machine", "M",                            \
        "ranks that compute such a layer together (auto: as the strategy's file says, or all; a resumed run wants it again)")                                    \
    DT_REAL(X, bucket_mb, HERE, RARE, 25, 0, 1e6, "Machine", "MIB",                                \
        "size of a gradient bucket, of the first and last at most 1 (0: whole)")                   \
    DT_TEXT(X, out, HERE, SAID, "", NULL, "Output", "DIR",                                         \
        "run folder (default: runs/<date>-<name>); plot, report, average, convert: the new file; tensorboard: the folder") \
    DT_CHOICE(X, names, HOW, DAILY, "torchvision", " torchvision kuangliu cs744 mindspore", "Output", "SCHEME", \
        "tensor names in model.safetensors")                                                       \
    DT_CHOICE(X, log_style, HOW, DAILY, "auto", DT_REPORT_LIST(DT_WORD), "Output", "STYLE",        \
        "progress bar or lines; or the tutorial's, or the course's lines")                         \
    DT_TEXT(X, log_dir, HERE, SAID, "", NULL, "Output", "DIR",                                     \
        "a file for each rank there: what it says, with time, rank and host")                      \
    DT_TEXT(X, trace, HERE, SAID, "", &dt_trace_syntax, "Output", "FILE.json[@A:B]",                 \
        "times of all ranks in steps A to B since this start (1:20), for ui.perfetto.dev: phases, layers, buckets, waiting") \
    DT_TEXT(X, save_every, HOW, DAILY, "10m", &dt_save_every_syntax, "Checkpoints", "WHEN",          \
        "checkpoint every N steps, or 30s, 10m, 2h (0: at a stop alone)")                          \
    DT_FLAG(X, save_shards, HOW, RARE, false, "Checkpoints",                                       \
        "each rank writes a part of every checkpoint, on a disk that all hosts share")             \
    DT_TEXT(X, stop_after, HERE, DAILY, "0", &dt_stop_after_syntax, "Checkpoints", "TIME",           \
        "end with a checkpoint and code 75, as by SIGUSR1, after 30s, 10m or 2h (0: never)")       \
    DT_COUNT(X, keep_last, HOW, DAILY, 2, 1, 1e6, "Checkpoints", "N", "newest checkpoints to keep") \
    DT_FLAG(X, keep_best, HOW, DAILY, false, "Checkpoints",                                        \
        "checkpoint each epoch that tests best so far, and keep it")                               \
    DT_TEXT(X, keep_every, HOW, RARE, "0", &dt_keep_every_syntax, "Checkpoints", "M",                \
        "of --save-every's, also keep each whose step is a multiple of M (0: none); epoch: save and keep one at each epoch's end") \
    DT_CHOICE(X, on_save_error, HOW, RARE, "continue", " continue stop", "Checkpoints", "WHAT",    \
        "when a checkpoint cannot be written: warn and train on, or end the run")                  \
    DT_TEXT(X, resume, HERE, SAID, "never", NULL, "Checkpoints", "FROM",                           \
        "auto: the newest valid checkpoint in --out; a run or checkpoint folder; never")           \
    DT_FLAG(X, resume_force, HERE, RARE, false, "Checkpoints",                                     \
        "resume although options were changed that change the run")                                \
    DT_COUNT(X, check_every, HOW, RARE, 50, 0, 1e9, "Checks", "K",                                 \
        "compare weights over ranks every K steps (0: never)")                                     \
    DT_COUNT(X, replay_every, HOW, RARE, 0, 0, 1e9, "Checks", "K",                                 \
        "every K steps, run a shard again on another rank and compare (0: never)")                 \
    DT_REAL(X, stall_abort, HOW, DAILY, 300, 0, 1e6, "Checks", "SECONDS",                          \
        "end the run when a rank stands still for so long, and name it after 10 s, or a thirtieth of that if it is less (0: do neither)") \
    DT_CHOICE(X, tta, COMMAND, COMMANDS(" eval"), "none", " none flip crops", "Other commands", "HOW", \
        "also the accuracy by each image and its mirror image together; crops: and both moved by a pixel, two ways") \
    DT_FLAG(X, confusion, COMMAND, COMMANDS(" eval"), false, "Other commands",                     \
        "also how many images of each class were taken for each other")                            \
    DT_COUNT(X, top, COMMAND, COMMANDS(" predict"), 5, 1, 1e6, "Other commands", "K", "classes to name") \
    DT_COUNT(X, steps, COMMAND, COMMANDS(" bench"), 10, 1, 1e6, "Other commands", "N", "measured steps") \
    DT_FLAG(X, scaling, COMMAND, COMMANDS(" bench plot"), false, "Other commands",                      \
        "also on 1, 2, 4, ... of the ranks")                                                       \
    DT_FLAG(X, layers, COMMAND, COMMANDS(" bench plot"), false, "Other commands",                       \
        "also time, work and limit of each layer and pass, and of each phase")                     \
    DT_TEXT(X, predict, COMMAND, COMMANDS(" bench"), "", NULL, "Other commands", "N,N,...[@NET]",  \
        "instead: a step's time on so many ranks, one to a host; NET: as measured here, or 1gbit, 10gbit, 100gbit") \
    DT_CHOICE(X, to, COMMAND, COMMANDS(" average convert"), "auto", " auto safetensors onnx onnx-raw ckpt", "Other commands", "FORMAT", \
        "format of the new file (auto: as its name ends); onnx-raw: its input is normalised already, not RGB in 0 to 1") \
    DT_AUTO(X, ranks, COMMAND, COMMANDS(" plan"), 0, 1, 65536, "Other commands", "N",                \
        "plan for a run on N ranks (auto: on --tensor-parallel, or one)")                          \
    DT_COUNT(X, ranks_per_node, COMMAND, COMMANDS(" plan"), 1, 1, 1024, "Other commands", "R",       \
        "ranks that share a node")                                                                 \
    DT_FLAG(X, watch, COMMAND, COMMANDS(" status tensorboard"), false, "Other commands",                       \
        "again every two seconds, until the run is over")                                          \
    DT_CHOICE(X, x, COMMAND, COMMANDS(" plot"), "step", " step epoch images time lr", "Other commands", "WHAT", \
        "what curves are drawn over (lr: FILE of lr-find --json)")                                                              \
    DT_COUNT(X, smooth, COMMAND, COMMANDS(" plot"), 1, 1, 1e9, "Other commands", "N",              \
        "draw means of N steps")                                                                   \
    DT_FLAG(X, check, COMMAND, COMMANDS(" certify"), false, "Other commands",                      \
        "check a certificate in place of writing one")                                             \
    DT_COUNT(X, random, COMMAND, COMMANDS(" replay"), 0, 0, 1e6, "Other commands", "K",            \
        "repeat K epochs that are drawn now, the first and the last (0: --epochs LIST, or all)")   \
    DT_AUTO(X, draw, COMMAND, COMMANDS(" replay"), 0, 1, 4294967295.0, "Other commands", "N",      \
        "the draw of --random once more (auto: a new one, from the system's random source)")       \
    DT_FLAG(X, json, COMMAND, COMMANDS(" bench env eval lr-find plan predict runs"), false, "Other commands",        \
        "print JSON (bench --exchange all, --engine all, --scaling, predict: an object a line)")
/* clang-format on */

enum {
#define X(type, field, ...) DT_ROW_##field,
    DT_OPTION_LIST(X)
#undef X
    DT_OPTIONS
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
    bool given[DT_OPTIONS]; /* [i]: dt_option_set has set row i; else it is the default */
    bool searches;          /* --strategy auto: find the fastest one; dt_options_check sets it */
    const char *model;      /* the file or run that a command is about; "": none */
} dt_options;

typedef enum dt_option_type {
    DT_OPTION_TEXT,
    DT_OPTION_CHOICE,
    DT_OPTION_COUNT,
    DT_OPTION_AUTO,
    DT_OPTION_REAL,
    DT_OPTION_AUTO_REAL,
    DT_OPTION_FLAG
} dt_option_type;

/* Text options that have a syntax, parsed; dt_option_set refuses other texts. */
enum { DT_MAX_MILESTONES = 32 };
typedef union dt_option_form {
    int64_t bn; /* shards per group: 0 for local, -1 for node, INT64_MAX for sync */
    struct {
        int64_t steps;
        double seconds;
    } save_every; /* both 0: never; stop_after's steps are 0 */
    int64_t keep_every; /* 0: none; -1: at each epoch's end */
    struct {
        int file;         /* characters of its name */
        int64_t steps[2]; /* the first and the last one, from 1 */
    } trace;
    struct {
        char word[16];
        double number;
    } worded; /* WORD:NUMBER */
    struct {
        int count;
        double fraction[DT_MAX_MILESTONES];
    } milestones;
} dt_option_form;
typedef struct dt_option_syntax {
    bool (*parse)(const char *text, dt_option_form *f); /* false: it has another form */
    const char *want;
} dt_option_syntax;
extern const dt_option_syntax dt_bn_syntax, dt_save_every_syntax, dt_stop_after_syntax,
    dt_keep_every_syntax, dt_trace_syntax, dt_milestones_syntax, dt_lr_scale_syntax,
    dt_grad_compress_syntax;

typedef struct dt_option_row {
    const char *name; /* the field's; the command line has '-' for '_' */
    dt_option_type type;
    dt_option_scope scope;
    bool daily;           /* --help shows it, --help=all shows all */
    bool said;            /* a run's first lines leave it out of `options`: others tell its value */
    const char *commands; /* that take it, a space before each; "": training */
    size_t offset;        /* in dt_options */
    double low, high;
    const char *choices;            /* words, a space before each */
    const dt_option_syntax *syntax; /* NULL: any text fits */
    const char *group, *metavar, *help;
} dt_option_row;
extern const dt_option_row dt_option_table[];

/* All defaults. Local. */
void dt_options_init(dt_options *o);
/* A value as text ("0.01", "true", "auto") into buf; o NULL: the default; returns buf. Local. */
enum { DT_OPTION_CHARS = 4096 }; /* room for any */
const char *dt_option_text(const dt_option_row *row, const dt_options *o, char *buf, size_t size);
/* Parse and check one value; `place` names where it stands ("--lr", "a.yaml:3:5", "DTRAIN_LR").
 * Text values are borrowed: they must outlive o. `code` is the status of an error: DT_USAGE on the
 * command line, DT_CONFIG in files. Local. */
dt_status dt_option_set(const dt_option_row *row, dt_options *o, const char *text,
                        const char *place, dt_status code) DT_MUST_CHECK;
/* What a text means that dt_option_set has accepted. Local. */
dt_option_form dt_option_meaning(const dt_option_syntax *syntax, const char *text);
/* Whether it decides the bits of this run's steps. Without a schedule over the whole run, steps
 * already done are the same in a longer or shorter one. Local. */
bool dt_option_decides(const dt_option_row *row, const dt_options *o);
const dt_option_row *dt_option_find(const char *name); /* '-' or '_'; NULL: unknown */
/* The option that is meant by an unknown name: the one that other programs call so, else the one
 * whose name is the fewest edits away (Levenshtein), if they are few. With on_line it may also be
 * "np", which is no row, or a sentence, with blanks, on what to do instead. NULL: none. Local. */
const char *dt_option_meant(const char *name, bool on_line);
/* An extra's: the same of other programs' names alone, which have '_' for '-'. */
extern const char *(*dt_option_elsewhere)(const char *name);

/* Words of lr_scale and grad_compress that may have a number behind them: WORD:NUMBER. */
#define DT_WORDS_WITH_NUMBER " linear sqrt 2bit"
/* An option of older versions. */
typedef struct dt_option_gone {
    const char *name, *value; /* "_" for "-"; its default, as files have it */
    const char *joins;        /* the option that now has its value, as WORD:NUMBER; NULL: none */
    const char *instead;      /* a sentence */
} dt_option_gone;
/* NULL: there was none of this name, which may begin with "no-". Local. */
const dt_option_gone *dt_option_gone_find(const char *name);

/* Check options against each other. Computes global_batch and shards from batch, accum and world;
 * one that is given stays. Then batch and accum become auto, so that saved options give the same
 * bits on any number of ranks. A second call changes nothing.
 * DT_CONFIG: world > shards, where no layers are cut; shards and accum that contradict each other;
 * no batch at all; ema and lookahead both; ranks that are no multiple of tensor_parallel; what
 * dt_options_mode refuses. Local, equal on all ranks. */
dt_status dt_options_check(dt_options *o, int world) DT_MUST_CHECK;
/* Takes a parallel mode off the front of strategy, the words behind it stay; the mode auto sets
 * `searches`. DT_CONFIG: it does not fit the ranks or these words. NULL: this build cannot cut
 * layers. */
extern dt_status (*dt_options_mode)(dt_options *o, int world);
/* Whether a run has averages of its weights, which are tested and saved. Local. */
static inline bool dt_options_average(const dt_options *o)
{
    return o->ema > 0 || o->lookahead > 0;
}
/* How many neighbouring ranks cut layers together; 1: none do. Local. */
int dt_options_parts(const dt_options *o, int world);
/* DT_CONFIG: a strategy is given, and this build has none. dt_options_check asks it, too. Local. */
dt_status dt_options_check_cuts(const dt_options *o) DT_MUST_CHECK;

/* ---- In files, the environment and the command line: all Local ------------------------ */

/* All options by group as a configuration file: --config reads exactly these back. */
void dt_options_yaml(FILE *f, const dt_options *o);

/* An option's name as the command line spells it, without the dashes, and as a variable. */
enum { DT_OPTION_NAME = 64 };
const char *dt_argument_name(const char *option, char name[DT_OPTION_NAME]);
const char *dt_variable_name(const char *option, char name[DT_OPTION_NAME]);

/* What one place says about each option, unchecked: a layer. Later layers win. */
typedef struct dt_layer_value {
    const char *text; /* NULL: nothing said; borrowed, from `owned` if it comes from a file */
    char *owned;
    unsigned line, column; /* in a file, from 1 */
} dt_layer_value;
typedef struct dt_layer {
    enum { DT_LAYER_FILE, DT_LAYER_SAVED, DT_LAYER_VARIABLES, DT_LAYER_ARGUMENTS } kind;
    char file[PATH_MAX]; /* "": no file */
    dt_layer_value value[DT_OPTIONS];
} dt_layer;
void dt_layer_release(dt_layer *l);
/* Texts are borrowed from l. DT_USAGE: of the command line; DT_CONFIG: of others. */
dt_status dt_layer_apply(const dt_layer *l, dt_options *o) DT_MUST_CHECK;

/* A YAML file of one mapping, option names to scalars, into a layer that is to be released also
 * after an error. An option that is gone is accepted with its old default. In a run's file
 * (DT_LAYER_SAVED) it is accepted with any value; the option named by `joins`, if any, takes it.
 * DT_CONFIG names file, line and column. */
dt_status dt_config_read(dt_layer *layer, const char *path) DT_MUST_CHECK;
/* The same of a text that is in memory; path: what messages call it. */
dt_status dt_config_parse(dt_layer *layer, const char *path, const char *text,
                          size_t length) DT_MUST_CHECK;
enum { DT_CONFIG_BYTES = 256 << 10 }; /* at most: all options at their longest are fewer */

/* Reduce a run's options.yaml to what a resumed run takes: options of one start (DT_SCOPE_HERE) and
 * of other commands are cleared. DT_CONFIG: the file is truncated. */
dt_status dt_layer_saved(dt_layer *l) DT_MUST_CHECK;
/* The options of that file; l holds their texts, and is to be released whatever the outcome. */
dt_status dt_options_load(dt_options *o, dt_layer *l, const char *path) DT_MUST_CHECK;

/* ---- What options mean: all Local ----------------------------------------------------- */

/* The network that the options name. */
dt_net_spec dt_options_net(const dt_options *o, int classes);
/* Replace "auto" in loss_epsilon and resize: by MindSpore's values for the variant mindspore, else
 * by PyTorch's. Saved options then have the values. A second call changes nothing. */
void dt_options_resolve(dt_options *o, const dt_net *net);
#endif

/* cli.h - the front end: settings from all places, and commands; private to src/cli.
 *
 * Options start from the table's defaults. Four places replace these, later ones win: what was
 * saved with a run that is resumed, a configuration file (--config or DTRAIN_CONFIG), the
 * environment (DTRAIN_<NAME>), the command line. Each of the four fills a layer, in which only
 * names are checked; settings.c applies the layers. */
#ifndef DT_CLI_H
#define DT_CLI_H
#include "store/store.h"
#include "train/train.h"

struct json_t;

/* ---- Commands -------------------------------------------------------------------- */

/* The commands, in the order of --help: X(identifier, name, help, members of its dt_command).
 * The mean of one model is that model: convert is average. */
/* clang-format off */
#define DT_NETWORK_OPTIONS \
    " net variant stem image_size batch global_batch shards exchange strategy precision engine threads"
#define DT_COMMAND_LIST(X) \
    X(train, "train", "train a network (the default)", \
      .call = dt_train, .computes = true) \
    X(eval, "eval", "MODEL: loss and accuracy of a saved model on the test images", \
      .call = dt_eval, .operands = "MODEL [OPTION...]", \
      .options = " data holdout precision engine threads", .least = 1, .most = 1, .computes = true, \
      .models = true) \
    X(predict, "predict", "MODEL PICTURE...: the most likely classes of pictures", \
      .run = run_predict, .operands = "MODEL PICTURE...", .options = " precision engine threads", \
      .least = 2, .most = INT_MAX, .computes = true, .models = true) \
    X(summary, "summary", "layers, parameters and work of the network, or of a MODEL's", \
      .call = dt_summary, .operands = "[MODEL] [OPTION...]", .options = DT_NETWORK_OPTIONS, \
      .most = 1, .looks = true, .models = true) \
    X(plan, "plan", "compiled steps: kernels, bytes, offsets, shares of threads", \
      .call = dt_plan_print, .operands = "[MODEL] [OPTION...]", .options = DT_NETWORK_OPTIONS, \
      .most = 1, .computes = true, .looks = true, .models = true) \
    X(env, "env", "this machine: CPU, AMX, packages, cores, ranks, library versions", \
      .call = dt_env) \
    X(bench, "bench", "images per second of the training loop on synthetic data", \
      .call = dt_bench, .options = DT_NETWORK_OPTIONS, .computes = true) \
    X(lr_find, "lr-find", "which learning rate? losses while it grows from step to step", \
      .call = dt_lr_find, .options = DT_NETWORK_OPTIONS " data lr_to max_steps", \
      .computes = true) \
    X(verify, "verify", "PATH: is a checkpoint, a run folder or a model file whole?", \
      .lead = dt_verify, .operands = "PATH", .least = 1, .most = 1) \
    X(status, "status", "RUN: where each rank of a run is, or was when it ended", \
      .lead = dt_status_show, .operands = "RUN", .least = 1, .most = 1) \
    X(plot, "plot", "RUN...: curves of runs; of what bench --json wrote", \
      .lead = dt_view_plot, .operands = "RUN...", .options = " out exchange engine", .least = 1, \
      .most = INT_MAX) \
    X(runs, "runs", "[DIR]: a row for each run; A B...: what differs between runs", \
      .lead = dt_view_runs, .operands = "[DIR] | RUN...", .most = INT_MAX) \
    X(report, "report", "RUN --out FILE.html: a run as one page", \
      .lead = dt_view_report, .operands = "RUN --out FILE.html", .options = " out", .least = 1, \
      .most = 1) \
    X(average, "average", "A B... --out FILE: mean of the weights of models or checkpoints", \
      .lead = dt_average, .operands = "A B... --out FILE", .options = " out names", .least = 1, \
      .most = INT_MAX) \
    X(convert, "convert", "A --out FILE: a model in another naming or format (.onnx, .ckpt)", \
      .lead = dt_average, .operands = "A --out FILE [--names SCHEME] [--to FORMAT]", \
      .options = " out names", .least = 1, .most = 1) \
    X(merge, "merge", "CHECKPOINT|FILE... --out FILE: what --save-shards wrote as one file", \
      .lead = dt_merge, .operands = "CHECKPOINT|FILE... --out FILE | --shards N --out DIR", \
      .options = " out names shards", .least = 1, .most = INT_MAX) \
    X(tensorboard, "tensorboard", "RUN...: records of runs as files that TensorBoard reads", \
      .lead = dt_tensorboard, .operands = "RUN... [--out DIR] [--watch]", .options = " out", \
      .least = 1, .most = INT_MAX) \
    X(config, "config", "the effective options as a configuration file (--print-config)", \
      .call = print_config) \
    X(launch, "launch", "start a run on one host or several: dtrain launch --help", \
      .alone = run_launch) \
    X(ranktable, "ranktable", "check a rank table of hosts", \
      .alone = dt_ranktable) \
    X(version, "version", "version, build and libraries", \
      .call = print_version, .bare = true) \
    X(help, "help", "this text", \
      .run = run_help, .operands = "[COMMAND]", .most = 1, .bare = true)
/* clang-format on */

typedef struct dt_settings dt_settings;
typedef struct dt_command {
    const char *name, *help;
    /* One of these four; results go to stdout on rank 0. The first two are Collective, with the
     * same settings on all ranks; lead is for rank 0 alone, with the words that are no options. */
    dt_status (*call)(dt_comm *c, const dt_options *o);
    dt_status (*run)(dt_comm *c, const dt_settings *s);
    dt_status (*lead)(const dt_options *o, const char *const *path, size_t count);
    /* Without MPI and settings; argv: the words after the command's name. */
    dt_status (*alone)(int argc, char **argv, int *code);
    const char *operands; /* what messages call the words that are no options */
    int least, most;      /* how many of them it takes; 0: none */
    const char *options;  /* words, a space before each: training's that matter to it, for --help */
    bool bare;            /* reads no options: works whatever files and environment hold */
    bool computes;        /* runs or compiles a network: needs memory and some stack */
    bool looks;           /* runs no kernel: shows what a CPU with --isa would take, on any */
    bool models;          /* the first operand is a model, whose run's options stand in place of the
                      defaults */
} dt_command;
#define X(id, ...) extern const dt_command dt_command_##id;
DT_COMMAND_LIST(X)
#undef X
#define X(id, ...) +1
enum { DT_COMMANDS = 0 DT_COMMAND_LIST(X) };
#undef X
extern const dt_command *const dt_command_table[DT_COMMANDS];
/* NULL: unknown. */
const dt_command *dt_command_find(const char *name);

/* Commands that are no other folder's. */
dt_status dt_plan_print(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
dt_status dt_summary(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
dt_status dt_env(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
dt_status dt_status_show(const dt_options *o, const char *const *run, size_t runs) DT_MUST_CHECK;
dt_status dt_tensorboard(const dt_options *o, const char *const *run, size_t runs) DT_MUST_CHECK;

/* dt_comm_open, and what belongs to it: the rank is to end when its launcher dies; files that this
 * user's killed ranks left in /dev/shm are removed; room for MPI's own buffers is reserved there.
 * DT_NOMEM: there is not enough room. Otherwise as dt_comm_open. Collective. */
dt_status dt_start_mpi(dt_comm **c, int *argc, char ***argv) DT_MUST_CHECK;

/* How `threads` threads of a rank share a step: a table, or JSON, in which `strategy` is a member
 * that is taken over; NULL: there is none. DT_NOMEM. */
dt_status dt_share_show(const dt_net *net, const dt_model *m, const dt_plan *plan, int threads,
                        const dt_options *o, struct json_t *strategy) DT_MUST_CHECK;

/* ---- Settings -------------------------------------------------------------------- */

enum { DT_SAVED_LAYER, DT_FILE_LAYER, DT_VARIABLES_LAYER, DT_ARGUMENTS_LAYER, DT_LAYERS };
struct dt_settings {
    const dt_command *command;
    bool help_all;           /* --help=all */
    const dt_command *about; /* whose --help was asked for; NULL: of none */
    dt_options options;      /* texts borrowed from the layers */
    const char **operand;    /* [operands], owned; texts borrowed from argv */
    int operands;
    dt_layer layer[DT_LAYERS];
    char strategy[DT_OPTION_CHARS]; /* of a file */
};

/* Read all places but a saved run. Local: ranks must agree on the outcome.
 *   argv, environment  borrowed; must outlive the settings
 *   s                  is to be released whatever the outcome */
dt_status dt_settings_init(dt_settings *s, int argc, char **argv, char **environment) DT_MUST_CHECK;
void dt_settings_release(dt_settings *s);
/* For a run that is resumed, or whose model a command uses, what was saved with it stands in place
 * of the defaults, but for what belongs to one start (DT_SCOPE_HERE). Rank 0 alone reads it: the
 * other nodes need not see its disk. Agreed. DT_NOINPUT: --resume names nothing; DT_CONFIG.
 * Collective. */
dt_status dt_settings_resume(dt_settings *s, dt_comm *c) DT_MUST_CHECK;
/* --strategy @FILE becomes the strategy's line; each rank reads the file. Local. */
dt_status dt_settings_strategy(dt_settings *s) DT_MUST_CHECK;
/* DT_MISMATCH, printed, when one rank has another command or option. Collective. */
dt_status dt_settings_same(const dt_settings *s, dt_comm *c) DT_MUST_CHECK;

/* The command line into its layer and s->command; *config: what --config names. DT_USAGE. Local. */
dt_status dt_arguments_read(dt_settings *s, int argc, char **argv,
                            const char **config) DT_MUST_CHECK;
/* The same to look at it, before MPI starts. *alone: its command needs no other rank. */
dt_status dt_arguments_check(int argc, char **argv, bool *alone) DT_MUST_CHECK;
/* --help, or (all) --help=all, of a command; of training, all commands. */
void dt_help_print(FILE *f, const dt_command *about, bool all);
/* `dtrain help table`, of which packaging/ makes the man page and completions: a row of a table is
 * a line, its fields between tabs:
 *   command  name, the training's options that matter to it, help
 *   option   name, metavar ("[no]": a flag), default, choices, commands, group, help
 *   exit     code, text */
void dt_help_table(FILE *f);

#endif

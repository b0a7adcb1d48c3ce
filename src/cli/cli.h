/* cli.h - the front end: settings from all places, and commands; the public header of src/cli, for
 * extras, which add commands.
 *
 * Options start from the table's defaults. Four places replace these, later ones win: what was
 * saved with a run that is resumed, a configuration file (--config or DTRAIN_CONFIG), the
 * environment (DTRAIN_<NAME>), the command line. Each of the four fills a layer, in which only
 * names are checked; settings.c applies the layers. */
#ifndef DT_CLI_H
#define DT_CLI_H
#include "store/store.h"
#include "train/train.h"

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
    const char *options;  /* words, a space before each: training's options in its --help */
    const char *own;      /* an option whose text on the command line it reads itself */
    bool bare;            /* reads no options: works whatever files and environment hold */
    bool computes;        /* runs or compiles a network: needs memory and some stack */
    bool engines;         /* chooses --engine itself */
    bool looks;           /* runs no kernel: shows those of a CPU with --isa, on any CPU */
    bool models;          /* the first operand is a model, whose run's options stand in place of the
                      defaults */
} dt_command;
/* For dt_command.options: these define a network and its step. */
#define DT_NETWORK_OPTIONS                                                                         \
    " net variant stem image_size batch global_batch shards exchange strategy precision engine "   \
    "threads"
/* The commands of the core, in the order of --help. */
enum { DT_RUN_TRAIN, DT_RUN_CONFIG, DT_RUN_VERSION, DT_RUN_HELP, DT_CORE_COMMANDS };
extern const dt_command dt_core_command[DT_CORE_COMMANDS];
/* Add an extra's commands, once, before the first is looked for; borrowed. Local. */
void dt_commands_add(const dt_command *list, size_t count);
/* Command i of all, the core's first; NULL behind the last. Local. */
const dt_command *dt_command_at(size_t i);
/* NULL: unknown. Local. */
const dt_command *dt_command_find(const char *name);
/* Every extra of this build adds what it has; CMake writes it. Local. */
void dt_extras_add(void);

/* dt_comm_open, and what belongs to it: the rank is to end when its launcher dies; files that this
 * user's killed ranks left in /dev/shm are removed; room for MPI's own buffers is reserved there.
 * DT_NOMEM: there is not enough room. Otherwise as dt_comm_open. Collective. */
dt_status dt_start_mpi(dt_comm **c, int *argc, char ***argv) DT_MUST_CHECK;

enum { DT_SAVED_LAYER, DT_FILE_LAYER, DT_VARIABLES_LAYER, DT_ARGUMENTS_LAYER, DT_LAYERS };
struct dt_settings {
    const dt_command *command;
    bool help_all;           /* --help=all */
    const dt_command *about; /* whose --help was asked for; NULL: of none */
    dt_options options;      /* texts borrowed from the layers */
    const char **operand;    /* [operands], owned; texts borrowed from argv */
    int operands;
    const char *own; /* the text of command->own; NULL: it was not given */
    dt_layer layer[DT_LAYERS];
    char strategy[DT_OPTION_CHARS]; /* of a file */
};

/* Read all places but a saved run. Local: ranks must agree on the outcome.
 *   argv, environment  borrowed; must outlive the settings
 *   s                  is to be released whatever the outcome */
dt_status dt_settings_init(dt_settings *s, int argc, char **argv, char **environment) DT_MUST_CHECK;
void dt_settings_release(dt_settings *s);
/* For a run that is resumed, or whose model a command uses, saved options stand in place of the
 * defaults, except options of one start (DT_SCOPE_HERE). Rank 0 alone reads the saved file: the
 * other nodes need not see its disk. Agreed. DT_NOINPUT: --resume names nothing; DT_CONFIG.
 * Collective. */
dt_status dt_settings_resume(dt_settings *s, dt_comm *c) DT_MUST_CHECK;
/* DT_MISMATCH, printed, when one rank has another command or option. Collective. */
dt_status dt_settings_same(const dt_settings *s, dt_comm *c) DT_MUST_CHECK;

/* The command line into its layer and s->command; *config: what --config names. DT_USAGE. Local. */
dt_status dt_arguments_read(dt_settings *s, int argc, char **argv,
                            const char **config) DT_MUST_CHECK;
/* A first look at the command line, before MPI starts. *alone: its command needs no other rank. */
dt_status dt_arguments_check(int argc, char **argv, bool *alone) DT_MUST_CHECK;
/* Print the help of a command; training's lists the commands, too. `all`: print --help=all. */
void dt_help_print(FILE *f, const dt_command *about, bool all);
/* `dtrain help table`, of which packaging/ makes the man page and completions: a row of a table is
 * a line, its fields between tabs:
 *   command  name, the training's options that matter to it, help
 *   option   name, metavar ("[no]": a flag), default, choices, commands, group, help
 *   exit     code, text */
void dt_help_table(FILE *f);

#endif

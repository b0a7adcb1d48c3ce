/* store.h - run folders and checkpoints; the public header of src/store.
 * Everything is Local; rank 0 alone writes, except the portions of --save-shards. */
#ifndef DT_STORE_H
#define DT_STORE_H
#include "format/format.h"
#include "options/options.h"

/* ---- Options in files ------------------------------------------------------------------ */

/* The configuration file that dt_options_yaml writes. DT_NOMEM. */
dt_status dt_options_put(const dt_target *t, const dt_options *o, dt_written *w) DT_MUST_CHECK;
/* Fill options that were not given by what a model file (or folder) says of its network;
 * dt_model_load later checks all against the file. `meta` holds the texts and must outlive o.
 * Errors as dt_safetensors_open. */
dt_status dt_options_from_model(const char *path, dt_options *o, dt_model_meta *meta) DT_MUST_CHECK;
/* The same, then dt_model_read_open for the network that the options mean. */
dt_status dt_options_read_model(dt_model_read *r, const char *path, dt_options *o,
                                dt_model_meta *meta) DT_MUST_CHECK;
/* The options.yaml of the run or checkpoint that `path` names or lies in; "": there is none.
 * DT_USAGE: the path is too long. */
dt_status dt_model_options(const char *path, char out[PATH_MAX]) DT_MUST_CHECK;
/* Metadata of a run's model file; images may be NULL. Texts are borrowed. */
dt_model_file_opts dt_model_says(const dt_options *o, const dt_source_info *images, int64_t steps);

/* ---- The run folder ------------------------------------------------------------------- */

/* A run folder that is held by its descriptor: if it is moved, it stays the run's, and what takes
 * its name is not touched; if it is removed, every write fails. */
typedef struct dt_rundir {
    char path[PATH_MAX - 64]; /* what it was called; 64: room for the names of files in it */
    int folder, lock;         /* descriptors of the folder and of its .lock; -1: closed */
    bool created;             /* by us */
    bool resumed;             /* an older run's: what is in it must stay */
    int saves; /* descriptor of `checkpoints` since the first save; <= 0: none. On some disks (vfat,
                * FUSE) a folder gets another inode number once it is not open any more */
    char last[PATH_MAX]; /* path of the checkpoint saved last, or ""; read it when no save runs */
} dt_rundir;

/* Take --out DIR, which must be new or empty, or make runs/<YYYYmmdd-HHMMSS>-<net>-np<N>, with -2,
 * -3, ... where that is taken. Missing parents are made, and are on disk when this returns.
 *   --resume auto  also takes over a run folder, one with options.yaml
 *   --resume PATH  takes over the run folder that PATH is or lies in, when --out is that
 *                  folder or not given; with another --out a new one begins
 * Its file .lock is held by flock until close, or the process's end; it is never written or
 * removed. A folder that holds it, or logs of this run, still counts as empty. Of processes that
 * want one folder at once, one gets it. DT_CANTCREATE: not empty, held by another run, or not
 * writable; DT_NOINPUT: PATH does not exist; DT_IO. */
dt_status dt_rundir_open(dt_rundir *d, const dt_options *o, int world) DT_MUST_CHECK;
void dt_rundir_close(dt_rundir *d); /* a zeroed d is allowed */
/* Whether a live run holds the folder. */
bool dt_rundir_held(const char *folder);

/* ---- Checkpoints ---------------------------------------------------------------------- */

/* Checkpoints that survive a kill and a power cut.
 *
 * <run>/checkpoints/step-0000000123/ holds the files that docs/formats.md lists with all their
 * members ("What a checkpoint contains"). Save: write everything into .tmp-step-0000000123, sync
 * each file, MANIFEST last (name, size and XXH3-128 of every file, then of itself), sync the
 * folder, rename it, sync its parent. A folder without the dot is therefore whole, and a reader
 * still checks every byte. Nothing in it depends on the number of ranks, except (--save-shards) the
 * number of pieces. A step that is saved again (an epoch's end, then its best test) becomes
 * step-0000000123-2, -3, ...: nothing is ever replaced, the highest counts, and pruning removes the
 * ones below. Names with a dot are not looked at: .tmp-* (a save that did not end), .trash-* (a
 * deletion that did not). */

/* Where a run stands: what the next step depends on besides weights and momentum, and
 * the sums that its reports need. Steps and epochs count from 0. */
enum { DT_CHAIN_CHARS = 200 };
typedef struct dt_position {
    int64_t epoch, step;  /* the next step to run, within its epoch; step may be the epoch's
                              length: then the epoch's test comes next */
    int64_t run_step;     /* steps done in the whole run */
    double loss_sum;      /* of the epoch so far: sum over its images */
    int64_t images;       /* of the epoch so far */
    double best_accuracy; /* of the folder's tests so far; -1: none */
    int64_t best_epoch;
    int64_t metrics_bytes;      /* length of metrics.jsonl at this point */
    char chain[DT_CHAIN_CHARS]; /* where extra/proof stands; "": it was not there */
} dt_position;

/* The files of a checkpoint: one list for writer and reader. */
#define DT_CHECKPOINT_FILE_LIST(X)                                                                 \
    X(MODEL, "model.safetensors")                                                                  \
    X(MOMENTUM, "momentum.safetensors")                                                            \
    X(OPTIONS, "options.yaml")                                                                     \
    X(STATE, "state.json")                                                                         \
    X(TRAINED, "trained.safetensors") /* with averages; else no file, and no line in MANIFEST */
typedef enum dt_checkpoint_file {
#define X(name, text) DT_CHECKPOINT_##name,
    DT_CHECKPOINT_FILE_LIST(X)
#undef X
        DT_CHECKPOINT_FILES
} dt_checkpoint_file;

/* The file of a portion has the name that PyTorch gives to a rank's. Returns out. */
enum { DT_PORTION_NAME = 64, DT_MAX_PORTIONS = 1024 };
const char *dt_portion_name(int portion, char out[DT_PORTION_NAME]);

/* What is saved; pointers are borrowed. */
enum { DT_BITS_CLASS_CHARS = 512 };
typedef struct dt_snapshot {
    dt_weights model;   /* what is tested: the averages, if there are any */
    dt_weights trained; /* with averages: what the steps train; else net is NULL */
    float *momentum;    /* [net->slab_floats] */
    int rank, portions; /* this rank's portion, of how many; 0: whole */
    const struct dt_portion *portion[DT_CHECKPOINT_FILES]; /* in each file, for dt_model_put */
    dt_position at;
    int metrics_fd; /* synced first: at.metrics_bytes must not be ahead of it; <= 0: none */
    const dt_options *options;            /* resolved: saved as options.yaml */
    const dt_source_info *images;         /* of the data, or NULL */
    char data_digest[DT_DIGEST_CHARS];    /* of the data's content */
    char bits_class[DT_BITS_CLASS_CHARS]; /* precision, isa, version, commit, build type */
    bool best;                            /* the best test so far: --keep-best holds on to it */
    bool proved;                          /* its own loss is known to be finite: see dt_keep */
} dt_snapshot;

/* XXH3-128 of the model's weights, momentum (both in state_dict order, OIHW), running means and
 * variances, and the position: epoch, then step, as int64. Numbers are little-endian, so the hash
 * depends on neither layouts nor ranks. With averages *all is the hash of two digests: this one,
 * and the same of `trained` without momentum, at epoch 0, step 0. *weights: of the weights alone;
 * weights may be NULL. DT_NOMEM. */
dt_status dt_snapshot_hash(const dt_snapshot *s, dt_digest *weights, dt_digest *all) DT_MUST_CHECK;
/* DT_NUMERIC names the first number that is not finite. */
dt_status dt_snapshot_finite(const dt_snapshot *s) DT_MUST_CHECK;

/* Write one checkpoint by the protocol above; run->last is its path afterwards.
 * DT_CANTCREATE, DT_IO: what was there before is as it was, and the temporary is gone. Where the
 * last sync alone fails, the new folder stays: it is whole, but its name may not outlive a power
 * cut. */
dt_status dt_checkpoint_save(dt_rundir *run, const dt_snapshot *s) DT_MUST_CHECK;

/* Refuse a folder `checkpoints` of the run that a save would refuse. */
dt_status dt_checkpoints_check(dt_rundir *run) DT_MUST_CHECK;

/* The same in pieces, whose writers may be on other hosts with the same disk:
 *   dt_saving_begin    one of them makes the folder, dt_saving_path
 *   dt_saving_write    each writes its portion there, the first also options and state.
 *                      DT_CANTCREATE: the folder is not seen here
 *   dt_saving_end      the one ends it with what all have written, [portions][DT_CHECKPOINT_FILES];
 *                      errors as dt_checkpoint_save; releases w whatever the outcome
 *   dt_saving_abandon  instead: removes the folder and releases w */
typedef struct dt_saving dt_saving;
dt_status dt_saving_begin(dt_saving **w, dt_rundir *run, int64_t step, int portions) DT_MUST_CHECK;
const char *dt_saving_path(const dt_saving *w);
dt_status dt_saving_write(const char *folder, const dt_snapshot *s,
                          dt_written written[DT_CHECKPOINT_FILES]) DT_MUST_CHECK;
dt_status dt_saving_end(dt_saving *w, const dt_written *written) DT_MUST_CHECK;
void dt_saving_abandon(dt_saving *w); /* NULL is allowed */

/* After a save of step `saved`: delete older checkpoints that --keep-last, --keep-every and
 * --keep-best do not hold on to: all are renamed to .trash-*, the folder synced, and only then
 * unlinked. What is newer, and what is not a whole checkpoint by its MANIFEST and sizes, neither
 * counts nor is touched. Leftover .tmp-step-* and .trash-step-* go too, so no save may be under
 * way. DT_IO. Finite weights can give a loss that is not finite: a checkpoint is proved by a finite
 * loss of the next step or test. Until the newest is proved, the one before it stays, too. */
typedef struct dt_keep {
    int64_t last, every;
    bool best, unproved; /* unproved: the newest */
} dt_keep;
dt_status dt_checkpoint_prune(dt_rundir *run, int64_t saved, const dt_keep *keep) DT_MUST_CHECK;

/* The name of the newest checkpoint in a run's folder, valid or not, and its age; name[0] = 0:
 * there is none. DT_NOINPUT, DT_IO, DT_NOMEM. */
enum { DT_CHECKPOINT_NAME = 48 };
dt_status dt_checkpoint_last(const char *run, char name[DT_CHECKPOINT_NAME],
                             double *age_s) DT_MUST_CHECK;

/* A checkpoint that is open to be read; its MANIFEST, state.json and sizes are checked. */
typedef struct dt_checkpoint dt_checkpoint;
const char *dt_checkpoint_path(const dt_checkpoint *c);
/* The saved text of "data_digest", "class" or an option, borrowed from c; NULL: it was not saved.
 * dt_shown makes the one line of UTF-8 that is saved of a text. */
const char *dt_checkpoint_text(const dt_checkpoint *c, const char *name);

/* Read the other files once each, and fill the arrays of `into` and into->at. Files must have their
 * hash in MANIFEST, the numbers be finite and have the state_hash that was saved. Takes memory for
 * one file at a time. into->options (or NULL) gives the normalisation that the weights must be for;
 * its other members are not read. DT_CONFIG: only one of checkpoint and `into` has averages.
 * DT_FORMAT names the first thing wrong; else errors as dt_model_load. After a failure
 * `into` and into->at are undefined. */
dt_status dt_checkpoint_load(const dt_checkpoint *c, dt_snapshot *into) DT_MUST_CHECK;

/* Which checkpoints are wanted: of steps from `first` to `end` - 1, accepted by `take`; NULL: each
 * that is valid. DT_FORMAT of `take` means that the checkpoint is not valid. */
typedef struct dt_query {
    int64_t first, end;
    dt_status (*take)(void *context, const dt_checkpoint *c);
    dt_snapshot *into; /* where it is loaded, and valid if that succeeds; NULL: it is not */
    /* Called with the status of a checkpoint that is not taken: a failure, or DT_DECLINED by
     * `take`. If it returns DT_OK, the search continues; else it ends with that status. NULL: a
     * checkpoint that is not valid is skipped with a warning, other failures end the search. */
    dt_status (*judge)(void *context, dt_status st);
    void *context;
} dt_query;
/* The newest such checkpoint of an open run folder, which messages call `path`; found[0] = 0: there
 * is none in that range. One that is pruned meanwhile is passed over. DT_FORMAT: there are some,
 * and none is valid; DT_UNSUPPORTED, DT_IO: one is of a newer format, or could not be read, and may
 * be valid; DT_NOMEM. */
dt_status dt_checkpoint_newest(int folder, const char *path, const dt_query *t,
                               char found[PATH_MAX]) DT_MUST_CHECK;
/* The same of the run folder `path`; or the checkpoint that it is itself, of any step. DT_NOINPUT:
 * path does not exist. */
dt_status dt_checkpoint_find(const char *path, const dt_query *t,
                             char found[PATH_MAX]) DT_MUST_CHECK;

/* ---- A thread that writes while training goes on ---------------------------------------- */

typedef struct dt_saver dt_saver;
/* Bytes of a snapshot's copy: weights, momentum and running statistics; with `averages`
 * also the trained weights and their statistics. */
size_t dt_saver_bytes(const dt_net *net, bool averages);
/* Takes these bytes, so that saving allocates no slab. net, run: borrowed; keep: copied. */
dt_status dt_saver_open(dt_saver **v, dt_rundir *run, const dt_net *net, bool averages,
                        const dt_keep *keep) DT_MUST_CHECK;
/* DT_NUMERIC names the first number of the snapshot that is not finite: nothing is written, nothing
 * pruned. Else waits for the thread to end the write under way, and reports its outcome (a failed
 * save is recorded and returned). Then copies the snapshot, and starts its write and the pruning,
 * also if the save before failed. The snapshot may change as soon as this returns; the texts in its
 * options, and its metrics_fd, must last until the write is waited for. */
dt_status dt_saver_save(dt_saver *v, const dt_snapshot *s) DT_MUST_CHECK;
/* Waits for the write under way; its outcome, reported once. Then run->last may be read; it names
 * the checkpoint also if only the pruning after it failed. */
dt_status dt_saver_wait(dt_saver *v) DT_MUST_CHECK;
void dt_saver_close(dt_saver *v); /* waits; NULL is allowed */

/* ---- The newest state of a run -------------------------------------------------------- */

/* The model that `path` means. A file means itself; so does a valid checkpoint. A run folder with
 * checkpoints means its newest valid state, by the steps that they record: model.safetensors,
 * or a checkpoint that is newer, as when a finished run was resumed and killed; one note
 * says which. Ones that are not valid are reported by warnings and skipped.
 * DT_NOINPUT: the run holds neither; DT_FORMAT, DT_IO. Local. */
dt_status dt_newest_model(const char *path, char out[PATH_MAX]) DT_MUST_CHECK;

#endif

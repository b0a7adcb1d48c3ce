/* store.h - everything that is a file; the public header of src/store.
 *
 * Checkpoints, the run folder and its metrics, and what is looked for before and
 * after they are written. Files are written beside their place, synced and renamed: a reader
 * sees what was there before, or all of the new. Everything is Local; rank 0 alone writes. */
#ifndef DT_STORE_H
#define DT_STORE_H
#include "format/format.h"
#include "options/options.h"
#include <limits.h>

/* ---- A network's numbers, and their hashes -------------------------------------------- */

/* XXH3-128 of weights, momentum (both in state_dict order, OIHW), running means,
 * running variances, and the position: epoch, then step, as int64. Numbers are
 * little-endian, so the hash depends on neither layouts nor ranks. Local; DT_NOMEM.
 *   momentum  [dt_net_slab_floats]; NULL: left out, as in a model that is not trained */
dt_status dt_state_hash(const dt_weights *s, const float *momentum, int64_t epoch, int64_t step,
                        dt_digest *out) DT_MUST_CHECK;
/* The same, and the hash of the weights alone as dt_model_weights_hash has it. */
dt_status dt_state_hashes(const dt_weights *s, const float *momentum, int64_t epoch, int64_t step,
                          dt_digest *weights, dt_digest *all) DT_MUST_CHECK;

/* ---- Options in files ------------------------------------------------------------------ */

/* The configuration file that dt_options_yaml writes. DT_NOMEM. */
dt_status dt_options_put(const dt_target *t, const dt_options *o, dt_written *w) DT_MUST_CHECK;
/* What a model file (or folder) says of its network, into the options that nobody gave:
 * dt_model_load then checks them against the file. `meta` holds the texts and must outlive o.
 * Errors as dt_safetensors_open. */
dt_status dt_options_from_model(const char *path, dt_options *o, dt_model_meta *meta) DT_MUST_CHECK;
/* The same, then dt_model_read_open for the network that the options mean. */
dt_status dt_options_read_model(dt_model_read *r, const char *path, dt_options *o,
                                dt_model_meta *meta) DT_MUST_CHECK;

/* ---- Checkpoints ---------------------------------------------------------------------- */

/* Checkpoints that survive a kill and a power cut.
 *
 * <run>/checkpoints/step-0000000123/ holds model.safetensors, momentum.safetensors,
 * state.json, options.yaml and MANIFEST. Save: write everything into
 * .tmp-step-0000000123, sync each file, MANIFEST last (name, size and XXH3-128 of every
 * file, then of itself), sync the folder, rename it, sync its parent. A folder without the
 * dot is therefore whole, and a reader still checks every byte. Nothing in it depends on
 * the number of ranks. A step that is saved again with other content (an epoch's end, then
 * its best test) becomes step-0000000123-2, -3, ...: nothing is ever replaced, the highest
 * counts, and pruning removes the ones below. Names with a dot are not looked at:
 * .tmp-* (a save that did not end), .trash-* (a deletion that did not), .undone-* (newer
 * than the checkpoint that a run was continued from, or is to be: see disown).
 * All functions are Local; rank 0 alone writes. */

/* Where a run stands: everything that the next step depends on beside the numbers, and
 * what its reports add up. Steps and epochs count from 0. */
typedef struct dt_progress {
    int64_t epoch, step;  /* the next step to run, within its epoch; step may be the epoch's
                              length: then the epoch's test comes next */
    int64_t run_step;     /* steps done in the whole run */
    double loss_sum;      /* of the epoch so far: sum over its images */
    int64_t images;       /* of the epoch so far */
    double best_accuracy; /* of all tests so far; -1: none */
    int64_t best_epoch;
    int64_t metrics_bytes; /* length of metrics.jsonl at this point */
} dt_progress;

/* What is saved; all borrowed. */
typedef struct dt_snapshot {
    dt_weights model;
    float *momentum; /* [dt_net_slab_floats] */
    dt_progress at;
    const dt_options *options; /* resolved: saved as options.yaml */
    const char *data_digest;   /* of the data's content, as text */
    const char *bits_class;    /* build, libraries, instruction set: one line of text */
    bool best;                 /* the best test so far: --keep-best holds on to it */
    bool proved;               /* its own loss is known to be finite: see dt_keep */
} dt_snapshot;

/* Write one checkpoint by the protocol above. metrics_fd (or -1) is synced first: the
 * length recorded must not be ahead of the file. *path: the folder made, or the one that
 * was there and holds exactly the same.
 * DT_CANTCREATE, DT_IO: what was there before is as it was, and the temporary is gone;
 * path[0] = 0. Where the last sync alone fails, the new folder stays: it is whole, but its
 * name may not outlive a power cut. */
dt_status dt_checkpoint_save(const char *run, const dt_snapshot *s, int metrics_fd,
                             char path[PATH_MAX]) DT_MUST_CHECK;

/* Delete what --keep-last, --keep-every and --keep-best do not hold on to: all are renamed
 * to .trash-*, the folder synced, and only then unlinked. The newest valid one always stays,
 * and what is newer than it is left for find to name; and what the system fails to read. Those
 * whose files have not the sizes of their MANIFEST do not count as kept; with files in them that
 * no checkpoint has, they are somebody's and stay. Leftover .tmp-step-* and .trash-step-* go
 * too, so no save may be under way; and .undone-* up to the step of the newest valid
 * one, for the run has come as far again. DT_IO.
 * Finite numbers can still give a loss that is not: only the step or test after a checkpoint
 * proves it. Any that has a later one is proved; while the newest is not, the one before
 * stays too. */
typedef struct dt_keep {
    int64_t last, every;
    bool best, unproved; /* unproved: the newest */
} dt_keep;
dt_status dt_checkpoint_prune(const char *run, const dt_keep *keep) DT_MUST_CHECK;

/* The name of the newest checkpoint in a run's folder, valid or not, and its age; name[0] = 0:
 * there is none. DT_IO, DT_NOMEM. */
enum { DT_CHECKPOINT_NAME = 48 };
dt_status dt_checkpoint_last(const char *run, char name[DT_CHECKPOINT_NAME],
                             double *age_s) DT_MUST_CHECK;

/* The newest valid checkpoint of a run folder (or the one that `path` itself is) into
 * found; a torn or corrupt one, one with a number that is not finite, or whose numbers have not
 * the state_hash that was saved, is named by dt_warn with what is wrong, and skipped; but an error
 * of the system, after which nothing is known of it, is the outcome: DT_IO, DT_NOMEM; and so is a
 * whole one of a newer format: DT_UNSUPPORTED. Leftover
 * .tmp-* and .trash-* are passed over. Memory for one state is taken meanwhile. found[0] = 0:
 * none. DT_FORMAT: path is itself a checkpoint, and not valid; DT_NOINPUT: path does not exist. */
dt_status dt_checkpoint_find(const char *path, char found[PATH_MAX]) DT_MUST_CHECK;

/* The same of those in a run folder whose step is above `than`. DT_IO, DT_NOMEM. */
dt_status dt_checkpoint_newer(const char *run, int64_t than, char found[PATH_MAX]) DT_MUST_CHECK;

/* The same of those whose step is below `than`. */
dt_status dt_checkpoint_older(const char *run, int64_t than, char found[PATH_MAX]) DT_MUST_CHECK;

/* Whether a folder is a checkpoint, whole or torn, or lies in the `checkpoints` of a run: what
 * is in it is not for others to write. */
bool dt_checkpoint_holds(const char *folder);
/* Whether a checkpoint that could not be read is not there any more: of a run that is on,
 * pruning takes them while others read. Look at the folder again, then. */
bool dt_checkpoint_gone(const char *path);
enum { DT_CHECKPOINT_LOOKS = 100 };

/* Check every byte of one checkpoint: MANIFEST, sizes, hashes, tensors, and that all their
 * numbers are finite. DT_FORMAT names the first thing wrong; DT_UNSUPPORTED: it is of a newer
 * format, and whole as far as that shows; DT_NOINPUT; DT_IO. */
dt_status dt_checkpoint_verify(const char *path) DT_MUST_CHECK;

/* A checkpoint to be read: its MANIFEST and state.json, read and checked once, and the sizes of
 * its files. Errors as dt_checkpoint_verify; DT_NOMEM. */
typedef struct dt_checkpoint dt_checkpoint;
dt_status dt_checkpoint_open(dt_checkpoint **c, const char *path) DT_MUST_CHECK;
void dt_checkpoint_close(dt_checkpoint *c); /* NULL is allowed */

/* Text members of state.json: "data_digest", "class", "state_hash", "weights_hash", and
 * "options.NAME" for each option as dt_option_text has it (bytes outside ASCII that are not
 * UTF-8, and control characters, are '?'). Reads no file. DT_FORMAT: there is none. */
dt_status dt_checkpoint_text(const dt_checkpoint *c, const char *key, char *out,
                             size_t size) DT_MUST_CHECK;
/* Whether there is one: an older version may not have had the option. */
bool dt_checkpoint_says(const dt_checkpoint *c, const char *key);

/* Every byte is checked, then into->model's arrays, into->momentum and *at are filled, and the
 * state_hash is computed anew and compared with the one saved; where it differs, all is read once
 * more.
 * into->options (or NULL) gives the normalisation that the weights must be for; its other
 * members are not read. Errors as dt_checkpoint_verify and dt_model_load; on failure the
 * arrays hold anything. */
dt_status dt_checkpoint_load(const dt_checkpoint *c, const dt_snapshot *into,
                             dt_progress *at) DT_MUST_CHECK;

/* Before a run goes on in its own folder from the checkpoint `path`: whatever is newer in
 * that folder is renamed to .undone-* and named by dt_warn. It tells of a future that will
 * be another one, and its length of metrics.jsonl lies behind the end. Call it before
 * metrics.jsonl is cut, whose lines stay, too (dt_metrics_put_aside). All of it stays until the
 * run has come as far again: see dt_checkpoint_prune. So is a model.safetensors of more steps,
 * which stays as .undone-model.safetensors until the run has written another. Nothing happens to a
 * checkpoint outside a run folder. DT_IO. */
dt_status dt_checkpoint_rewind(const char *path) DT_MUST_CHECK;

/* After a run whose state behind `step` steps is not finite, or gives a loss that is not:
 * the newest valid checkpoint of fewer steps into proved, and what is newer in the folder is
 * renamed and named as by dt_checkpoint_rewind. proved[0] = 0: there is none, and nothing is
 * renamed. DT_IO, DT_NOMEM. */
dt_status dt_checkpoint_disown(const char *run, int64_t step, char proved[PATH_MAX]) DT_MUST_CHECK;

/* The run folder that `path` belongs to: itself, when it has a folder checkpoints, or the
 * one above when it is RUN/checkpoints/step-*. out[0] = 0: it belongs to none. DT_NOINPUT:
 * path does not exist. */
dt_status dt_checkpoint_run(const char *path, char out[PATH_MAX]) DT_MUST_CHECK;

/* ---- A thread that writes while training goes on ---------------------------------------- */

typedef struct dt_saver dt_saver;
/* Takes the memory of one snapshot at once (twice dt_net_slab_floats and the running
 * statistics): saving allocates no slab. net is borrowed; run and keep are copied. */
size_t dt_saver_bytes(const dt_net *net);
dt_status dt_saver_open(dt_saver **v, const char *run, const dt_net *net,
                        const dt_keep *keep) DT_MUST_CHECK;
/* Waits for the thread to end the write under way, reports its outcome (the failed save is a
 * recorded failure of the returned status), copies the snapshot, and starts the write, then the
 * pruning; neither in a folder that is another run's by now: DT_CANTCREATE. The new write is
 * started whatever became of the one before. The snapshot may change as soon as this returns; the
 * texts in its options, and metrics_fd, must last until the write is waited for. DT_NUMERIC names
 * the first number of the snapshot that is not finite: nothing is written, nothing pruned. DT_BUG:
 * a snapshot of another network. */
dt_status dt_saver_save(dt_saver *v, const dt_snapshot *s, int metrics_fd) DT_MUST_CHECK;
/* Waits for the write under way; its outcome, told once. */
dt_status dt_saver_wait(dt_saver *v) DT_MUST_CHECK;
/* After dt_saver_wait: dt_checkpoint_disown, in the run's own checkpoints. DT_CANTCREATE: the
 * folder is another run's by now. */
dt_status dt_saver_disown(dt_saver *v, int64_t step, char proved[PATH_MAX]) DT_MUST_CHECK;
/* The last checkpoint that was written whole, "" if none. Call after dt_saver_wait. A
 * pruning that failed after it is a failure of the outcome, but not of this. */
const char *dt_saver_last(const dt_saver *v);
void dt_saver_close(dt_saver *v); /* waits; NULL is allowed */

/* ---- The newest state of a run -------------------------------------------------------- */

/* The model that `path` means: a file or a checkpoint means itself. A run folder with
 * checkpoints means its newest valid state, by the steps that they record: model.safetensors,
 * or a checkpoint that is newer, as when a finished run was gone on with and killed; one note
 * says which. Ones that are not valid are named by dt_warn and skipped.
 * DT_NOINPUT: the run holds neither; DT_FORMAT, DT_IO. Local. */
dt_status dt_newest_model(const char *path, char out[PATH_MAX]) DT_MUST_CHECK;
/* That note. Local. */
void dt_newest_note(const char *run, const char *path, int64_t step);

/* ---- Commands on files ------------------------------------------------------------------- */

/* Check a checkpoint, a run folder's checkpoints (newest first) and model, or a model file:
 * every byte, that all numbers are finite, that shapes fit the network; and what else --resume
 * wants of a run folder, its records and its options. One line of stdout
 * each; the first thing that is wrong is the outcome, mostly DT_FORMAT.
 *   options  whether a run could take its options from the file `path` */
dt_status dt_verify(const char *path, dt_status (*options)(const char *path)) DT_MUST_CHECK;
/* The arithmetic mean of the weights and running statistics of model files, checkpoints or
 * the newest states of runs, path[0] to path[count - 1], to the file --out in the naming
 * --names. Summed in float64 in the order given and rounded once; of one file the result is its
 * numbers.
 * num_batches_tracked is the last one's. DT_FORMAT: another network or normalisation than
 * the first. */
dt_status dt_average(const dt_options *o, const char *const *path, size_t count) DT_MUST_CHECK;

/* ---- Records of a run ----------------------------------------------------------------- */

/* Whether a run can be resumed behind the first *bytes of metrics.jsonl, which a checkpoint has
 * recorded; changes no file. Where there is none, a warning, and *bytes becomes 0: the records are
 * lost, but not the run. DT_FORMAT: it is shorter, or no line ends there; DT_NOINPUT: it is a
 * link, or may not be read; DT_IO. */
enum { DT_METRICS_LINE = 512 }; /* bytes of a line are fewer */
dt_status dt_metrics_check(const char *path, int64_t *bytes) DT_MUST_CHECK;
/* Before a run goes back: its lines stay as DT_METRICS_ASIDE, unless that has more of them. Where
 * they cannot, a warning. */
void dt_metrics_put_aside(const char *run);
/* No checkpoint of the run's folder of checkpoints is undone any more: nor are they wanted. */
void dt_metrics_drop_aside(const char *checkpoints);
#define DT_METRICS_ASIDE ".undone-metrics.jsonl"

/* ---- The run folder ------------------------------------------------------------------- */

typedef struct dt_rundir {
    char path[PATH_MAX - 64]; /* what it is called; 64: room for the names of files in it */
    char at[PATH_MAX - 64];   /* what leads to it whatever its name becomes: its descriptor */
    int folder, lock;         /* descriptors, of the lock file; -1: closed */
    bool open, created;       /* created: by us, so to be removed if nothing came of it */
    bool resumed;             /* an older run's: what is in it must stay */
} dt_rundir;

/* Take --out DIR, which must be new or empty, or make
 * runs/<YYYYmmdd-HHMMSS>-<net>-np<N>, with -2, -3, ... where that is taken. Missing
 * parents are made, and are on disk when this returns.
 *   --resume auto  also takes over the remains of a run in --out: a folder with
 *                  options.yaml or checkpoints, or with nothing but a lock
 *   --resume PATH  takes over the run folder that PATH is or lies in, when --out is that
 *                  folder or not given; with another --out a new one begins
 * The folder is held by flock, on itself and on its file `lock`, until close: a lock file whose
 * process is dead holds nothing, and one that is removed lets nobody in. Of processes that want
 * one folder at once, one gets it. What else is called `lock` is left alone.
 * DT_CANTCREATE: not empty, held by another run, or not writable; DT_NOINPUT: PATH does
 * not exist. */
dt_status dt_rundir_open(dt_rundir *d, const dt_options *o, int world) DT_MUST_CHECK;
/* Give up the lock; a folder that we made and that is still empty goes. A zeroed d is
 * allowed. */
void dt_rundir_close(dt_rundir *d);
/* Before a run begins at its first step in a folder that is not its own: a model, records, and
 * checkpoints that none could go on from are renamed into a new folder .undone-1 (-2, ...) in
 * it, with a copy of options.yaml; a warning names them. Nothing is removed, and there is always
 * an options.yaml; after a kill in between, the rest goes into the next such folder.
 * DT_CANTCREATE: checkpoints is a link; DT_IO. */
dt_status dt_rundir_aside(const dt_rundir *d) DT_MUST_CHECK;
/* Whether a live run holds the folder. */
bool dt_rundir_held(const char *folder);
/* A folder that was moved is found again, and a warning tells; path is its new name then. Where
 * there is no /proc, DT_IO: a name is all that leads to it, and what has it now is another's. */
dt_status dt_rundir_find(dt_rundir *d) DT_MUST_CHECK;
/* The path of a file in the folder, by `at`; the name has at most 63 characters. Returns out. */
const char *dt_rundir_file(const dt_rundir *d, const char *name, char out[PATH_MAX]);

#endif

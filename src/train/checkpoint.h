/* checkpoint.h - checkpoints that survive a kill and a power cut; private to src/train.
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
#ifndef DT_CHECKPOINT_H
#define DT_CHECKPOINT_H
#include "state.h"
#include <limits.h>

/* Where a run stands: everything that the next step depends on beside the numbers, and
 * what its reports add up. Steps and epochs count from 0. */
typedef struct dt_progress {
    int64_t epoch, step;   /* the next step to run, within its epoch; step may be the epoch's
                              length: then the epoch's test comes next */
    int64_t run_step;      /* steps done in the whole run */
    double loss_sum;       /* of the epoch so far: sum over its images */
    int64_t images;        /* of the epoch so far */
    double best_accuracy;  /* of all tests so far; -1: none */
    int64_t best_epoch;
    int64_t metrics_bytes; /* length of metrics.jsonl at this point */
} dt_progress;

/* What is saved; all borrowed. */
typedef struct dt_snapshot {
    dt_model_state model;
    float *momentum; /* [dt_net_slab_floats] */
    dt_progress at;
    const dt_options *options;  /* resolved: saved as options.yaml */
    const char *data_digest;    /* of the data's content, as text */
    const char *what_class;     /* build, libraries, instruction set: one line of text */
    bool best;                  /* the best test so far: --keep-best holds on to it */
    bool proved;                /* its own loss is known to be finite: see dt_keep */
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
 * and what is newer than it is left for find to name. Those whose files have not the sizes
 * of their MANIFEST do not count as kept. Leftover .tmp-* and .trash-* go too, so no save
 * may be under way; and .undone-* up to the step of the newest valid one, for the run has
 * come as far again. DT_IO.
 * Finite numbers can still give a loss that is not: only the step or test after a checkpoint
 * proves it. Any that has a later one is proved; while the newest is not, the one before
 * stays too. */
typedef struct dt_keep {
    int64_t last, every;
    bool best, unproved; /* unproved: the newest */
} dt_keep;
dt_status dt_checkpoint_prune(const char *run, const dt_keep *keep) DT_MUST_CHECK;

/* The newest valid checkpoint of a run folder (or the one that `path` itself is) into
 * found; a torn or corrupt one, or one with a number that is not finite, is named by dt_warn
 * with what is wrong, and skipped. Leftover
 * .tmp-* and .trash-* are passed over. found[0] = 0: none. DT_FORMAT: path is itself a
 * checkpoint, and not valid; DT_NOINPUT: path does not exist. */
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
 * numbers are finite. DT_FORMAT names the first thing wrong; DT_NOINPUT; DT_IO. */
dt_status dt_checkpoint_verify(const char *path) DT_MUST_CHECK;

/* Read a valid checkpoint: every byte is checked, then into->model's arrays, into->momentum
 * and *at are filled, and the state_hash is computed anew and compared with the one saved.
 * into->options (or NULL) gives the normalisation that the weights must be for; its other
 * members are not read. Errors as dt_checkpoint_verify and dt_model_load; on failure the
 * arrays hold anything. */
dt_status dt_checkpoint_load(const char *path, const dt_snapshot *into,
                             dt_progress *at) DT_MUST_CHECK;

/* Before a run goes on in its own folder from the checkpoint `path`: whatever is newer in
 * that folder is renamed to .undone-* and named by dt_warn. It tells of a future that will
 * be another one, and its length of metrics.jsonl lies behind the end. Call it before
 * metrics.jsonl is cut. They stay until the run has come as far again: see
 * dt_checkpoint_prune. So is a model.safetensors of more steps, which stays as
 * .undone-model.safetensors until dt_session_model writes another. Nothing happens to a checkpoint outside a run folder. DT_IO. */
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

/* Text members of state.json: "data_digest", "class", "state_hash", "weights_hash", and
 * "options.NAME" for each option as dt_option_text has it (bytes outside ASCII that are not
 * UTF-8, and control characters, are '?'). Checks state.json, but no other file. DT_FORMAT:
 * there is none. */
dt_status dt_checkpoint_text(const char *path, const char *key, char *out, size_t size) DT_MUST_CHECK;

/* ---- A thread that writes while training goes on ---------------------------------------- */

typedef struct dt_saver dt_saver;
/* Takes the memory of one snapshot at once (twice dt_net_slab_floats and the running
 * statistics): saving allocates no slab. net is borrowed; run and keep are copied. */
size_t dt_saver_bytes(const dt_net *net);
dt_status dt_saver_open(dt_saver **v, const char *run, const dt_net *net,
                        const dt_keep *keep) DT_MUST_CHECK;
/* Waits for the thread to end the write under way, reports its outcome (the failed save is a
 * recorded failure of the returned status), copies the snapshot, and starts the write, then
 * the pruning. The new write is started whatever became of the one before. The snapshot may
 * change as soon as this returns; the texts in its options, and metrics_fd, must last until
 * the write is waited for. DT_NUMERIC names the first number of the snapshot that is not
 * finite: nothing is written, nothing pruned. DT_BUG: a snapshot of another network. */
dt_status dt_saver_save(dt_saver *v, const dt_snapshot *s, int metrics_fd) DT_MUST_CHECK;
/* Waits for the write under way; its outcome, told once. */
dt_status dt_saver_wait(dt_saver *v) DT_MUST_CHECK;
/* The last checkpoint that was written whole, "" if none. Call after dt_saver_wait. A
 * pruning that failed after it is a failure of the outcome, but not of this. */
const char *dt_saver_last(const dt_saver *v);
void dt_saver_close(dt_saver *v); /* waits; NULL is allowed */

#endif

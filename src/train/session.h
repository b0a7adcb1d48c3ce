/* session.h - rank 0's outputs of a training run: folder, options, metrics, progress lines,
 * checkpoints; private to src/train and extra/pieces. Closed on the other ranks, and silent unless
 * each rank has its log. */
#ifndef DT_SESSION_H
#define DT_SESSION_H
#include "run.h"

typedef struct dt_session {
    bool leads; /* rank 0 */
    dt_rundir folder;
    dt_report report;
    dt_keep keep;
    dt_saver *saver; /* NULL: with --save-shards */
} dt_session;

/* Take the run folder. Local, on rank 0. */
dt_status dt_session_take(dt_session *s, const dt_run *r) DT_MUST_CHECK;
/* Begin the outputs at this point of the run, where the checkpoint `from` (or "") is: check
 * the room on the disk, write options.yaml, cut metrics.jsonl to its length there, take the
 * saver's memory, print the first lines. On other ranks only a device's log. Local. */
dt_status dt_session_begin(dt_session *s, const dt_run *r, const dt_position *at,
                           const char *from) DT_MUST_CHECK;
void dt_session_close(dt_session *s);

/* The outcome `st` of a record of s->report. When its line cannot be written, --on-save-error
 * decides: a warning, or DT_IO, which is this rank's alone. Local. */
dt_status dt_session_line(const dt_run *r, dt_status st) DT_MUST_CHECK;

/* Start to write a checkpoint of this point. When it, or the one before, cannot be written,
 * --on-save-error decides. DT_NUMERIC: a number is not finite; nothing is written. Local. */
typedef struct dt_save_how {
    bool best, proved; /* as in dt_snapshot */
    bool wait;         /* until it is on the disk */
} dt_save_how;
dt_status dt_session_save(dt_session *s, const dt_run *r, const dt_position *at,
                          dt_save_how how) DT_MUST_CHECK;

/* Wait for the write under way; its failure as above. Local. */
dt_status dt_session_settle(dt_session *s, const dt_run *r) DT_MUST_CHECK;
/* Fill a checkpoint's snapshot of this point. Local. */
dt_status dt_session_snapshot(dt_session *s, const dt_run *r, const dt_position *at,
                              dt_save_how how, dt_snapshot *out) DT_MUST_CHECK;

/* --save-shards: what extra/pieces adds. NULL: this build cannot. */
extern const struct dt_session_pieces {
    /* Once rank 0 has taken its folder: it must be seen by all ranks. Agreed. Collective. */
    dt_status (*check)(const dt_session *s, dt_run *r);
    /* In place of dt_session_save: every rank writes its portion, and all wait for it.
     * DT_CANTCREATE: the folder is not seen by all. Agreed. Collective. */
    dt_status (*save)(dt_session *s, dt_run *r, const dt_position *at, dt_save_how how);
} * dt_session_pieces;

/* The model file; its failure names the last checkpoint. Local. */
dt_status dt_session_model(dt_session *s, const dt_run *r) DT_MUST_CHECK;

/* The newest valid checkpoint that --resume means for a run in the folder d, into the run's arrays
 * and *at; each file is read once. A warning says why the run may have other bits than an
 * undisturbed one.
 *   path            of the checkpoint; "": the run begins at its first step, and *at stays
 *   DT_CONFIG       its options or its data change the run, each difference is named, and
 *                   --resume-force is not given
 *   DT_CANTCREATE   --resume names an older one of this folder; or the folder holds a finished
 *                   model and no checkpoint
 *   DT_FORMAT       none is valid
 *   DT_NOINPUT      there is none where --resume names a path
 * Local, on rank 0. */
dt_status dt_resume(dt_run *r, const dt_rundir *d, char path[PATH_MAX],
                    dt_position *at) DT_MUST_CHECK;
/* The dt_snapshot.bits_class of a checkpoint that this program saves of r. */
void dt_bits_class(const dt_run *r, char text[DT_BITS_CLASS_CHARS]);

#endif

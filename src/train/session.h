/* session.h - rank 0's outputs of a training run: folder, options, metrics, progress lines,
 * checkpoints; private to src/train. Closed and silent on the other ranks. */
#ifndef DT_SESSION_H
#define DT_SESSION_H
#include "report/report.h"
#include "store/store.h"
#include "run.h"

typedef struct dt_session {
    bool leads; /* rank 0 */
    dt_rundir folder;
    dt_report report;
    dt_saver *saver;
    bool files_lost; /* removed, and could not be written again: it is said */
    char model_path[PATH_MAX];
} dt_session;

/* Take the run folder. Local, on rank 0. */
dt_status dt_session_take(dt_session *s, const dt_run *r) DT_MUST_CHECK;
/* Begin the outputs at this point of the run, which is that of the checkpoint `from` (or ""):
 * options.yaml, newer checkpoints (or, from the beginning, an older run's work) put aside and
 * metrics.jsonl cut to what belongs to it, the
 * saver's memory, the first lines. Local, on rank 0. */
dt_status dt_session_begin(dt_session *s, const dt_run *r, const dt_progress *at,
                           const char *from) DT_MUST_CHECK;
void dt_session_close(dt_session *s);

/* One line of metrics.jsonl and of progress. When the line cannot be written, --on-save-error
 * decides: a warning, or DT_IO, which is this rank's alone. Local. */
dt_status dt_session_step(dt_session *s, const dt_run *r,
                          const dt_step_record *record) DT_MUST_CHECK;
dt_status dt_session_epoch(dt_session *s, const dt_run *r,
                           const dt_epoch_record *record) DT_MUST_CHECK;

/* Start to write a checkpoint of this point. When it, or the one before, cannot be written,
 * --on-save-error decides. DT_NUMERIC: a number is not finite; nothing is written. Local. */
typedef struct dt_save_how {
    bool best, proved; /* as in dt_snapshot */
    bool wait;         /* until it is on the disk */
} dt_save_how;
dt_status dt_session_save(dt_session *s, const dt_run *r, const dt_progress *at,
                          dt_save_how how) DT_MUST_CHECK;

/* Wait for the write under way; its failure as above. Local. */
dt_status dt_session_settle(dt_session *s, const dt_run *r) DT_MUST_CHECK;

/* The model file, into the room that was taken for it at the beginning, and the last line of
 * metrics.jsonl, whose failure is as above. Local. */
dt_status dt_session_model(dt_session *s, const dt_run *r) DT_MUST_CHECK;
dt_status dt_session_end(dt_session *s, const dt_run *r, const dt_end_record *end) DT_MUST_CHECK;

/* ---- Resuming ---------------------------------------------------------------------------- */

/* Where --resume says to begin: path[0] = 0 and *c = NULL for the beginning. A checkpoint whose
 * options change the run is refused, each difference named, unless --resume-force; an option
 * that an older version did not have counts as its default. c is to be closed whatever the
 * outcome. *other_class: it was saved with another class of bits. Local, on rank 0. */
dt_status dt_resume_find(const dt_run *r, const char *folder, char path[PATH_MAX],
                         dt_checkpoint **c, bool *other_class) DT_MUST_CHECK;
/* Why a run that does go on may have other bits than an undisturbed one. Local, on rank 0. */
void dt_resume_warn(const dt_run *r, bool other_class);
/* What a checkpoint says of the class of its bits: the order of sums and this build. */
enum { DT_BITS_CLASS_CHARS = 512 };
void dt_bits_class(const dt_run *r, char text[DT_BITS_CLASS_CHARS]);

#endif

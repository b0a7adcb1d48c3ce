/* newest.h - which state a run folder stands for; private to src/train. */
#ifndef DT_NEWEST_H
#define DT_NEWEST_H
#include "train.h"
#include <limits.h>

/* The model that `path` means: a file or a checkpoint means itself. A run folder with
 * checkpoints means its newest valid state, by the steps that they record: model.safetensors,
 * or a checkpoint that is newer, as when a finished run was gone on with and killed; one note
 * says which. Ones that are not valid are named by dt_warn and skipped.
 * DT_NOINPUT: the run holds neither; DT_FORMAT, DT_IO. Local. */
dt_status dt_newest_model(const char *path, char out[PATH_MAX]) DT_MUST_CHECK;
/* The same by rank 0 for all: of a run that is going on, each would see another one. Agreed.
 * Collective. */
dt_status dt_newest_agree(dt_comm *c, const char *path, char out[PATH_MAX]) DT_MUST_CHECK;
/* That note. Local. */
void dt_newest_note(const char *run, const char *path, int64_t step);

#endif

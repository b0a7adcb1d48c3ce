/* tools.h - commands that look at a network, at files or at the machine, or use a model, and a run
 * that only looks how long it would take; the public header of extra/tools. */
#ifndef DT_TOOLS_H
#define DT_TOOLS_H
#include "cli/cli.h"

#include <jansson.h>

void dt_extra_tools(void);
void dt_dry_runs(void); /* adds --dry-run */

/* Check path[0], a checkpoint, a run folder's checkpoints (newest first) and model, or a model
 * file: every byte, that all numbers are finite, that shapes fit the network; and of a run
 * folder options.yaml and records, which --resume reads. One line of stdout each; the first
 * thing that is wrong is the outcome, mostly DT_FORMAT. */
dt_status dt_verify(const dt_options *o, const char *const *path, size_t count) DT_MUST_CHECK;
/* Evaluate the options' model on the test images; print loss and accuracy, and what --tta and
 * --confusion ask for, on rank 0. Collective. */
dt_status dt_eval(dt_comm *c, const dt_settings *s) DT_MUST_CHECK;
/* What a run would find on this machine. Collective. */
dt_status dt_env(dt_comm *c, const dt_options *o) DT_MUST_CHECK;

/* The most likely classes of pictures by a model: the first operand is the model, a run's or a
 * checkpoint's folder; the others are files, or folders, whose pictures are found below them. A
 * picture that cannot be read costs one line, and the first one's status when all others have been
 * answered: DT_FORMAT, DT_NOINPUT, DT_IO. Otherwise errors as dt_eval. Rank 0 works alone.
 * Collective. */
dt_status dt_predict(dt_comm *c, const dt_settings *s) DT_MUST_CHECK;
/* --max-steps steps (default 100) while the rate grows from a 100000th of --lr-to to --lr-to by one
 * factor, or until the loss is four times its least or not finite; a line of stdout each.
 * Collective. */
dt_status dt_lr_find(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
/* The compiled steps of a network; its layers and work. Collective. */
dt_status dt_plan_print(dt_comm *c, const dt_options *o) DT_MUST_CHECK;
dt_status dt_summary(dt_comm *c, const dt_options *o) DT_MUST_CHECK;

/* How the threads of a rank share a step: a table, or JSON, in which `strategy` is a member that is
 * taken over; NULL: there is none. */
void dt_share_show(const dt_plan *plan, const dt_options *o, json_t *strategy);
#endif

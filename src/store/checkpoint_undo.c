/* checkpoint_undo.c - what is newer than the checkpoint that a run goes on from is put aside. */
#include "store.h"

#include <stdlib.h>

#include "checkpoint_internal.h"

/* The model of a run that had come further. One that tells no steps is not ours to move. */
static dt_status rewind_model(const char *run, int64_t step)
{
    const char *name = dt_checkpoint_file_name[DT_CHECKPOINT_MODEL];
    char path[PATH_MAX];
    int64_t steps = 0;

    DT_TRY(dt_path_join(path, run, name));
    if (!dt_path_exists(path))
        return DT_OK;
    if (dt_model_read_steps(path, &steps) != DT_OK) {
        dt_fail_clear();
        return DT_OK;
    }
    if (steps <= step)
        return DT_OK;
    DT_TRY(dt_checkpoint_move_aside(run, name, ".undone-"));
    dt_warn("%s is newer than the checkpoint that the run goes on from: renamed to .undone-%s, "
            "until the run has a model again",
            path, name);
    return dt_path_sync(run);
}

/* Checkpoints of the run behind `at`; `why` completes the warning. */
static dt_status undo_newer(const char *run, const dt_checkpoint_name *at, const char *why)
{
    dt_checkpoint_name *list = NULL;
    char folder[PATH_MAX], path[PATH_MAX];
    size_t count = 0, moved = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_path_join(folder, run, "checkpoints"));
    DT_TRY(dt_checkpoint_list(folder, &list, &count));
    for (size_t i = count; i-- > 0;) {
        if (list[i].step < at->step ||
            (list[i].step == at->step && list[i].generation <= at->generation))
            break;
        DT_GO(st, dt_path_join(path, folder, list[i].text), out);
        if (dt_checkpoint_is_file(path)) /* somebody's own: what is put aside goes in time */
            continue;
        if (moved == 0)
            dt_metrics_put_aside(run);
        DT_GO(st, dt_checkpoint_move_aside(folder, list[i].text, ".undone-"), out);
        dt_warn("%s/%s %s: renamed to .undone-%s", folder, list[i].text, why, list[i].text);
        moved++;
    }
    if (moved > 0)
        DT_GO(st, dt_path_sync(folder), out);

out:
    free(list);
    return st;
}

dt_status dt_checkpoint_rewind(const char *path)
{
    dt_checkpoint_name at;
    char run[PATH_MAX];

    DT_TRY(dt_checkpoint_run(path, run));
    if (!run[0] || !dt_checkpoint_name_of(path, &at))
        return DT_OK;
    DT_TRY(undo_newer(run, &at, "is newer than the checkpoint that the run goes on from"));
    return rewind_model(run, at.step);
}

dt_status dt_checkpoint_disown(const char *run, int64_t step, char proved[PATH_MAX])
{
    dt_checkpoint_name at;

    DT_TRY(dt_checkpoint_older(run, step, proved));
    if (!proved[0] || !dt_checkpoint_name_of(proved, &at))
        return DT_OK;
    return undo_newer(run, &at, "leads to what is not finite");
}

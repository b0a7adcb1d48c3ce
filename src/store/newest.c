/* newest.c - the newest state of a run: its model or a checkpoint, whichever has more steps. */
#include "checkpoint_internal.h"

#include <fcntl.h>
#include <stdio.h>

/* Steps of the run's model, -1: it has none, or none that can be read. */
static dt_status model_steps(const char *path, int64_t *steps)
{
    *steps = -1;
    if (!dt_path_exists(path))
        return DT_OK;
    const dt_status st = dt_model_read_steps(path, steps);
    if (st != DT_FORMAT && st != DT_IO && st != DT_NOINPUT)
        return st;
    dt_warn("%s; skipped", dt_fail_text());
    dt_fail_clear();
    *steps = -1;
    return DT_OK;
}

void dt_newest_note(const char *run, const char *path, int64_t step)
{
    dt_note("the newest state of %s is %s, step %lld", run, path, (long long)step);
}

static dt_status newest_of_run(const char *run, char out[PATH_MAX])
{
    char model[PATH_MAX];
    dt_checkpoint_name name;
    int64_t steps = -1;

    DT_TRY(dt_path_join(model, run, dt_checkpoint_file_name[DT_CHECKPOINT_MODEL]));
    DT_TRY(model_steps(model, &steps));
    const dt_status st =
        dt_checkpoint_find(run, &(dt_take){.first = steps + 1, .end = INT64_MAX}, out);
    if (st == DT_FORMAT && steps >= 0)
        dt_fail_clear(); /* those that are newer than the model are damaged */
    else
        DT_TRY(st);
    if (!out[0] && steps < 0)
        return dt_fail(DT_NOINPUT, "run folder %s has neither a model nor a valid checkpoint", run);
    if (!out[0])
        memcpy(out, model, sizeof model);
    else if (dt_checkpoint_name_parse(strrchr(out, '/') + 1, &name))
        steps = name.step;
    dt_newest_note(run, out, steps);
    return DT_OK;
}

dt_status dt_newest_model(const char *path, char out[PATH_MAX])
{
    char part[PATH_MAX];

    DT_TRY(dt_path_join(part, path, "checkpoints"));
    if (dt_path_taken(part))
        return newest_of_run(path, out);
    snprintf(out, PATH_MAX, "%s", path);
    return DT_OK;
}

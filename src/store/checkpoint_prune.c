/* Which checkpoints go, and how: a new name first, so that no name is ever torn. */
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "checkpoint_internal.h"
#include "modelread.h"

typedef struct prune_entry {
    dt_checkpoint_name name;
    bool whole; /* its files have the sizes of its MANIFEST */
    bool best, keep;
} prune_entry;

typedef struct prune {
    char folder[PATH_MAX];
    prune_entry *entry; /* [count], oldest first, owned */
    size_t count;
} prune;

/* ---- Looking ---------------------------------------------------------------------------- */

static dt_status prune_look(prune *p, const char *run)
{
    dt_checkpoint_name *list = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_path_join(p->folder, run, "checkpoints"));
    DT_TRY(dt_checkpoint_list(p->folder, &list, &p->count));
    DT_GO(st, dt_calloc(&p->entry, p->count + 1, sizeof *p->entry,
                        "the list of checkpoints"), out);
    for (size_t i = 0; i < p->count; i++) {
        dt_checkpoint_state state = {.best = false};
        dt_manifest m;
        char path[PATH_MAX];
        p->entry[i].name = list[i];
        DT_GO(st, dt_path_join(path, p->folder, list[i].text), out);
        p->entry[i].whole = dt_manifest_sizes(path, &m) == DT_OK &&
                            dt_checkpoint_json_read(path, &state, NULL) == DT_OK;
        p->entry[i].best = p->entry[i].whole && state.best;
        dt_fail_clear();
    }

out:
    free(list);
    return st;
}

/* The place behind the newest valid one; 0: none is valid. */
static dt_status prune_newest(const prune *p, size_t *end)
{
    for (*end = p->count; *end > 0; --*end) {
        char path[PATH_MAX];
        if (!p->entry[*end - 1].whole)
            continue;
        DT_TRY(dt_path_join(path, p->folder, p->entry[*end - 1].name.text));
        if (dt_checkpoint_verify(path) == DT_OK)
            return DT_OK;
        dt_fail_clear();
    }
    return DT_OK;
}

/* Marks what stays of [0, end), whose last one is valid. */
static void prune_mark(prune *p, size_t end, const dt_keep *keep)
{
    const int64_t least = keep->unproved ? 2 : 1;
    int64_t last = keep->last < least ? least : keep->last, step = -1;
    bool best = keep->best;

    for (size_t i = end; i-- > 0;) {
        prune_entry *e = &p->entry[i];
        const bool superseded = e->name.step == step;
        if (!e->whole)
            continue;
        step = e->name.step;
        if (!superseded) {
            e->keep = last-- > 0 ||
                      (keep->every > 0 && e->name.step % keep->every == 0);
            last = last < 0 ? 0 : last;
        }
        if (best && e->best) {
            e->keep = true;
            best = false;
        }
    }
}

/* ---- Doing ------------------------------------------------------------------------------- */

static dt_status move_aside(const char *folder, const char *name, const char *prefix)
{
    char from[PATH_MAX], to[PATH_MAX], aside[DT_CHECKPOINT_NAME + 16];

    snprintf(aside, sizeof aside, "%s%s", prefix, name);
    DT_TRY(dt_path_join(from, folder, name));
    DT_TRY(dt_path_join(to, folder, aside));
    if (rename(from, to) == 0)
        return DT_OK;
    if (errno == ENOTEMPTY || errno == EEXIST) { /* of an earlier time */
        DT_TRY(dt_folder_sync(folder));          /* as in dt_checkpoint_sweep */
        errno = ENOTEMPTY;
        if (dt_checkpoint_remove(to) == 0 && rename(from, to) == 0)
            return DT_OK;
    }
    return dt_fail(DT_IO, "cannot rename %s to %s: %s", from, aside, strerror(errno));
}

dt_status dt_checkpoint_prune(const char *run, const dt_keep *keep)
{
    prune p = {.count = 0};
    size_t end = 0;
    dt_status st = DT_OK;

    DT_GO(st, prune_look(&p, run), out);
    DT_GO(st, prune_newest(&p, &end), out);
    prune_mark(&p, end, keep);
    for (size_t i = 0; i < end; i++)
        if (!p.entry[i].keep)
            DT_GO(st, move_aside(p.folder, p.entry[i].name.text, ".trash-"), out);
    st = dt_checkpoint_sweep(p.folder, end > 0 ? p.entry[end - 1].name.step : -1);

out:
    free(p.entry);
    return st;
}

/* The model of a run that had come further. One that tells no steps is not ours to move. */
static dt_status rewind_model(const char *run, int64_t step)
{
    const char *name = dt_checkpoint_file_name[DT_CHECKPOINT_MODEL];
    char path[PATH_MAX];
    int64_t steps = 0;

    DT_TRY(dt_path_join(path, run, name));
    if (access(path, F_OK) != 0)
        return DT_OK;
    if (dt_model_read_steps(path, &steps) != DT_OK) {
        dt_fail_clear();
        return DT_OK;
    }
    if (steps <= step)
        return DT_OK;
    DT_TRY(move_aside(run, name, ".undone-"));
    dt_warn("%s is newer than the checkpoint that the run goes on from: renamed to .undone-%s, "
            "until the run has a model again", path, name);
    return dt_folder_sync(run);
}

/* Checkpoints of the run behind `at`; `why` completes the warning. */
static dt_status undo_newer(const char *run, const dt_checkpoint_name *at, const char *why)
{
    dt_checkpoint_name *list = NULL;
    char folder[PATH_MAX];
    size_t count = 0, moved = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_path_join(folder, run, "checkpoints"));
    DT_TRY(dt_checkpoint_list(folder, &list, &count));
    for (size_t i = count; i-- > 0;) {
        if (list[i].step < at->step ||
            (list[i].step == at->step && list[i].generation <= at->generation))
            break;
        DT_GO(st, move_aside(folder, list[i].text, ".undone-"), out);
        dt_warn("%s/%s %s: renamed to .undone-%s", folder, list[i].text, why, list[i].text);
        moved++;
    }
    if (moved > 0)
        DT_GO(st, dt_folder_sync(folder), out);

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

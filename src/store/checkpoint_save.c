/* checkpoint_save.c - everything into a temporary folder, each file synced, and one rename. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_internal.h"

typedef struct saving {
    const char *run;
    const dt_snapshot *s;
    char folder[PATH_MAX]; /* <run>/checkpoints */
    char temp[PATH_MAX];   /* "": there is none */
    dt_checkpoint_name name;
    char present[PATH_MAX]; /* the same step's highest generation, "": there is none */
    dt_manifest manifest;
} saving;

static dt_status save_error(const char *path, const char *what)
{
    return dt_fail(errno == EIO || errno == ENOSPC || errno == EDQUOT ? DT_IO : DT_CANTCREATE,
                   "cannot save checkpoint %s: %s: %s", path, what, strerror(errno));
}

/* ---- Places -------------------------------------------------------------------------- */

/* That `checkpoints` itself stays is sure once the run folder is synced. A folder in it
 * that has its name was renamed after that; without one, an earlier save may have died
 * between making and syncing. */
static dt_status make_folder(const saving *w, size_t present)
{
    if (mkdir(w->folder, 0755) == 0)
        return dt_path_sync(w->run);
    if (errno != EEXIST)
        return save_error(w->folder, "making it");
    return present == 0 ? dt_path_sync(w->run) : DT_OK;
}

static dt_status find_places(saving *w)
{
    dt_checkpoint_name *list = NULL;
    char name[DT_CHECKPOINT_NAME + 8];
    size_t count = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_path_join(w->folder, w->run, "checkpoints"));
    DT_TRY(dt_checkpoint_list(w->folder, &list, &count));
    dt_checkpoint_name_set(&w->name, w->s->at.run_step, 1);
    DT_GO(st, make_folder(w, count), out);
    for (size_t i = 0; i < count; i++)
        if (list[i].step == w->s->at.run_step) {
            DT_GO(st, dt_path_join(w->present, w->folder, list[i].text), out);
            dt_checkpoint_name_set(&w->name, list[i].step, list[i].generation + 1);
        }
    snprintf(name, sizeof name, ".tmp-%s", w->name.text);
    st = dt_path_join(w->temp, w->folder, name);

out:
    free(list);
    return st;
}

/* What a save that died has left under the same name goes first. */
static dt_status make_temp(saving *w)
{
    char temp[PATH_MAX];

    memcpy(temp, w->temp, sizeof temp);
    w->temp[0] = '\0';
    if (mkdir(temp, 0755) != 0 &&
        (errno != EEXIST || dt_checkpoint_remove(temp) != 0 || mkdir(temp, 0755) != 0))
        return save_error(temp, "making it");
    memcpy(w->temp, temp, sizeof temp);
    return DT_OK;
}

/* ---- Files --------------------------------------------------------------------------- */

static dt_status save_state(const saving *w, const dt_target *t, dt_written *written)
{
    char *text = NULL;
    size_t length = 0;

    DT_TRY(dt_checkpoint_json_text(w->s, &text, &length));
    const dt_status st = dt_outfile_put(t, text, length, written);
    free(text);
    return st;
}

static dt_status save_file(saving *w, dt_checkpoint_file which)
{
    const dt_snapshot *s = w->s;
    /* Momentum is a model file of its own, in the same naming, without running statistics. */
    const dt_weights momentum = {.net = s->model.net, .master = s->momentum};
    const dt_model_file_opts opts = {
        .names = s->options->names, .normalize = s->options->normalize, .steps = s->at.run_step};
    dt_written *written = &w->manifest.file[which];
    char path[PATH_MAX];

    DT_TRY(dt_path_join(path, w->temp, dt_checkpoint_file_name[which]));
    const dt_target t = {.folder = AT_FDCWD, .name = path, .shown = path, .fresh = true};
    switch (which) {
    case DT_CHECKPOINT_MODEL:
        return dt_model_put(&s->model, &t, &opts, written);
    case DT_CHECKPOINT_MOMENTUM:
        return dt_model_put(&momentum, &t, &opts, written);
    case DT_CHECKPOINT_OPTIONS:
        return dt_options_put(&t, s->options, written);
    case DT_CHECKPOINT_STATE:
    case DT_CHECKPOINT_FILES:
        break;
    }
    return save_state(w, &t, written);
}

static dt_status save_files(saving *w)
{
    char path[PATH_MAX], text[DT_MANIFEST_CHARS];

    for (int i = 0; i < DT_CHECKPOINT_FILES; i++)
        DT_TRY(save_file(w, (dt_checkpoint_file)i));
    DT_TRY(dt_path_join(path, w->temp, "MANIFEST"));
    const dt_target t = {.folder = AT_FDCWD, .name = path, .shown = path, .fresh = true};
    DT_TRY(dt_outfile_put(&t, text, dt_manifest_text(&w->manifest, text), NULL));
    return dt_path_sync(w->temp);
}

/* ---- The whole ----------------------------------------------------------------------- */

static bool is_same(const dt_manifest *a, const dt_manifest *b)
{
    for (size_t i = 0; i < DT_CHECKPOINT_FILES; i++)
        if (a->file[i].bytes != b->file[i].bytes ||
            a->file[i].digest.low != b->file[i].digest.low ||
            a->file[i].digest.high != b->file[i].digest.high)
            return false;
    return true;
}

/* The same step, saved before with exactly this content, and still so. */
static bool is_saved(const saving *w)
{
    dt_manifest m;

    if (!w->present[0])
        return false;
    const bool same = dt_manifest_read(w->present, &m) == DT_OK && is_same(&m, &w->manifest) &&
                      dt_checkpoint_verify(w->present) == DT_OK;
    dt_fail_clear();
    return same;
}

static dt_status commit(saving *w, char path[PATH_MAX])
{
    char final[PATH_MAX];

    if (is_saved(w)) {
        const int removed = dt_checkpoint_remove(w->temp);
        if (removed != 0)
            return save_error(w->temp, "removing it");
        memcpy(final, w->present, sizeof final);
    } else {
        DT_TRY(dt_path_join(final, w->folder, w->name.text));
        if (rename(w->temp, final) != 0)
            return save_error(final, "renaming");
    }
    w->temp[0] = '\0';
    DT_TRY(dt_path_sync(w->folder));
    memcpy(path, final, sizeof final);
    return DT_OK;
}

dt_status dt_checkpoint_save(const char *run, const dt_snapshot *s, int metrics_fd,
                             char path[PATH_MAX])
{
    saving w = {.run = run, .s = s};
    dt_status st = DT_OK;

    path[0] = '\0';
    if (metrics_fd >= 0 && dt_fd_sync(metrics_fd) != 0 && errno != EINVAL)
        return save_error(run, "syncing metrics.jsonl");
    DT_GO(st, find_places(&w), out);
    DT_GO(st, make_temp(&w), out);
    DT_GO(st, save_files(&w), out);
    st = commit(&w, path);

out:
    if (st != DT_OK && w.temp[0])
        (void)dt_checkpoint_remove(w.temp);
    return st;
}

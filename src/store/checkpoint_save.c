/* checkpoint_save.c - everything into a temporary folder, each file synced, and one rename. */
#include "checkpoint_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct saving {
    const dt_snapshot *s;
    dt_folder in;                           /* RUN/checkpoints */
    dt_folder temp;                         /* in it */
    char temp_name[2 * DT_CHECKPOINT_NAME]; /* "": there is none */
    dt_checkpoint_name name;                /* that it will have */
    dt_manifest manifest;
} saving;

static dt_status save_error(const char *path, const char *what)
{
    return dt_fail(errno == EIO || errno == ENOSPC || errno == EDQUOT ? DT_IO : DT_CANTCREATE,
                   "cannot save checkpoint %s: %s: %s", path, what, strerror(errno));
}

/* ---- Places -------------------------------------------------------------------------- */

/* The folder `checkpoints` is on disk once the run folder is synced. Where it holds a checkpoint
 * that was done; where it holds none, an earlier save may have died before. */
static dt_status open_folder(saving *w, dt_rundir *run)
{
    const bool made = mkdirat(run->folder, "checkpoints", 0755) == 0;
    dt_checkpoint_name *list = NULL;
    size_t count = 0;

    if (!made && errno != EEXIST)
        return save_error(run->path, "making its folder checkpoints");
    if (made)
        run->inode = 0;
    DT_TRY(dt_checkpoints_open(&w->in, run->folder, run->path));
    DT_TRY(dt_checkpoints_own(&w->in, run));
    DT_TRY(dt_checkpoint_list(&w->in, &list, &count));
    dt_checkpoint_name_set(&w->name, w->s->at.run_step, 1);
    for (size_t i = 0; i < count; i++)
        if (list[i].step == w->name.step)
            dt_checkpoint_name_set(&w->name, list[i].step, list[i].generation + 1);
    free(list);
    return count == 0 ? dt_folder_sync(run->folder, run->path) : DT_OK;
}

/* What a save that died has left under the same name goes first. */
static dt_status make_temp(saving *w)
{
    char name[sizeof w->temp_name];

    snprintf(name, sizeof name, ".tmp-%s", w->name.text);
    if (dt_folder_has(w->in.fd, name))
        DT_TRY(dt_checkpoint_remove(&w->in, name));
    if (mkdirat(w->in.fd, name, 0755) != 0)
        return save_error(w->in.path, name);
    memcpy(w->temp_name, name, sizeof name);
    return dt_folder_open(&w->temp, w->in.fd, w->in.path, name);
}

/* ---- Files --------------------------------------------------------------------------- */

static dt_status save_state(const saving *w, const dt_target *t, dt_written *written)
{
    char *text = NULL;
    size_t length = 0;

    DT_TRY(dt_checkpoint_state_text(w->s, &text, &length));
    const dt_status st = dt_outfile_put(t, text, length, written);
    free(text);
    return st;
}

static dt_status save_file(saving *w, dt_checkpoint_file which, const dt_target *t)
{
    const dt_snapshot *s = w->s;
    /* Momentum is a model file of its own, in the same naming, without running statistics. */
    const dt_weights momentum = {.net = s->model.net, .master = s->momentum};
    const dt_model_file_opts opts = dt_model_says(s->options, s->images, s->at.run_step);
    dt_written *written = &w->manifest.file[which];

    switch (which) {
    case DT_CHECKPOINT_MODEL:
        return dt_model_put(&s->model, t, &opts, written);
    case DT_CHECKPOINT_MOMENTUM:
        return dt_model_put(&momentum, t, &opts, written);
    case DT_CHECKPOINT_TRAINED:
        return s->trained.net ? dt_model_put(&s->trained, t, &opts, written) : DT_OK;
    case DT_CHECKPOINT_OPTIONS:
        return dt_options_put(t, s->options, written);
    case DT_CHECKPOINT_STATE:
    case DT_CHECKPOINT_FILES:
        break;
    }
    return save_state(w, t, written);
}

static dt_status save_files(saving *w)
{
    char path[PATH_MAX], text[DT_MANIFEST_CHARS];
    dt_target t = {.folder = w->temp.fd, .shown = path, .fresh = true};

    for (int i = 0; i < DT_CHECKPOINT_FILES; i++) {
        t.name = dt_checkpoint_file_name[i];
        DT_TRY(dt_path_join(path, w->temp.path, t.name));
        DT_TRY(save_file(w, (dt_checkpoint_file)i, &t));
    }
    t.name = "MANIFEST";
    DT_TRY(dt_path_join(path, w->temp.path, t.name));
    DT_TRY(dt_outfile_put(&t, text, dt_manifest_text(&w->manifest, text), NULL));
    return dt_folder_sync(w->temp.fd, w->temp.path);
}

/* ---- The whole ----------------------------------------------------------------------- */

static dt_status commit(saving *w, char path[PATH_MAX])
{
    char final[PATH_MAX];

    DT_TRY(dt_path_join(final, w->in.path, w->name.text));
    if (renameat(w->in.fd, w->temp_name, w->in.fd, w->name.text) != 0)
        return save_error(final, "renaming");
    w->temp_name[0] = '\0';
    DT_TRY(dt_folder_sync(w->in.fd, w->in.path));
    memcpy(path, final, sizeof final);
    return DT_OK;
}

dt_status dt_checkpoint_save(dt_rundir *run, const dt_snapshot *s, int metrics_fd,
                             char path[PATH_MAX])
{
    saving w = {.s = s, .in.fd = -1, .temp.fd = -1};
    dt_status st = DT_OK;

    path[0] = '\0';
    if (metrics_fd >= 0 && dt_fd_sync(metrics_fd) != 0 && errno != EINVAL)
        return save_error(run->path, "syncing metrics.jsonl");
    DT_GO(st, open_folder(&w, run), out);
    DT_GO(st, make_temp(&w), out);
    DT_GO(st, save_files(&w), out);
    st = commit(&w, path);

out:
    if (w.temp_name[0])
        (void)!dt_checkpoint_remove(&w.in, w.temp_name); /* the first failure is the cause */
    dt_folder_close(&w.temp);
    dt_folder_close(&w.in);
    return st;
}

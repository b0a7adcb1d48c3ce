/* checkpoint_save.c - everything into a temporary folder, each file synced, and one rename. A
 * checkpoint in pieces has several writers, of which the first makes the folder and renames it. */
#include "checkpoint_internal.h"

struct dt_saving {
    dt_rundir *run;
    dt_folder in;                           /* RUN/checkpoints */
    dt_folder temp;                         /* in it */
    char temp_name[2 * DT_CHECKPOINT_NAME]; /* "": there is none */
    dt_checkpoint_name name;                /* that it will have */
    dt_manifest manifest;
};

static dt_status save_error(const char *path, const char *what)
{
    return dt_fail(errno == EIO || errno == ENOSPC || errno == EDQUOT ? DT_IO : DT_CANTCREATE,
                   "cannot save checkpoint %s: %s: %s", path, what, strerror(errno));
}

/* ---- Places -------------------------------------------------------------------------- */

/* The folder `checkpoints` is on disk once the run folder is synced. Where it holds a checkpoint
 * that was done; where it holds none, an earlier save may have died before. */
static dt_status open_folder(dt_saving *w, dt_rundir *run, int64_t step)
{
    const bool made = mkdirat(run->folder, "checkpoints", 0777) == 0;
    dt_checkpoint_name *list = NULL;
    size_t count = 0;

    if (!made && errno != EEXIST)
        return save_error(run->path, "making its folder checkpoints");
    if (made && run->saves > 0)
        run->saves = close(run->saves); /* none */
    DT_TRY(dt_checkpoints_own(&w->in, run));
    DT_TRY(dt_checkpoint_list(&w->in, &list, &count));
    dt_checkpoint_name_set(&w->name, step, 1);
    for (size_t i = 0; i < count; i++)
        if (list[i].step == w->name.step)
            dt_checkpoint_name_set(&w->name, list[i].step, list[i].generation + 1);
    free(list);
    return count == 0 ? dt_folder_sync(run->folder, run->path) : DT_OK;
}

/* What a save that died has left under the same name goes first. */
static dt_status make_temp(dt_saving *w)
{
    char name[sizeof w->temp_name];

    snprintf(name, sizeof name, ".tmp-%s", w->name.text);
    if (dt_folder_has(w->in.fd, name))
        DT_TRY(dt_checkpoint_remove(&w->in, name));
    if (mkdirat(w->in.fd, name, 0777) != 0)
        return save_error(w->in.path, name);
    memcpy(w->temp_name, name, sizeof name);
    return dt_folder_open(&w->temp, w->in.fd, w->in.path, name);
}

dt_status dt_saving_begin(dt_saving **out, dt_rundir *run, int64_t step, int portions)
{
    dt_saving *w = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&w, 1, sizeof *w, "saving a checkpoint"));
    w->run = run;
    w->in.fd = w->temp.fd = -1;
    w->manifest.portions = portions;
    DT_GO(st, open_folder(w, run, step), out);
    DT_GO(st, make_temp(w), out);
    *out = w;
    return DT_OK;

out:
    dt_saving_abandon(w);
    return st;
}

const char *dt_saving_path(const dt_saving *w)
{
    return w->temp.path;
}

void dt_saving_abandon(dt_saving *w)
{
    if (!w)
        return;
    if (w->temp_name[0])
        (void)!dt_checkpoint_remove(&w->in, w->temp_name); /* the first failure is the cause */
    dt_folder_close(&w->temp);
    dt_folder_close(&w->in);
    free(w);
}

/* ---- Files --------------------------------------------------------------------------- */

static dt_status save_state(const dt_snapshot *s, const dt_target *t, dt_written *written)
{
    char *text = NULL;
    size_t length = 0;

    DT_TRY(dt_checkpoint_state_text(s, &text, &length));
    const dt_status st = dt_outfile_put(t, text, length, written);
    free(text);
    return st;
}

static dt_status save_file(const dt_snapshot *s, dt_checkpoint_file which, const dt_target *t,
                           dt_written *written)
{
    static const char *const holds[DT_CHECKPOINT_FILES] = {[DT_CHECKPOINT_MOMENTUM] = "momentum",
                                                           [DT_CHECKPOINT_TRAINED] = "trained"};
    const dt_weights numbers = dt_checkpoint_numbers(s, which);
    dt_model_file_opts opts = dt_model_says(s->options, s->images, s->at.run_step);

    if (which == DT_CHECKPOINT_OPTIONS)
        return dt_options_put(t, s->options, written);
    if (which == DT_CHECKPOINT_STATE)
        return save_state(s, t, written);
    opts.holds = holds[which];
    opts.portion = s->portion[which];
    return dt_model_put(&numbers, t, &opts, written);
}

/* Numbers but the model's have a folder of their own, where they are in pieces. */
static dt_status make_folder(const dt_folder *in, const char *name)
{
    char part[DT_PORTION_NAME + 32];

    snprintf(part, sizeof part, "%.*s", (int)strcspn(name, "/"), name);
    if (!strchr(name, '/') || mkdirat(in->fd, part, 0777) == 0 || errno == EEXIST)
        return DT_OK;
    return save_error(in->path, part);
}

/* What the snapshot's portion, or the whole, has in the folder. */
static dt_status save_files(const dt_folder *in, const dt_snapshot *s,
                            dt_written written[DT_CHECKPOINT_FILES])
{
    char path[PATH_MAX], name[DT_PORTION_NAME + 32];
    dt_target t = {.folder = in->fd, .name = name, .shown = path, .fresh = true};

    if (s->metrics_fd > 0 && dt_fd_sync(s->metrics_fd) != 0)
        return save_error(in->path, "syncing metrics.jsonl");
    for (dt_checkpoint_file i = 0; i < DT_CHECKPOINT_FILES; i++) {
        written[i] = (dt_written){.bytes = 0};
        if (!dt_checkpoint_numbers(s, i).net && (s->rank > 0 || i == DT_CHECKPOINT_TRAINED))
            continue;
        dt_checkpoint_file_path(i, s->portions, s->rank, name);
        DT_TRY(dt_path_join(path, in->path, name));
        DT_TRY(make_folder(in, name));
        DT_TRY(save_file(s, i, &t, &written[i]));
        if (strchr(name, '/'))
            DT_TRY(dt_folder_sync_above(in->fd, name));
    }
    return DT_OK;
}

dt_status dt_saving_write(const char *folder, const dt_snapshot *s,
                          dt_written written[DT_CHECKPOINT_FILES])
{
    dt_folder in;

    if (dt_folder_open(&in, AT_FDCWD, "", folder) != DT_OK)
        return dt_fail_place(DT_CANTCREATE, "--save-shards needs a disk that all hosts share: ");
    const dt_status st = save_files(&in, s, written);
    dt_folder_close(&in);
    return st;
}

/* ---- The end ------------------------------------------------------------------------- */

static dt_status save_manifest(const dt_saving *w)
{
    char path[PATH_MAX], *text = NULL;
    const dt_target t = {
        .folder = w->temp.fd, .name = "MANIFEST", .shown = path, .fresh = true};

    DT_TRY(dt_path_join(path, w->temp.path, t.name));
    DT_TRY(dt_calloc(&text, DT_MANIFEST_CHARS, 1, path));
    const dt_status st = dt_outfile_put(&t, text, dt_manifest_text(&w->manifest, text), NULL);
    free(text);
    return st;
}

static dt_status commit(dt_saving *w)
{
    char final[PATH_MAX];

    DT_TRY(dt_path_join(final, w->in.path, w->name.text));
    if (renameat(w->in.fd, w->temp_name, w->in.fd, w->name.text) != 0)
        return save_error(final, "renaming");
    w->temp_name[0] = '\0';
    DT_TRY(dt_folder_sync(w->in.fd, w->in.path));
    memcpy(w->run->last, final, sizeof final);
    return DT_OK;
}

dt_status dt_saving_end(dt_saving *w, const dt_written *written)
{
    const size_t portions = (size_t)DT_MAX(w->manifest.portions, 1);
    dt_status st = DT_OK;

    memcpy(w->manifest.file, written, portions * sizeof *w->manifest.file);
    DT_GO(st, save_manifest(w), out);
    DT_GO(st, dt_folder_sync(w->temp.fd, w->temp.path), out);
    st = commit(w);

out:
    dt_saving_abandon(w);
    return st;
}

dt_status dt_checkpoint_save(dt_rundir *run, const dt_snapshot *s)
{
    dt_written written[DT_CHECKPOINT_FILES];
    dt_saving *w = NULL;

    DT_TRY(dt_saving_begin(&w, run, s->at.run_step, 0));
    const dt_status st = save_files(&w->temp, s, written);
    if (st == DT_OK)
        return dt_saving_end(w, written);
    dt_saving_abandon(w);
    return st;
}

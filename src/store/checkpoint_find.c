/* checkpoint_find.c - which checkpoint, of which run. */
#include "checkpoint_internal.h"

#include <dirent.h>
#include <time.h>

/* A checkpoint that could not be read may have been pruned by a live run meanwhile: then the folder
 * is looked at once more, at most so many times. */
enum { LOOKS = 100 };

/* ---- Folders ---------------------------------------------------------------------------- */

bool dt_folder_has(int folder, const char *name)
{
    struct stat info;
    return fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

dt_status dt_folder_open(dt_folder *f, int in, const char *above, const char *name)
{
    const int n = snprintf(f->path, sizeof f->path, "%s%s%s", above, above[0] ? "/" : "", name);

    f->fd = -1;
    if (n < 0 || (size_t)n >= sizeof f->path)
        return dt_fail(DT_NOINPUT, "%.200s...: the path is too long", f->path);
    f->fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd >= 0)
        return DT_OK;
    const int error = errno;
    if (error == ENOENT && dt_folder_has(in, name))
        return dt_fail(DT_IO,
                       "%s is a link, and what it leads to is missing; mount its disk, or remove "
                       "the link",
                       f->path);
    return dt_fail(error == ENOENT || error == ENOTDIR ? DT_NOINPUT : DT_IO, "%s: %s", f->path,
                   strerror(error));
}

void dt_folder_close(dt_folder *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

dt_status dt_checkpoints_open(dt_folder *f, int run, const char *path)
{
    f->fd = -1;
    if (!dt_folder_has(run, "checkpoints"))
        return DT_OK;
    const dt_status st = dt_folder_open(f, run, path, "checkpoints");
    return st == DT_NOINPUT ? DT_IO : st; /* of what is in it nothing is known */
}

/* By a link the folder may be another run's, whose checkpoints must stay. One that lies in no run's
 * folder, as on a larger disk, gets a link .run to its run: a copy of that run leads there, too. */
static dt_status claim(const dt_folder *f, const dt_rundir *run)
{
    static const char *const up[] = {"..", ".run"};
    char path[PATH_MAX];
    struct stat own, info;

    for (size_t i = 0; i < DT_COUNT_OF(up) && fstat(run->folder, &own) == 0; i++)
        if (fstatat(f->fd, up[i], &info, 0) == 0 && info.st_dev == own.st_dev &&
            info.st_ino == own.st_ino)
            return DT_OK;
    if (!dt_folder_has(f->fd, "options.yaml") && !dt_folder_has(f->fd, "../options.yaml") &&
        realpath(run->path, path) && symlinkat(path, f->fd, ".run") == 0)
        return DT_OK;
    return dt_fail(DT_CANTCREATE,
                   "%s is a link to another run's folder, which is left alone: remove the link; "
                   "or, if that is a folder of this run and only its link .run says otherwise, "
                   "remove that",
                   f->path);
}

dt_status dt_checkpoints_own(dt_folder *f, dt_rundir *run)
{
    struct stat info, own;

    DT_TRY(dt_checkpoints_open(f, run->folder, run->path));
    if (f->fd < 0)
        return DT_OK;
    if (run->saves <= 0) {
        DT_TRY(claim(f, run));
        run->saves = fcntl(f->fd, F_DUPFD_CLOEXEC, 1);
    }
    if (run->saves < 0 || fstat(f->fd, &info) != 0 || fstat(run->saves, &own) != 0)
        return dt_fail(DT_IO, "%s: %s", f->path, strerror(errno));
    if (own.st_dev == info.st_dev && own.st_ino == info.st_ino)
        return DT_OK;
    return dt_fail(DT_CANTCREATE,
                   "%s is not the folder any more that this run has saved into: it is left alone",
                   f->path);
}

dt_status dt_checkpoints_check(dt_rundir *run)
{
    dt_folder in;
    const dt_status st = dt_checkpoints_own(&in, run);

    dt_folder_close(&in);
    return st;
}

/* ---- Names ------------------------------------------------------------------------------ */

void dt_checkpoint_name_set(dt_checkpoint_name *n, int64_t step, int generation)
{
    n->step = step;
    n->generation = generation;
    snprintf(n->text, sizeof n->text, generation > 1 ? "step-%010lld-%d" : "step-%010lld",
             (long long)step, generation);
}

bool dt_checkpoint_name_parse(const char *text, dt_checkpoint_name *n)
{
    long long step = 0;
    int generation = 1;

    /* The widths bound the numbers; rendering them again refuses everything else. */
    if (sscanf(text, "step-%18lld-%6d", &step, &generation) < 1 || step < 0 || generation < 1)
        return false;
    dt_checkpoint_name_set(n, step, generation);
    return strcmp(n->text, text) == 0;
}

static int is_name(const struct dirent *e)
{
    dt_checkpoint_name n;
    return dt_checkpoint_name_parse(e->d_name, &n);
}

dt_status dt_checkpoint_list(const dt_folder *f, dt_checkpoint_name **list, size_t *count)
{
    struct dirent **entry = NULL;

    *list = NULL;
    *count = 0;
    if (f->fd < 0)
        return DT_OK;
    const int n = scandirat(f->fd, ".", &entry, is_name, versionsort); /* -2, -3, ..., -10 */
    if (n < 0)
        return dt_fail(DT_IO, "cannot list %s: %s", f->path, strerror(errno));
    dt_status st = dt_calloc(list, (size_t)n + 1, sizeof **list, "the names of checkpoints");
    for (int i = 0; i < n; i++) {
        if (st == DT_OK && dt_checkpoint_name_parse(entry[i]->d_name, &(*list)[*count]))
            ++*count;
        free(entry[i]);
    }
    free(entry);
    return st;
}

dt_status dt_checkpoint_last(const char *run, char name[DT_CHECKPOINT_NAME], double *age_s)
{
    dt_folder above = {.fd = -1}, in = {.fd = -1};
    dt_checkpoint_name *list = NULL;
    struct stat info;
    size_t count = 0;
    dt_status st = DT_OK;

    name[0] = '\0';
    DT_GO(st, dt_folder_open(&above, AT_FDCWD, "", run), out);
    DT_GO(st, dt_checkpoints_open(&in, above.fd, run), out);
    DT_GO(st, dt_checkpoint_list(&in, &list, &count), out);
    for (size_t i = count; i-- > 0 && !name[0];) {
        if (fstatat(in.fd, list[i].text, &info, 0) != 0) /* pruned meanwhile */
            continue;
        memcpy(name, list[i].text, DT_CHECKPOINT_NAME);
        *age_s = difftime(time(NULL), info.st_mtime);
    }

out:
    free(list);
    dt_folder_close(&in);
    dt_folder_close(&above);
    return st;
}

/* ---- The newest that is valid ----------------------------------------------------------- */

/* The failure of one checkpoint: what is damaged is reported and skipped. What the system failed to
 * read may be whole, and what a newer program wrote is: without it nothing is done. */
static dt_status skip_damaged(dt_status st)
{
    if (st != DT_FORMAT && st != DT_NOINPUT)
        return st;
    dt_warn("%s; skipped", dt_fail_text());
    dt_fail_clear();
    return DT_OK;
}

/* step: that of its name; -1: it was named by its path. */
static dt_status take_one(const dt_query *t, const dt_folder *in, const char *name, int64_t step)
{
    dt_checkpoint *c = NULL;

    DT_TRY(dt_checkpoint_open(&c, in, name));
    dt_status st = DT_OK;
    if (step >= 0 && c->at.run_step != step)
        st = dt_fail(
            DT_FORMAT,
            "checkpoint %s: state.json has run_step %lld, the folder's name another: it was "
            "renamed, or is a copy of or link to another",
            c->in.path, (long long)c->at.run_step);
    if (st == DT_OK && t->take)
        st = t->take(t->context, c);
    if (st == DT_OK && t->into)
        st = dt_checkpoint_load(c, t->into);
    else if (st == DT_OK && !t->take)
        st = dt_checkpoint_check(c, NULL, NULL, NULL);
    dt_checkpoint_close(c);
    return st;
}

/* One look at the folder; *seen: checkpoints that were not taken, but those that were pruned while
 * they were read: *gone. */
static dt_status look(const dt_query *t, const dt_folder *in, char found[PATH_MAX], size_t *seen,
                      bool *gone)
{
    dt_checkpoint_name *list = NULL;
    size_t count = 0;
    dt_status st = DT_OK;

    *gone = false;
    DT_TRY(dt_checkpoint_list(in, &list, &count));
    for (size_t i = count; i-- > 0 && st == DT_OK && !found[0];) {
        if (list[i].step < t->first || list[i].step >= t->end)
            continue;
        st = take_one(t, in, list[i].text, list[i].step);
        if (st == DT_OK) {
            st = dt_path_join(found, in->path, list[i].text);
        } else if (st != DT_DECLINED && !dt_folder_has(in->fd, list[i].text)) {
            *gone = true;
            dt_fail_clear();
            st = DT_OK;
        } else {
            ++*seen;
            st = t->judge ? t->judge(t->context, st) : skip_damaged(st);
        }
    }
    free(list);
    return st;
}

dt_status dt_checkpoint_newest(int folder, const char *path, const dt_query *t,
                               char found[PATH_MAX])
{
    dt_folder in;
    size_t seen = 0;
    bool gone = true;

    found[0] = '\0';
    DT_TRY(dt_checkpoints_open(&in, folder, path));
    dt_status st = DT_OK;
    for (int i = 0; i < LOOKS && st == DT_OK && gone && seen == 0 && !found[0]; i++)
        st = look(t, &in, found, &seen, &gone);
    dt_folder_close(&in);
    if (st != DT_OK || found[0] || seen == 0 || t->judge)
        return st;
    return dt_fail(DT_FORMAT,
                   "none of the %zu checkpoints in %s is valid: put whole ones in their place, or "
                   "choose another --out to begin anew",
                   seen, in.path);
}

bool dt_checkpoint_is(const dt_folder *f)
{
    char resolved[PATH_MAX];
    dt_checkpoint_name name;

    if (dt_folder_has(f->fd, "checkpoints"))
        return false;
    return dt_folder_has(f->fd, "MANIFEST") ||
           (realpath(f->path, resolved) &&
            dt_checkpoint_name_parse(strrchr(resolved, '/') + 1, &name));
}

dt_status dt_checkpoint_find(const char *path, const dt_query *t, char found[PATH_MAX])
{
    dt_folder in;
    dt_status st = DT_OK;

    found[0] = '\0';
    DT_TRY(dt_folder_open(&in, AT_FDCWD, "", path));
    if (!dt_checkpoint_is(&in)) {
        st = dt_checkpoint_newest(in.fd, path, t, found);
    } else {
        st = take_one(t, NULL, path, -1);
        if (st == DT_OK)
            memcpy(found, in.path, PATH_MAX);
        else if (t->judge)
            st = t->judge(t->context, st);
    }
    dt_folder_close(&in);
    return st;
}

/* ---- The newest state of a run ---------------------------------------------------------- */

/* Steps of the run's model, -1: it has none, or none that can be read. */
static dt_status model_steps(const char *path, int64_t *steps)
{
    dt_model_meta meta;

    *steps = -1;
    if (!dt_path_exists(path))
        return DT_OK;
    const dt_status st = dt_model_describe(path, &meta);
    if (st == DT_OK)
        *steps = meta.steps;
    return skip_damaged(st == DT_IO ? DT_FORMAT : st);
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
        dt_checkpoint_find(run, &(dt_query){.first = steps + 1, .end = INT64_MAX}, out);
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
    DT_TRY(dt_path_join(part, path, "MANIFEST"));
    if (dt_path_taken(part))
        return dt_checkpoint_find(path, &(dt_query){.end = INT64_MAX}, out);
    snprintf(out, PATH_MAX, "%s", path);
    return DT_OK;
}

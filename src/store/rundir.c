/* rundir.c - the run folder: never shared with another run, never over the remains of one. */
#include "checkpoint_internal.h"

#include <dirent.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <time.h>

static dt_status rundir_error(const char *path, const char *what)
{
    const bool full = errno == ENOSPC || errno == EDQUOT;

    return dt_fail(full ? DT_IO : DT_CANTCREATE, "run folder %s: %s: %s; %schoose another --out",
                   path, what, strerror(errno), full ? "make room, or " : "");
}

/* ---- Making it -------------------------------------------------------------------------- */

static dt_status make_folder(dt_rundir *d)
{
    DT_TRY(dt_parents_make(d->path));
    d->created = mkdir(d->path, 0777) == 0;
    if (!d->created)
        return errno == EEXIST ? DT_OK : rundir_error(d->path, "making it");
    return dt_folder_sync_above(AT_FDCWD, d->path);
}

static dt_status make_default(dt_rundir *d, const char *net, int world)
{
    char stamp[32], name[sizeof d->path - 16];
    const time_t now = time(NULL);
    struct tm local;

    if (!localtime_r(&now, &local) || !strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local))
        return dt_fail(DT_BUG, "no calendar time for a folder's name");
    snprintf(name, sizeof name, "runs/%s-%s-np%d", stamp, net, world);
    for (int k = 1; !d->created; k++) {
        snprintf(d->path, sizeof d->path, k > 1 ? "%s-%d" : "%s", name, k);
        DT_TRY(make_folder(d));
    }
    return DT_OK;
}

static dt_status hold_folder(dt_rundir *d)
{
    d->folder = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->folder >= 0)
        return DT_OK;
    if (errno == ENOENT && dt_path_taken(d->path))
        return dt_fail(DT_CANTCREATE,
                       "run folder %s is a link, and what it leads to is missing; mount its disk, "
                       "or choose another --out",
                       d->path);
    return rundir_error(d->path, "opening it");
}

/* ---- The lock --------------------------------------------------------------------------- */

static const char lock_name[] = ".lock";

/* The file is never written or removed, so all processes lock the same one, and a file of the
 * user's that has its name is left as it is. Without `make`: only where there is one, for a folder
 * that turns out to be somebody else's stays as it is. */
static dt_status take_lock(dt_rundir *d, bool make)
{
    const int how = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (make ? O_CREAT : 0);
    char shown[PATH_MAX];

    if (d->lock >= 0)
        return DT_OK;
    d->lock = openat(d->folder, lock_name, how, 0666);
    if (d->lock < 0 && errno == ENOENT && !make)
        return DT_OK;
    if (d->lock >= 0 && flock(d->lock, LOCK_EX | LOCK_NB) == 0)
        return DT_OK;
    if (d->lock >= 0 && dt_disk_lacks()) {
        dt_warn("run folder %s: its disk has no locks (flock: %s), so that another run into the "
                "same folder would not be noticed: give no two runs one --out",
                d->path, strerror(errno));
        return DT_OK;
    }
    if (d->lock < 0 || errno != EWOULDBLOCK) {
        snprintf(shown, sizeof shown, "%s/%s", d->path, lock_name);
        return rundir_error(shown, "opening it");
    }
    return dt_fail(DT_CANTCREATE,
                   "run folder %s is in use by another run, which 'dtrain status %s' shows; choose "
                   "another --out",
                   d->path, d->path);
}

bool dt_rundir_held(const char *folder)
{
    char path[PATH_MAX + 16]; /* too long for open: not held */
    snprintf(path, sizeof path, "%s/%s", folder, lock_name);
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return false;
    const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

/* ---- What is in it ---------------------------------------------------------------------- */

/* Whether it holds logs that this run's ranks have begun, or is one: --log-dir may be the run's. */
static bool is_own_log(const dt_rundir *d, const dt_options *o, const char *name)
{
    char path[PATH_MAX + NAME_MAX], entry[PATH_MAX], logs[PATH_MAX];

    if (!realpath(o->log_dir, logs))
        return false;
    if (fnmatch("rank-*.log", name, 0) == 0)
        return true;
    snprintf(path, sizeof path, "%s/%s", d->path, name);
    const size_t n = realpath(path, entry) ? strlen(entry) : 0;
    return n > 0 && strncmp(logs, entry, n) == 0 && (logs[n] == '/' || !logs[n]);
}

/* What a run has left before its options were there counts for nothing. */
static bool is_nothing(const dt_rundir *d, const dt_options *o, const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, lock_name) == 0 ||
           strcmp(name, "options.yaml.dtrain.tmp") == 0 || is_own_log(d, o, name);
}

/* Whether the folder may be had as it is: new, or a run's to take over. */
static dt_status check_contents(dt_rundir *d, const dt_options *o, bool takes_over)
{
    struct dirent **entry = NULL;
    const int n = scandirat(d->folder, ".", &entry, NULL, NULL);
    char other[NAME_MAX + 1] = "";

    if (n < 0)
        return rundir_error(d->path, "listing it");
    const bool run = dt_folder_has(d->folder, "options.yaml");
    for (int i = 0; i < n; i++) {
        if (!is_nothing(d, o, entry[i]->d_name))
            snprintf(other, sizeof other, "%s", entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    d->resumed = takes_over && run;
    if (d->resumed || !other[0])
        return DT_OK;
    return dt_fail(DT_CANTCREATE,
                   "run folder %s is not empty: it holds '%s'; choose another --out%s", d->path,
                   other,
                   run          ? ", or resume that run with --resume auto"
                   : takes_over ? ": without options.yaml it is no run folder"
                                : "");
}

/* ---- Which folder ----------------------------------------------------------------------- */

/* The run folder that `path` is, or that the checkpoint `path` lies in; out[0] = 0: it lies in
 * none. */
static dt_status run_of(const char *path, char out[PATH_MAX])
{
    /* Of RUN/checkpoints/NAME; by a link to another disk, where .run says whose it is. */
    static const char *const up[] = {"../..", "../.run"};
    char mark[PATH_MAX + 16];
    dt_folder in;

    DT_TRY(dt_folder_open(&in, AT_FDCWD, "", path));
    const bool is = dt_checkpoint_is(&in);
    memcpy(out, in.path, PATH_MAX);
    dt_folder_close(&in);
    for (size_t i = 0; i < DT_COUNT_OF(up) && is; i++) {
        snprintf(mark, sizeof mark, "%s/%s", path, up[i]);
        if (!realpath(mark, out))
            out[0] = '\0';
        snprintf(mark, sizeof mark, "%s/options.yaml", out);
        if (dt_path_exists(mark))
            return DT_OK;
        out[0] = '\0';
    }
    return DT_OK;
}

/* The folder that the options mean, "" for a new one of the default name. */
static dt_status choose(const dt_options *o, char out[PATH_MAX], bool *takes_over)
{
    char of[PATH_MAX] = "";

    *takes_over = strcmp(o->resume, "auto") == 0;
    snprintf(out, PATH_MAX, "%s", o->out);
    if (*takes_over || strcmp(o->resume, "never") == 0 || !o->resume[0])
        return DT_OK;
    DT_TRY(run_of(o->resume, of));
    if (!of[0])
        return DT_OK;
    *takes_over = !o->out[0] || dt_path_same(o->out, of);
    if (!o->out[0])
        memcpy(out, of, sizeof of);
    return DT_OK;
}

dt_status dt_rundir_open(dt_rundir *d, const dt_options *o, int world)
{
    char out[PATH_MAX];
    bool takes_over = false;
    dt_status st = DT_OK;

    *d = (dt_rundir){.folder = -1, .lock = -1};
    DT_TRY(choose(o, out, &takes_over));
    size_t n = strlen(strlen(o->out) < sizeof out ? out : o->out);
    if (n >= sizeof d->path)
        return dt_fail(DT_CANTCREATE, "--out: the path has %zu characters, at most %zu fit", n,
                       sizeof d->path - 1);
    while (n > 1 && out[n - 1] == '/')
        out[--n] = '\0';
    memcpy(d->path, out, n + 1);
    DT_GO(st, out[0] ? make_folder(d) : make_default(d, o->net, world), out);
    DT_GO(st, hold_folder(d), out);
    DT_GO(st, take_lock(d, false), out);
    DT_GO(st, check_contents(d, o, takes_over), out);
    DT_GO(st, take_lock(d, true), out);
    /* Another run may have come and gone between the look and the lock. */
    st = check_contents(d, o, takes_over);

out:
    if (st != DT_OK)
        dt_rundir_close(d);
    return st;
}

void dt_rundir_close(dt_rundir *d)
{
    if (d->saves > 0)
        close(d->saves);
    if (d->lock > 0)
        close(d->lock);
    if (d->folder > 0)
        close(d->folder);
    *d = (dt_rundir){.folder = -1, .lock = -1};
}

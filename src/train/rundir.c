/* The run folder: never shared with another run, never over the remains of one. */
#include "rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static dt_status rundir_error(const char *path, const char *what)
{
    return dt_fail(DT_CANTCREATE, "run folder %s: %s: %s; choose another --out", path,
                   what, strerror(errno));
}

/* Every missing folder above the last part of path. */
static dt_status make_parents(const char *path)
{
    char part[PATH_MAX];

    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0755) != 0 && errno != EEXIST)
            return rundir_error(path, part);
        *slash = '/';
    }
    return DT_OK;
}

/* Whether a live run holds the folder's lock file. */
static bool is_held(const dt_rundir *d)
{
    char path[PATH_MAX];
    bool held = false;

    const int fd =
        open(dt_rundir_file(d, "lock", path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        close(fd);
    }
    return held;
}

static dt_status rundir_taken(const dt_rundir *d, const char *entry)
{
    if (is_held(d))
        return dt_fail(DT_CANTCREATE,
                       "run folder %s is in use by another run; choose another "
                       "--out",
                       d->path);
    return dt_fail(DT_CANTCREATE,
                   "run folder %s is not empty: it holds '%s'; choose another "
                   "--out, or remove it",
                   d->path, entry);
}

static dt_status check_empty(const dt_rundir *d)
{
    dt_status st = DT_OK;
    DIR *dir = opendir(d->path);

    if (!dir)
        return rundir_error(d->path, "opening it");
    for (struct dirent *e = readdir(dir); e && st == DT_OK; e = readdir(dir))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            st = rundir_taken(d, e->d_name);
    closedir(dir);
    return st;
}

/* The lock file is made with O_EXCL, so of two runs that both saw an empty folder one
 * fails here. flock tells a run that is alive from the remains of one. */
static dt_status take_lock(dt_rundir *d)
{
    char path[PATH_MAX], text[32];

    d->lock = open(dt_rundir_file(d, "lock", path),
                   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (d->lock < 0)
        return errno == EEXIST ? rundir_taken(d, "lock")
                               : rundir_error(d->path, "its lock");
    const int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (flock(d->lock, LOCK_EX | LOCK_NB) == 0 &&
        write(d->lock, text, (size_t)n) == n) {
        d->open = true;
        return DT_OK;
    }
    const dt_status st = rundir_error(d->path, "its lock");
    unlink(path);
    close(d->lock);
    return st;
}

static dt_status open_given(dt_rundir *d, const char *out)
{
    struct stat info;

    DT_TRY(make_parents(out));
    d->created = mkdir(out, 0755) == 0;
    if (!d->created && errno != EEXIST)
        return rundir_error(out, "making it");
    if (stat(out, &info) != 0)
        return rundir_error(out, "looking at it");
    if (!S_ISDIR(info.st_mode))
        return dt_fail(DT_CANTCREATE, "run folder %s is a file; choose another --out",
                       out);
    return check_empty(d);
}

static dt_status open_default(dt_rundir *d, const char *net, int world)
{
    enum { TRIES = 1000 };
    char stamp[32], name[sizeof d->path - 16];
    const time_t now = time(NULL);
    struct tm local;

    if (!localtime_r(&now, &local) ||
        !strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local))
        return dt_fail(DT_BUG, "no calendar time for a folder's name");
    snprintf(name, sizeof name, "runs/%s-%s-np%d", stamp, net, world);
    DT_TRY(make_parents(name));
    for (int k = 1; k <= TRIES; k++) {
        if (k == 1)
            snprintf(d->path, sizeof d->path, "%s", name);
        else
            snprintf(d->path, sizeof d->path, "%s-%d", name, k);
        d->created = mkdir(d->path, 0755) == 0;
        if (d->created)
            return DT_OK;
        if (errno != EEXIST)
            break;
    }
    return rundir_error(d->path, "making it");
}

dt_status dt_rundir_open(dt_rundir *d, const dt_options *o, int world)
{
    dt_status st = DT_OK;

    *d = (dt_rundir){.lock = -1};
    if (strlen(o->out) >= sizeof d->path)
        return dt_fail(DT_CANTCREATE,
                       "--out: the path has %zu characters, at most %zu fit",
                       strlen(o->out), sizeof d->path - 1);
    snprintf(d->path, sizeof d->path, "%s", o->out);
    DT_GO(st, o->out[0] ? open_given(d, o->out) : open_default(d, o->net, world), out);
    st = take_lock(d);

out:
    if (st != DT_OK) {
        if (d->created)
            rmdir(d->path);
        *d = (dt_rundir){.lock = -1};
    }
    return st;
}

void dt_rundir_close(dt_rundir *d)
{
    char path[PATH_MAX];

    if (!d->open)
        return;
    unlink(dt_rundir_file(d, "lock", path));
    close(d->lock);
    if (d->created)
        rmdir(d->path); /* refused, as wanted, when there are files */
    *d = (dt_rundir){.lock = -1};
}

const char *dt_rundir_file(const dt_rundir *d, const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%.63s", d->path, name);
    return out;
}

/* rundir.c - the run folder: never shared with another run, never over the remains of one. */
#include "store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static dt_status rundir_error(const char *path, const char *what)
{
    const bool full = errno == ENOSPC || errno == EDQUOT;

    return dt_fail(full ? DT_IO : DT_CANTCREATE, "run folder %s: %s: %s; %schoose another --out",
                   path, what, strerror(errno), full ? "make room, or " : "");
}

/* A folder that was made is on disk when the one above it is. One that may be searched but
 * not read cannot be synced. */
static dt_status make_folder(const char *path, bool *made)
{
    *made = mkdir(path, 0755) == 0;
    if (!*made)
        return errno == EEXIST ? DT_OK : rundir_error(path, "making it");
    char above[PATH_MAX];
    snprintf(above, sizeof above, "%s", path);
    return access(dirname(above), R_OK) == 0 ? dt_folder_sync_above(AT_FDCWD, path) : DT_OK;
}

static dt_status make_parent(const char *path)
{
    bool made = false;
    return make_folder(path, &made);
}

/* ---- What is in it ------------------------------------------------------------------- */

enum { LOCK_CHARS = DT_HOST_CHARS + 32 };

/* For reading, or -1: whatever has the lock's name. */
static int open_lock(const dt_rundir *d)
{
    char path[PATH_MAX];
    return open(dt_rundir_file(d, "lock", path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* Whether fd is a run's lock, which may be written and removed: a file of one name, empty as of a
 * run that has only begun, or "PID HOST\n" (the first versions': "PID\n"), or what a power cut
 * leaves of it: its beginning, one line of a digit and other bytes, or bytes that are no text.
 * Any other `lock` is its owner's. */
static bool is_lock(int fd)
{
    char text[LOCK_CHARS];
    struct stat info;

    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink > 1)
        return false;
    const ssize_t n = pread(fd, text, sizeof text, 0);
    if (n < 0 || n == (ssize_t)sizeof text)
        return false;
    text[n] = '\0';
    for (ssize_t i = 0; i < n; i++)
        if (iscntrl((unsigned char)text[i]) && !isspace((unsigned char)text[i]))
            return true;
    return n == 0 || (isdigit((unsigned char)text[0]) && (ssize_t)strcspn(text, "\n") + 1 >= n);
}

static bool has_lock(const dt_rundir *d)
{
    const int fd = open_lock(d);
    const bool has = fd >= 0 && is_lock(fd);

    if (fd >= 0)
        close(fd);
    return has;
}

/* Whether it is, or leads to, a log that this run has begun: of its ranks, or of collectives. */
static bool is_own_log(const dt_rundir *d, const dt_options *o, const char *name)
{
    const char *const logs[] = {o->log_dir, o->comm_log};
    char entry[PATH_MAX], log[PATH_MAX];

    if (!realpath(d->at, entry))
        return false;
    const size_t above = strlen(entry);
    if (realpath(o->log_dir, log) && strcmp(log, entry) == 0 &&
        fnmatch("rank-[0-9][0-9][0-9][0-9][0-9].log", name, 0) == 0)
        return true;
    snprintf(entry + above, sizeof entry - above, "/%s", name);
    const size_t length = strlen(entry);
    for (size_t i = 0; i < DT_COUNT_OF(logs); i++)
        if (logs[i][0] && realpath(logs[i], log) && strncmp(log, entry, length) == 0 &&
            (log[length] == '/' || log[length] == '\0'))
            return true;
    return false;
}

typedef struct contents {
    bool empty;               /* but for a lock, and logs of this run */
    bool lock, run;           /* a lock file; what a run leaves */
    char other[NAME_MAX + 1]; /* an entry, not the lock where there is another */
} contents;

static dt_status look_into(const dt_rundir *d, const dt_options *o, contents *c)
{
    DIR *dir = opendir(d->at);

    *c = (contents){.empty = true};
    if (!dir)
        return rundir_error(d->path, "opening it");
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        const char *name = e->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (o && is_own_log(d, o, name)))
            continue;
        const bool lock = strcmp(name, "lock") == 0 && has_lock(d);
        c->lock = c->lock || lock;
        c->run = c->run || strcmp(name, "options.yaml") == 0 ||
                 strcmp(name, ".options.yaml") == 0 || /* killed before its renaming, or before */
                 strcmp(name, "options.yaml.dtrain.tmp") == 0 || strcmp(name, "checkpoints") == 0;
        if (!lock || c->empty)
            snprintf(c->other, sizeof c->other, "%s", name);
        c->empty = c->empty && lock;
    }
    closedir(dir);
    return DT_OK;
}

/* Who holds the folder, as the lock file says; one that has only begun may not have written. */
static dt_status rundir_in_use(const dt_rundir *d)
{
    char text[LOCK_CHARS] = "", who[sizeof text + 32] = "";
    const int fd = open_lock(d);

    if (fd >= 0) {
        const ssize_t n = read(fd, text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    char *host = strchr(text, ' '), *end = strchr(text, '\n');
    if (host && end) {
        *host = *end = '\0';
        snprintf(who, sizeof who, " (process %s on %s)", text, host + 1);
    }
    return dt_fail(DT_CANTCREATE, "run folder %s is in use by another run%s; choose another --out",
                   d->path, who);
}

/* Whether the folder may be had as it is. Its own lock, once held, is no obstacle. */
static dt_status check_contents(dt_rundir *d, const dt_options *o, bool takes_over, bool held)
{
    contents c;

    DT_TRY(look_into(d, o, &c));
    d->resumed = takes_over && !c.empty && c.run;
    if (d->resumed || (c.empty && (takes_over || held || !c.lock)))
        return DT_OK;
    return dt_fail(DT_CANTCREATE,
                   "run folder %s is not empty: it holds '%s'; choose another --out%s", d->path,
                   c.other,
                   c.run        ? ", or continue that run with --resume auto"
                   : takes_over ? ": it is no run folder"
                                : "");
}

/* ---- The lock -------------------------------------------------------------------------- */

static bool is_locked(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool locked = false;

    if (fd >= 0) {
        locked = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        close(fd);
    }
    return locked;
}

static bool is_file_locked(const char *folder)
{
    char path[PATH_MAX];
    struct stat info;
    const int n = snprintf(path, sizeof path, "%s/lock", folder);

    return n > 0 && (size_t)n < sizeof path && lstat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           is_locked(path);
}

bool dt_rundir_held(const char *folder)
{
    return is_locked(folder) || is_file_locked(folder);
}

/* Whoever removes the lock file does not let go of the folder. File systems that lock no
 * folders leave it at the file, and network ones may lock folders for one node alone. */
static dt_status lock_folder(dt_rundir *d)
{
    const bool locked = flock(d->folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;

    if (!locked && !is_file_locked(d->at))
        return DT_OK;
    d->created = false; /* whoever was faster has it, empty as it may be: not ours to remove */
    return rundir_in_use(d);
}

/* Whether the file behind fd still has its name. */
static bool is_named(int fd, const char *path)
{
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && lstat(path, &named) == 0 && dt_same_file(&ours, &named);
}

/* The lock file could not be opened, with errno. */
static dt_status lock_refused(const dt_rundir *d)
{
    char named[PATH_MAX];
    const int error = errno;

    DT_TRY(dt_path_join(named, d->path, "lock"));
    const dt_target checked = dt_target_path(named);
    DT_TRY(dt_target_check(&checked));
    errno = error;
    return rundir_error(d->path, "its lock");
}

/* Whoever holds a lock file removes its name before letting go. So a lock counts only on a
 * file that has its name still: one that was opened before its holder removed it may be
 * locked by two, in turn, as a file that nobody else will find. */
static dt_status take_lock(dt_rundir *d)
{
    enum { TRIES = 1000 };
    char path[PATH_MAX], host[DT_HOST_CHARS], text[LOCK_CHARS];

    dt_host_name(host);
    const int n = snprintf(text, sizeof text, "%ld %s\n", (long)getpid(), host);
    dt_rundir_file(d, "lock", path);
    for (int i = 0; i < TRIES; i++) {
        d->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0644);
        if (d->lock < 0)
            return lock_refused(d);
        if (!is_lock(d->lock)) {
            close(d->lock);
            return dt_fail(DT_CANTCREATE,
                           "run folder %s: its 'lock' is not what a run leaves; move it away, or "
                           "choose another --out",
                           d->path);
        }
        const bool locked = flock(d->lock, LOCK_EX | LOCK_NB) == 0;
        if (!locked || is_named(d->lock, path)) {
            if (locked && ftruncate(d->lock, 0) == 0 && write(d->lock, text, (size_t)n) == n) {
                d->open = true;
                return DT_OK;
            }
            const dt_status st = !locked && errno == EWOULDBLOCK
                                     ? rundir_in_use(d)
                                     : rundir_error(d->path, "its lock");
            if (locked)
                unlink(path);
            close(d->lock);
            return st;
        }
        close(d->lock);
    }
    return dt_fail(DT_CANTCREATE,
                   "run folder %s: its lock changes hands all the time; "
                   "choose another --out",
                   d->path);
}

/* ---- The folder itself -------------------------------------------------------------------- */

/* Whether the path leads to what the descriptor is open on. */
static bool leads_to(const char *path, int fd)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && stat(path, &there) == 0 && dt_same_file(&ours, &there);
}

/* A lock holds a folder, not a name. Files are reached by the folder's descriptor, so that a
 * run whose folder is moved goes on in it, and not in what has its name then. */
static dt_status hold_folder(dt_rundir *d)
{
    d->folder = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->folder < 0 && errno == ENOTDIR)
        return dt_fail(DT_CANTCREATE, "run folder %s is a file; choose another --out", d->path);
    if (d->folder < 0 && errno == ENOENT && dt_path_taken(d->path))
        return dt_fail(DT_CANTCREATE,
                       "run folder %s is a link, and what it leads to is missing; mount its disk, "
                       "or choose another --out",
                       d->path);
    if (d->folder < 0)
        return rundir_error(d->path, "opening it");
    snprintf(d->at, sizeof d->at, "/proc/self/fd/%d", d->folder);
    if (!leads_to(d->at, d->folder))
        memcpy(d->at, d->path, sizeof d->at);
    return DT_OK;
}

static bool is_removed(int folder)
{
    struct stat info;
    return fstat(folder, &info) == 0 && info.st_nlink == 0;
}

static dt_status made_again(dt_rundir *d, dt_rundir *again)
{
    contents c;

    DT_TRY(dt_parents_make(again->path, make_parent));
    DT_TRY(make_folder(again->path, &again->created));
    DT_TRY(hold_folder(again));
    DT_TRY(lock_folder(again));
    DT_TRY(look_into(again, NULL, &c));
    if (!c.empty)
        return dt_fail(DT_CANTCREATE,
                       "run folder %s was removed while its run goes on, and what is there now is "
                       "not empty: it holds '%s'; empty it",
                       d->path, c.other);
    DT_TRY(take_lock(again));
    if (dup3(again->folder, d->folder, O_CLOEXEC) < 0)
        return rundir_error(d->path, "holding it");
    close(d->lock);
    d->lock = again->lock;
    again->open = again->created = false; /* they are d's now */
    return DT_OK;
}

/* Once more at its place, unless somebody else has taken that. The descriptor's number stays, and
 * with it the names of all files. */
static dt_status make_again(dt_rundir *d)
{
    dt_rundir again = {.folder = -1, .lock = -1};

    memcpy(again.path, d->path, sizeof again.path);
    const dt_status st = made_again(d, &again);
    if (st == DT_OK)
        dt_warn(
            "run folder %s was removed while its run goes on: it is made again, without what it "
            "held",
            d->path);
    dt_rundir_close(&again);
    return st;
}

dt_status dt_rundir_find(dt_rundir *d)
{
    char now[sizeof d->path];

    if (leads_to(d->path, d->folder))
        return DT_OK;
    if (strcmp(d->at, d->path) != 0 && is_removed(d->folder))
        return make_again(d);
    if (strcmp(d->at, d->path) == 0)
        return dt_fail(DT_IO,
                       "run folder %s was moved or replaced while its run was on; move it "
                       "back",
                       d->path);
    const ssize_t n = readlink(d->at, now, sizeof now - 1);
    now[n > 0 ? n : 0] = '\0';
    if (leads_to(now, d->folder)) { /* else it was removed: writing will tell */
        dt_warn("run folder %s was moved to %s: the run goes on there", d->path, now);
        memcpy(d->path, now, sizeof now);
    }
    return DT_OK;
}

/* ---- Which folder ---------------------------------------------------------------------- */

static dt_status make_given(dt_rundir *d)
{
    DT_TRY(dt_parents_make(d->path, make_parent));
    return make_folder(d->path, &d->created);
}

static dt_status make_default(dt_rundir *d, const char *net, int world)
{
    enum { TRIES = 1000 };
    char stamp[32], name[sizeof d->path - 16];
    const time_t now = time(NULL);
    struct tm local;

    if (!localtime_r(&now, &local) || !strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local))
        return dt_fail(DT_BUG, "no calendar time for a folder's name");
    snprintf(name, sizeof name, "runs/%s-%s-np%d", stamp, net, world);
    DT_TRY(dt_parents_make(name, make_parent));
    for (int k = 1; k <= TRIES; k++) {
        if (k == 1)
            snprintf(d->path, sizeof d->path, "%s", name);
        else
            snprintf(d->path, sizeof d->path, "%s-%d", name, k);
        DT_TRY(make_folder(d->path, &d->created));
        if (d->created)
            return DT_OK;
    }
    errno = EEXIST;
    return rundir_error(d->path, "making it");
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && dt_same_file(&x, &y);
}

/* The folder that the options mean, "" for a new one of the default name. */
static dt_status choose(const dt_options *o, char out[PATH_MAX], bool *takes_over)
{
    char of[PATH_MAX] = "";

    *takes_over = strcmp(o->resume, "auto") == 0;
    snprintf(out, PATH_MAX, "%s", o->out);
    if (*takes_over || strcmp(o->resume, "never") == 0 || !o->resume[0])
        return DT_OK;
    DT_TRY(dt_checkpoint_run(o->resume, of));
    if (!of[0])
        return DT_OK;
    *takes_over = !o->out[0] || is_same_folder(o->out, of);
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
    if (strlen(o->out) >= sizeof d->path)
        return dt_fail(DT_CANTCREATE, "--out: the path has %zu characters, at most %zu fit",
                       strlen(o->out), sizeof d->path - 1);
    DT_TRY(choose(o, out, &takes_over));
    if (strlen(out) >= sizeof d->path)
        return dt_fail(DT_CANTCREATE,
                       "--resume: the path of its run folder has %zu "
                       "characters, at most %zu fit",
                       strlen(out), sizeof d->path - 1);
    memcpy(d->path, out, strlen(out) + 1);
    DT_GO(st, out[0] ? make_given(d) : make_default(d, o->net, world), out);
    DT_GO(st, hold_folder(d), out);
    DT_GO(st, lock_folder(d), out);
    DT_GO(st, check_contents(d, o, takes_over, false), out);
    DT_GO(st, take_lock(d), out);
    /* Another run may have come and gone between the look and the lock. */
    st = check_contents(d, o, takes_over, true);

out:
    if (st != DT_OK)
        dt_rundir_close(d);
    return st;
}

void dt_rundir_close(dt_rundir *d)
{
    char path[PATH_MAX];

    if (d->open) {
        if (is_named(d->lock, dt_rundir_file(d, "lock", path)))
            unlink(path);
        close(d->lock);
    }
    if (d->created && (d->folder < 0 || leads_to(d->path, d->folder)))
        rmdir(d->path); /* refused, as wanted, when there are files */
    if (d->at[0])
        close(d->folder);
    *d = (dt_rundir){.folder = -1, .lock = -1};
}

const char *dt_rundir_file(const dt_rundir *d, const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%.63s", d->at, name);
    return out;
}

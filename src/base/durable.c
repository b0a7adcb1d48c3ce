/* durable.c - files and folders that are written: on disk when a call returns, or appended to. */
#include "base.h"

#include <libgen.h>
#include <sys/resource.h>

/* With errno. A limit of the process, or a folder that is missing, has a remedy of its own. */
static dt_status outfile_error(const dt_outfile *f, dt_status code, const char *what)
{
    const bool full = errno == ENOSPC || errno == EDQUOT;
    const char *remedy = full ? "free space or choose another --out" : "choose another --out";
    struct rlimit limit;

    if (errno == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        code = DT_NOMEM;
        remedy = "raise the limit of a file's size (ulimit -f)";
    } else if (errno == ENOENT)
        remedy = "make the folder that it is to be in, or choose another --out";
    return dt_fail(code, "cannot write %s (%s): %s; %s", f->target.shown, what, strerror(errno),
                   remedy);
}

dt_status dt_target_check(const dt_target *t)
{
    struct stat info;

    if (fstatat(t->folder, t->name, &info, AT_SYMLINK_NOFOLLOW) != 0 || S_ISREG(info.st_mode))
        return DT_OK; /* what else is wrong with it shows when it is opened */
    return dt_fail(DT_CANTCREATE,
                   "cannot write %s: there is a %s, not a file, and it is left "
                   "alone; choose another --out",
                   t->shown,
                   S_ISDIR(info.st_mode)   ? "folder"
                   : S_ISLNK(info.st_mode) ? "link"
                                           : "device, pipe or socket");
}

dt_status dt_outfile_open(dt_outfile *f, const dt_target *t)
{
    char name[sizeof f->made];
    const int n = snprintf(name, sizeof name, "%s%s", t->name, t->fresh ? "" : ".dtrain.tmp");

    *f = (dt_outfile){.target = *t, .fd = -1};
    if (n < 0 || (size_t)n >= sizeof name)
        return dt_fail(DT_CANTCREATE, "cannot write %.200s...: the path is too long", t->shown);
    DT_TRY(dt_target_check(t));
    dt_hash_init(&f->hash);
    if (!t->fresh)
        unlinkat(t->folder, name, 0); /* what a killed process has left */
    f->fd = openat(t->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd < 0)
        return outfile_error(
            f, errno == ENOSPC || errno == EDQUOT || errno == EIO ? DT_IO : DT_CANTCREATE,
            "opening");
    memcpy(f->made, name, (size_t)n + 1);
    return DT_OK;
}

/* All bytes, again when a signal has cut it short: those written, fewer with errno. */
static size_t write_all(int fd, const void *data, size_t bytes)
{
    size_t done = 0;

    for (ssize_t n = 0; n >= 0 && done < bytes; done += n > 0 ? (size_t)n : 0)
        n = TEMP_FAILURE_RETRY(write(fd, (const char *)data + done, bytes - done));
    return done;
}

dt_status dt_outfile_write(dt_outfile *f, const void *data, uint64_t bytes)
{
    dt_hash_update(&f->hash, data, bytes);
    f->bytes += bytes;
    return write_all(f->fd, data, bytes) < bytes ? outfile_error(f, DT_IO, "writing") : DT_OK;
}

bool dt_disk_lacks(void)
{
    return errno == EINVAL || errno == ENOSYS || errno == ENOLCK || errno == EOPNOTSUPP;
}

/* A disk that has no such call has no better promise to give. */
int dt_fd_sync(int fd)
{
    return TEMP_FAILURE_RETRY(fsync(fd)) == 0 || dt_disk_lacks() ? 0 : -1;
}

dt_status dt_outfile_finish(dt_outfile *f, dt_written *w)
{
    const dt_target *t = &f->target;

    if (dt_fd_sync(f->fd) != 0)
        return outfile_error(f, DT_IO, "syncing");
    const int closed = close(f->fd);
    f->fd = -1;
    if (closed != 0)
        return outfile_error(f, DT_IO, "closing");
    if (w)
        *w = (dt_written){f->bytes, dt_hash_digest(&f->hash)};
    if (!t->fresh && renameat(t->folder, f->made, t->folder, t->name) != 0)
        return outfile_error(f, errno == EISDIR ? DT_CANTCREATE : DT_IO, "renaming");
    f->made[0] = '\0';
    return t->fresh ? DT_OK : dt_folder_sync_above(t->folder, t->name);
}

void dt_outfile_abandon(dt_outfile *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->made[0])
        unlinkat(f->target.folder, f->made, 0);
    *f = (dt_outfile){.fd = -1};
}

dt_status dt_outfile_put(const dt_target *t, const void *data, uint64_t bytes, dt_written *w)
{
    dt_outfile f = {.fd = -1};
    dt_status st = DT_OK;

    DT_GO(st, dt_outfile_open(&f, t), out);
    DT_GO(st, dt_outfile_write(&f, data, bytes), out);
    st = dt_outfile_finish(&f, w);

out:
    dt_outfile_abandon(&f);
    return st;
}

/* ---- Logs --------------------------------------------------------------------------------- */

bool dt_append(int fd, const char *text, size_t bytes)
{
    const size_t done = write_all(fd, text, bytes);
    const int error = errno;
    const off_t end = done > 0 ? lseek(fd, 0, SEEK_CUR) : 0;
    struct stat info;

    if (done == bytes)
        return true;
    /* unless another thread has written after it */
    if (done > 0 && fstat(fd, &info) == 0 && info.st_size == end)
        (void)!ftruncate(fd, end - (off_t)done);
    errno = error;
    return false;
}

void dt_append_mend(int fd)
{
    struct stat info = {0};
    char last = '\n';
    off_t end = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : 0;

    while (end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n')
        end--;
    if (end < info.st_size)
        (void)!ftruncate(fd, end);
}

/* ---- Paths and folders --------------------------------------------------------------------- */

bool dt_path_ends(const char *path, const char *suffix)
{
    const size_t n = strlen(path), m = strlen(suffix);
    return n >= m && strcmp(path + n - m, suffix) == 0;
}

bool dt_path_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool dt_path_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool dt_path_taken(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

const char *dt_path_moved(const char *path)
{
    const char *from = strstr(path, "/./");

    return from && !dt_path_exists(path) && dt_path_exists(from + 3) ? from + 3 : path;
}

bool dt_path_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

dt_status dt_folder_sync(int fd, const char *shown)
{
    if (dt_fd_sync(fd) != 0)
        return dt_fail(DT_IO, "cannot sync folder %s: %s", shown, strerror(errno));
    return DT_OK;
}

dt_status dt_folder_sync_above(int folder, const char *name)
{
    char copy[PATH_MAX];

    if (strlen(name) >= sizeof copy)
        return dt_fail(DT_CANTCREATE, "%.200s...: the path is too long", name);
    memcpy(copy, name, strlen(name) + 1);
    const char *above = dirname(copy);
    const int fd = openat(folder, above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES)
        return DT_OK;
    if (fd < 0)
        return dt_fail(DT_IO, "cannot open the folder of %s to sync it: %s", name, strerror(errno));
    const dt_status st = dt_folder_sync(fd, above);
    close(fd);
    return st;
}

dt_status dt_path_join(char *out, const char *a, const char *b)
{
    const int n = snprintf(out, PATH_MAX, "%s/%s", a, b);
    if (n < 0 || n >= PATH_MAX)
        return dt_fail(DT_CANTCREATE, "%.200s...: the path is too long", a);
    return DT_OK;
}

dt_status dt_parents_make(const char *path)
{
    char part[PATH_MAX];

    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0777) == 0)
            DT_TRY(dt_folder_sync_above(AT_FDCWD, part));
        else if (errno != EEXIST)
            return dt_fail(errno == ENOSPC || errno == EDQUOT ? DT_IO : DT_CANTCREATE,
                           "cannot make folder %s: %s; choose another place", part,
                           strerror(errno));
        *slash = '/';
    }
    return DT_OK;
}

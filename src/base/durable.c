/* durable.c - files and folders that are on disk when a call returns. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* With errno. A limit of the process, or a folder that is missing, is mended elsewhere than on
 * the disk. */
static dt_status outfile_error(const dt_outfile *f, dt_status code, const char *what)
{
    const bool full = errno == ENOSPC || errno == EDQUOT;
    const char *remedy = full ? "free space or choose another --out" : "choose another --out";
    struct rlimit limit;

    if (errno == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < f->size) {
        code = DT_NOMEM;
        remedy = "raise the limit of a file's size (ulimit -f)";
    } else if (errno == ENOENT)
        remedy = "make the folder that it is to be in, or choose another --out";
    return dt_fail(code, "cannot write %s (%llu bytes), %s: %s; %s", f->name,
                   (unsigned long long)f->size, what, strerror(errno), remedy);
}

bool dt_path_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool dt_path_taken(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

dt_status dt_outfile_check(const char *path)
{
    struct stat info;

    if (lstat(path, &info) != 0 || S_ISREG(info.st_mode))
        return DT_OK; /* what else is wrong with the path, opening it will tell */
    return dt_fail(DT_CANTCREATE,
                   "cannot write %s: there is a %s, not a file, and it is left "
                   "alone; choose another --out",
                   path,
                   S_ISDIR(info.st_mode)   ? "folder"
                   : S_ISLNK(info.st_mode) ? "link"
                                           : "device, pipe or socket");
}

/* Blocks that were reserved for just this size are used as they lie: to cut the file would
 * give them back. */
static dt_status outfile_room(dt_outfile *f)
{
    struct stat info;

    if (fstat(f->fd, &info) != 0)
        return outfile_error(f, DT_IO, "looking at it");
    if ((uint64_t)info.st_size != f->size && info.st_size > 0 && ftruncate(f->fd, 0) != 0)
        return outfile_error(f, DT_IO, "emptying");
    if (f->size > 0 && fallocate(f->fd, 0, 0, (off_t)f->size) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
        return outfile_error(f, DT_IO, "reserving room");
    return DT_OK;
}

dt_status dt_outfile_open(dt_outfile *f, const char *path, const char *name, uint64_t size)
{
    *f = (dt_outfile){.name = name, .fd = -1, .size = size};
    if (strlen(path) >= sizeof f->path)
        return dt_fail(DT_CANTCREATE, "cannot write %.200s...: the path is too long", path);
    DT_TRY(dt_outfile_check(path));
    DT_TRY(dt_hash_open(&f->hash));
    f->fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (f->fd < 0)
        return outfile_error(
            f, errno == ENOSPC || errno == EDQUOT || errno == EIO ? DT_IO : DT_CANTCREATE,
            "opening");
    snprintf(f->path, sizeof f->path, "%s", path);
    return outfile_room(f);
}

size_t dt_fd_write(int fd, const void *data, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        const ssize_t n = write(fd, (const char *)data + done, bytes - done);
        if (n < 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    return done;
}

dt_status dt_outfile_write(dt_outfile *f, const void *data, uint64_t bytes)
{
    dt_hash_update(f->hash, data, bytes);
    f->bytes += bytes;
    return dt_fd_write(f->fd, data, bytes) < bytes ? outfile_error(f, DT_IO, "writing") : DT_OK;
}

int dt_fd_sync(int fd)
{
    int result;
    do
        result = fsync(fd);
    while (result != 0 && errno == EINTR);
    return result;
}

dt_status dt_outfile_finish(dt_outfile *f, dt_written *w)
{
    if (f->bytes != f->size) /* room was reserved for more: the rest would be zeros */
        return dt_fail(DT_BUG, "%s: %llu bytes of %llu were written", f->name,
                       (unsigned long long)f->bytes, (unsigned long long)f->size);
    if (dt_fd_sync(f->fd) != 0)
        return outfile_error(f, DT_IO, "syncing");
    const int closed = close(f->fd);
    f->fd = -1;
    if (closed != 0)
        return outfile_error(f, DT_IO, "closing");
    if (w)
        *w = (dt_written){f->bytes, dt_hash_digest(f->hash)};
    f->path[0] = '\0';
    return DT_OK;
}

void dt_outfile_abandon(dt_outfile *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->path[0])
        unlink(f->path);
    dt_hash_close(f->hash);
    *f = (dt_outfile){.fd = -1};
}

/* Where the file system reserves nothing, zeros do. */
static dt_status outfile_fill(dt_outfile *f)
{
    static const char zeros[1 << 16];
    struct stat info;

    if (fstat(f->fd, &info) != 0)
        return outfile_error(f, DT_IO, "looking at it");
    if ((uint64_t)info.st_size == f->size)
        return DT_OK;
    while (f->bytes < f->size) {
        const uint64_t left = f->size - f->bytes;
        DT_TRY(dt_outfile_write(f, zeros, left < sizeof zeros ? left : sizeof zeros));
    }
    return DT_OK;
}

dt_status dt_outfile_reserve(const char *path, const char *name, uint64_t size)
{
    dt_outfile f = {.fd = -1};
    dt_status st = DT_OK;

    DT_GO(st, dt_outfile_open(&f, path, name, size), out);
    DT_GO(st, outfile_fill(&f), out);
    f.path[0] = '\0'; /* it stays */

out:
    dt_outfile_abandon(&f);
    return st;
}

dt_status dt_outfile_put(const char *path, const void *data, uint64_t bytes, dt_written *w)
{
    dt_outfile f = {.fd = -1};
    dt_status st = DT_OK;

    DT_GO(st, dt_outfile_open(&f, path, path, bytes), out);
    DT_GO(st, dt_outfile_write(&f, data, bytes), out);
    st = dt_outfile_finish(&f, w);

out:
    dt_outfile_abandon(&f);
    return st;
}

dt_status dt_folder_sync(const char *path)
{
    dt_status st = DT_OK;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return dt_fail(DT_IO, "cannot open folder %s to sync it: %s", path, strerror(errno));
    if (dt_fd_sync(fd) != 0 && errno != EINVAL)
        st = dt_fail(DT_IO, "cannot sync folder %s: %s", path, strerror(errno));
    if (close(fd) != 0 && st == DT_OK)
        st = dt_fail(DT_IO, "cannot close folder %s: %s", path, strerror(errno));
    return st;
}

dt_status dt_folder_sync_above(const char *path)
{
    char copy[PATH_MAX];

    if (strlen(path) >= sizeof copy)
        return dt_fail(DT_CANTCREATE, "%.200s...: the path is too long", path);
    snprintf(copy, sizeof copy, "%s", path);
    return dt_folder_sync(dirname(copy));
}

dt_status dt_path_join(char *out, const char *a, const char *b)
{
    const int n = snprintf(out, PATH_MAX, "%s/%s", a, b);
    if (n < 0 || n >= PATH_MAX)
        return dt_fail(DT_CANTCREATE, "%.200s...: the path is too long", a);
    return DT_OK;
}

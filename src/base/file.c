/* file.c - what several folders do with files and descriptors. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *dt_open_error(void)
{
    return errno == ELOOP ? "it is a link" : strerror(errno);
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* ENXIO is a socket's. */
static dt_status open_failed(const char *name)
{
    static const int absent[] = {ENOENT, ENOTDIR, ELOOP, EISDIR, ENXIO, EACCES, ENAMETOOLONG};

    for (size_t i = 0; i < DT_COUNT_OF(absent); i++)
        if (errno == absent[i])
            return dt_fail(DT_NOINPUT, "%s: %s", name, dt_open_error());
    return dt_fail(DT_IO, "%s: %s", name, strerror(errno));
}

dt_status dt_file_open(int folder, const char *name, int *fd, int64_t *bytes)
{
    const int links = folder == AT_FDCWD ? 0 : O_NOFOLLOW;
    struct stat info = {0};
    /* O_NONBLOCK: opening a FIFO would wait for its writer. */
    const int opened = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | links);

    if (opened < 0)
        return open_failed(name);
    if (fstat(opened, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(opened);
        return dt_fail(DT_NOINPUT, "%s: is %s, expected a regular file", name,
                       S_ISDIR(info.st_mode) ? "a folder" : "a pipe, socket or device");
    }
    *fd = opened;
    *bytes = info.st_size;
    return DT_OK;
}

dt_status dt_file_read_at(int fd, const char *name, int64_t offset, void *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const int64_t at = offset + (int64_t)done;
        const ssize_t n = pread(fd, (char *)to + done, bytes - done, at);
        if (n < 0 && errno != EINTR)
            return dt_fail(DT_IO, "%s: reading byte %lld: %s", name, (long long)at,
                           strerror(errno));
        if (n == 0)
            return dt_fail(DT_FORMAT, "%s: ends at byte %lld, expected %zu more", name,
                           (long long)at, bytes - done);
        done += n > 0 ? (size_t)n : 0;
    }
    return DT_OK;
}

dt_status dt_file_read(int folder, const char *name, size_t most, char **text, size_t *length)
{
    int64_t bytes = 0;
    char *all = NULL;
    int fd = -1;

    DT_TRY(dt_file_open(folder, name, &fd, &bytes));
    dt_status st = (uint64_t)bytes > most
                       ? dt_fail(DT_FORMAT, "%s: has %lld bytes, at most %zu are expected", name,
                                 (long long)bytes, most)
                       : dt_calloc(&all, (size_t)bytes + 1, 1, name);
    if (st == DT_OK)
        st = dt_file_read_at(fd, name, 0, all, (size_t)bytes);
    close(fd);
    if (st != DT_OK) {
        free(all);
        return st;
    }
    *text = all;
    if (length)
        *length = (size_t)bytes;
    return DT_OK;
}

bool dt_append(int fd, const char *text, size_t bytes)
{
    const size_t done = dt_fd_write(fd, text, bytes);
    const int error = errno;
    const off_t end = done > 0 ? lseek(fd, 0, SEEK_CUR) : 0;
    struct stat info;

    if (done == bytes)
        return true;
    /* unless another thread has written behind it */
    if (done > 0 && fstat(fd, &info) == 0 && info.st_size == end)
        (void)!ftruncate(fd, end - (off_t)done);
    errno = error;
    return false;
}

void dt_append_mend(int fd)
{
    struct stat info;
    char last = '\n';
    off_t end = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : 0;

    while (end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n')
        end--;
    if (end < info.st_size)
        (void)!ftruncate(fd, end);
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

int dt_lend(int fd, dt_lent *l)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return errno;
    *l = (dt_lent){
        .pid = getpid(), .fd = fd, .device = (uint64_t)info.st_dev, .inode = (uint64_t)info.st_ino};
    return 0;
}

/* Looked at before it is opened: among containers the number may be another process's. */
int dt_borrow(const dt_lent *l, int *fd)
{
    char path[64];
    struct stat info;

    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)l->pid, (long long)l->fd);
    if (stat(path, &info) != 0)
        return errno;
    if ((uint64_t)info.st_dev != l->device || (uint64_t)info.st_ino != l->inode)
        return ESRCH;
    *fd = open(path, O_RDWR | O_CLOEXEC);
    return *fd < 0 ? errno : 0;
}

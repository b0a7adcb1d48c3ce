/* file.c - files that are read. */
#include "base.h"

const char *dt_open_error(void)
{
    return errno == ELOOP ? "it is a link" : strerror(errno);
}

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

dt_status dt_file_text(const char *name, size_t most, char **text, size_t *length)
{
    DT_TRY(dt_file_read(AT_FDCWD, name, most, text, length));
    char *to = *text, *end = *text + *length;
    for (const char *at = *text + 3 * (strncmp(*text, "\xef\xbb\xbf", 3) == 0); at < end; at++)
        if (at[0] != '\r' || at[1] != '\n')
            *to++ = *at;
    *to = '\0';
    *length = (size_t)(to - *text);
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

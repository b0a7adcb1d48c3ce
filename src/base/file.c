/* file.c - what several folders do with descriptors. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

const char *dt_open_error(void)
{
    return errno == ELOOP ? "it is a link" : strerror(errno);
}

int64_t dt_read_until(int fd, void *to, size_t bytes)
{
    size_t have = 0;

    for (ssize_t n = 1; n != 0 && have < bytes;) {
        n = read(fd, (char *)to + have, bytes - have);
        if (n < 0 && errno != EINTR)
            return -1;
        have += n > 0 ? (size_t)n : 0;
    }
    return (int64_t)have;
}

bool dt_append(int fd, const char *text, size_t bytes)
{
    struct stat info;
    const ssize_t n = write(fd, text, bytes);
    const off_t end = n > 0 ? lseek(fd, 0, SEEK_CUR) : 0;

    if (n == (ssize_t)bytes)
        return true;
    /* unless another thread has written behind it */
    if (n > 0 && fstat(fd, &info) == 0 && info.st_size == end)
        (void)!ftruncate(fd, end - n);
    if (n >= 0)
        errno = ENOSPC;
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

dt_status dt_parents_make(const char *path, dt_status (*make)(const char *folder))
{
    char part[PATH_MAX];

    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (make)
            DT_TRY(make(part));
        else
            (void)mkdir(part, 0777);
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

/* input.c - open and read regular files; errors name file, place and cause. */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

dt_status dt_input_path(char *path, const char *folder, const char *name)
{
    const int n = snprintf(path, DT_PATH_BYTES, "%s/%s", folder, name);
    if (n < 0 || n >= DT_PATH_BYTES)
        return dt_fail(DT_NOINPUT,
                       "path '%.60s...' has more than %d characters: use a shorter "
                       "one",
                       folder, DT_PATH_BYTES - 1);
    return DT_OK;
}

dt_status dt_input_open(int *fd, const char *path, int64_t *bytes)
{
    struct stat about = {0};
    /* O_NONBLOCK: opening a FIFO without a writer would wait for ever. */
    const int opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (opened < 0)
        return dt_fail(DT_NOINPUT, "cannot open '%s': %s", path, strerror(errno));
    if (fstat(opened, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(opened);
        return dt_fail(DT_NOINPUT, "'%s' is %s, expected a regular file", path,
                       S_ISDIR(about.st_mode) ? "a folder" : "a pipe, socket or device");
    }
    *fd = opened;
    *bytes = about.st_size;
    return DT_OK;
}

dt_status dt_input_read(int fd, const char *path, int64_t offset, void *to, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        const int64_t at = offset + (int64_t)done;
        const ssize_t got = pread(fd, (char *)to + done, bytes - done, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dt_fail(DT_IO, "cannot read '%s' at byte %lld: %s", path, (long long)at,
                           strerror(errno));
        if (got == 0)
            return dt_fail(DT_FORMAT,
                           "'%s' ends at byte %lld, expected %lld more: it became "
                           "shorter while it was read",
                           path, (long long)at, (long long)(bytes - done));
        done += (size_t)got;
    }
    return DT_OK;
}

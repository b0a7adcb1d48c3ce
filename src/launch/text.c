/* text.c - files that say which hosts there are: read by strangers' hands, so none is waited for,
 * and none fills the memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch_internal.h"

enum { TEXT_BYTES = 4 << 20 };

static dt_status read_all(int fd, const char *path, char **text, size_t *length)
{
    DT_TRY(dt_calloc(text, TEXT_BYTES + 2, 1, "the names of hosts"));
    const int64_t n = dt_read_until(fd, *text, TEXT_BYTES + 1);
    if (n < 0)
        return dt_fail(DT_NOINPUT, "reading %s: %s", path, strerror(errno));
    *length = (size_t)n;
    return *length <= TEXT_BYTES
               ? DT_OK
               : dt_fail(DT_CONFIG, "%s is longer than %d bytes", path, (int)TEXT_BYTES);
}

/* O_NONBLOCK: opening a FIFO would wait for its writer. */
dt_status dt_text_read(const char *path, char **text, size_t *length)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    dt_status st = DT_OK;

    *text = NULL;
    *length = 0;
    if (fd < 0 || fstat(fd, &info) != 0)
        st = dt_fail(DT_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        st = dt_fail(DT_NOINPUT, "%s %s, want a file", path,
                     S_ISDIR(info.st_mode) ? "is a folder" : "is no regular file");
    else
        st = read_all(fd, path, text, length);
    if (fd >= 0)
        close(fd);
    return st;
}

/* checkpoint_file.c - the files of a checkpoint. */
#include "checkpoint_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const dt_checkpoint_file_name[DT_CHECKPOINT_FILES] = {
#define X(name, text) text,
    DT_CHECKPOINT_FILE_LIST(X)
#undef X
};

dt_status dt_checkpoint_blame(void)
{
    static const int absent[] = {ENOENT, ENOTDIR, ELOOP, EISDIR, ENXIO}; /* ENXIO: of a socket */

    for (size_t i = 0; i < DT_COUNT_OF(absent); i++)
        if (errno == absent[i])
            return DT_FORMAT;
    return DT_IO;
}

dt_status dt_checkpoint_file_read(const char *folder, const char *name, char *out, size_t room,
                                  size_t *length)
{
    char path[PATH_MAX];
    struct stat info;
    size_t used = 0;
    dt_status st = DT_OK;

    DT_TRY(dt_path_join(path, folder, name));
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return dt_fail(dt_checkpoint_blame(), "checkpoint %s: %s: %s", folder, name,
                       dt_open_error());
    if (fstat(fd, &info) != 0) {
        st = dt_fail(DT_IO, "checkpoint %s: %s: %s", folder, name, strerror(errno));
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        st = dt_fail(DT_FORMAT, "checkpoint %s: %s is no regular file", folder, name);
        goto out;
    }
    const int64_t n = dt_read_until(fd, out, room);
    used = (size_t)DT_MAX(n, 0);
    if (n < 0)
        st = dt_fail(DT_IO, "checkpoint %s: reading %s: %s", folder, name, strerror(errno));
    else if (used == room)
        st = dt_fail(DT_FORMAT, "checkpoint %s: %s has %zu bytes or more: damaged", folder, name,
                     room);
    else
        out[used] = '\0';
    if (length)
        *length = used;

out:
    close(fd);
    return st;
}

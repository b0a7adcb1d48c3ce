/* durable.h - files and folders that are on disk when a call returns; private to
 * src/store. Plain system calls, every result looked at; the order of calls is the
 * caller's. All functions are Local. */
#ifndef DT_DURABLE_H
#define DT_DURABLE_H
#include "store.h"

#include <sys/stat.h>

typedef struct dt_outfile {
    char path[PATH_MAX]; /* "": there is nothing to remove */
    const char *name;    /* borrowed; what messages call the file */
    int fd;              /* -1: closed */
    uint64_t size;       /* announced */
    uint64_t bytes;      /* written so far */
    dt_hash *hash;       /* owned */
} dt_outfile;

/* Make a file of mode 0644, replacing an abandoned one, never through a link or into a device.
 * Room for `size` bytes is reserved where the file system can, so that a full disk shows at
 * once; what dt_outfile_reserve has left is used. On failure, too, f is to be abandoned.
 * DT_CANTCREATE; DT_IO: the disk is full; DT_NOMEM: ulimit -f is lower. */
dt_status dt_outfile_open(dt_outfile *f, const char *path, const char *name,
                          uint64_t size) DT_MUST_CHECK;
dt_status dt_outfile_write(dt_outfile *f, const void *data, uint64_t bytes) DT_MUST_CHECK;
/* Sync and close; w may be NULL. The file stays when f is abandoned afterwards. */
dt_status dt_outfile_finish(dt_outfile *f, dt_written *w) DT_MUST_CHECK;
/* Close what is open and unlink what is not finished; a zeroed f with fd -1 is allowed. */
void dt_outfile_abandon(dt_outfile *f);
/* Leave a file of `size` bytes, whose content means nothing, for dt_outfile_open: a disk that
 * fills up meanwhile has room for it. Errors as dt_outfile_open; then there is no file. */
dt_status dt_outfile_reserve(const char *path, const char *name, uint64_t size) DT_MUST_CHECK;
/* A whole new file from memory. */
dt_status dt_outfile_put(const char *path, const void *data, uint64_t bytes,
                         dt_written *w) DT_MUST_CHECK;

/* The same for the folder that `path` lies in. */
dt_status dt_folder_sync_above(const char *path) DT_MUST_CHECK;
/* Whether two names or descriptors lead to one file. */
static inline bool dt_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}
/* All bytes, again when a signal has cut it short: those written, fewer with errno. */
size_t dt_fd_write(int fd, const void *data, size_t bytes);
/* fsync, again when a signal has cut it short. 0, or -1 with errno. */
int dt_fd_sync(int fd);

#endif

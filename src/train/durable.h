/* durable.h - files and folders that are on disk when a call returns; private to
 * src/train. Plain system calls, every result looked at; the order of calls is the
 * caller's. All functions are Local. */
#ifndef DT_DURABLE_H
#define DT_DURABLE_H
#include "train.h"
#include <limits.h>

/* What was written: length, and XXH3-128 of the bytes as they were handed over. */
typedef struct dt_written {
    uint64_t bytes;
    dt_digest digest;
} dt_written;

typedef struct dt_outfile {
    char path[PATH_MAX]; /* "": there is nothing to remove */
    const char *name;    /* borrowed; what messages call the file */
    int fd;              /* -1: closed */
    uint64_t size;       /* announced */
    uint64_t bytes;      /* written so far */
    dt_hash *hash;       /* owned */
} dt_outfile;

/* Whether a new file may take the place of what is at `path`: nothing, or a regular file.
 * DT_CANTCREATE: a folder, link, device, pipe or socket, which is left alone. */
dt_status dt_outfile_check(const char *path) DT_MUST_CHECK;
/* Make a file of mode 0644, replacing an abandoned one, never through a link or into a device.
 * Room for `size` bytes is reserved where the file system can, so that a full disk shows at
 * once; what dt_outfile_reserve has left is used. On failure, too, f is to be abandoned.
 * DT_CANTCREATE, DT_IO: the disk is full. */
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

/* The configuration file that dt_options_yaml writes. DT_NOMEM. */
dt_status dt_options_put(const char *path, const dt_options *o, dt_written *w) DT_MUST_CHECK;

/* Names made, renamed or removed in a folder are on disk only when the folder is. File
 * systems that cannot sync one say EINVAL; they order it themselves. DT_IO. */
dt_status dt_folder_sync(const char *path) DT_MUST_CHECK;
/* The same for the folder that `path` lies in. */
dt_status dt_folder_sync_above(const char *path) DT_MUST_CHECK;
/* fsync, again when a signal has cut it short. 0, or -1 with errno. */
int dt_fd_sync(int fd);

/* "a/b" into out[PATH_MAX]. DT_CANTCREATE: too long. */
dt_status dt_path_join(char *out, const char *a, const char *b) DT_MUST_CHECK;

#endif

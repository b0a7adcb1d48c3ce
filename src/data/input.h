/* input.h - reading files that may be anything; private to src/data.
 *
 * Only regular files are opened, so a FIFO or a device cannot hang a rank, and they are
 * read by pread, never mapped, so a file that shrinks is an error and not a SIGBUS. */
#ifndef DT_INPUT_H
#define DT_INPUT_H
#include "base/base.h"

enum { DT_PATH_BYTES = 4096 };

/* "folder/name" into path[DT_PATH_BYTES]; DT_NOINPUT when it does not fit. */
dt_status dt_input_path(char *path, const char *folder, const char *name) DT_MUST_CHECK;
/* Open a regular file; *bytes is its size, the caller closes *fd. DT_NOINPUT. */
dt_status dt_input_open(int *fd, const char *path, int64_t *bytes) DT_MUST_CHECK;
/* Exactly `bytes` bytes from `offset`; DT_IO; DT_FORMAT when the file ends before. */
dt_status dt_input_read(int fd, const char *path, int64_t offset, void *to,
                        size_t bytes) DT_MUST_CHECK;
#endif

/* recorder.c - logs every call that changes files below RECORD_ROOT into RECORD_LOG, and
 * what goes to stdout, in the order of execution.
 *
 * DROP_FSYNC=n: the n-th fsync, fdatasync or sync of the process (from 1) is neither
 * performed nor logged, and reports success: the program as it would be without it. */
#include "record.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int log_fd = -1;
static long drop, syncs;

void shim_start(void)
{
    const char *path = getenv("RECORD_LOG"), *n = getenv("DROP_FSYNC");

    if (!path || (log_fd = shim_open_log(path)) < 0)
        return;
    drop = n ? strtol(n, NULL, 10) : 0;
    shim_take_stdout();
}

static void append(record r, const char *path, const char *other, const void *data)
{
    if (log_fd < 0)
        return;
    r.magic = RECORD_MAGIC;
    r.path_bytes = (uint32_t)strlen(path);
    r.other_bytes = other ? (uint32_t)strlen(other) : 0;
    shim_append(log_fd, &r, sizeof r);
    shim_append(log_fd, path, r.path_bytes);
    if (other)
        shim_append(log_fd, other, r.other_bytes);
    if (r.data_bytes)
        shim_append(log_fd, data, r.data_bytes);
}

int shim_before(const shim_op *op)
{
    const bool sync = op->call == SHIM_FSYNC || op->call == SHIM_FDATASYNC || op->call == SHIM_SYNC;
    return sync && ++syncs == drop ? SHIM_SKIP : SHIM_PERFORM;
}

void shim_after(const shim_op *op)
{
    const int saved = errno;
    append((record){.call = op->call,
                    .data_bytes = op->data ? op->size : 0,
                    .offset = op->offset,
                    .made = op->made,
                    .emptied = op->emptied},
           op->path, op->other, op->data);
    errno = saved;
}

void shim_stdout(const void *data, size_t size)
{
    append((record){.call = RECORD_MARK, .data_bytes = size}, "", NULL, data);
}

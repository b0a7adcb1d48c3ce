/* metrics.c - metrics.jsonl as a file: is it whole, and lines of steps that are undone. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first `bytes` of a file: a device has no end. */
static bool copy_bytes(int from, int to, int64_t bytes)
{
    static char block[1 << 16];
    off_t at = 0;

    while (at < bytes) {
        const int64_t left = bytes - at, room = (int64_t)sizeof block;
        const ssize_t n = pread(from, block, (size_t)(left < room ? left : room), at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || dt_fd_write(to, block, (size_t)n) < (size_t)n)
            return false;
        at += n;
    }
    return dt_fd_sync(to) == 0;
}

/* Nothing, or whole lines, in the first `bytes`. */
static dt_status check_cut(int fd, const char *path, int64_t bytes)
{
    struct stat info;
    char last = '\n';

    if (fstat(fd, &info) != 0)
        return dt_fail(DT_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return dt_fail(DT_FORMAT, "%s is no regular file; choose another --out", path);
    if (info.st_size < bytes)
        return dt_fail(DT_FORMAT,
                       "%s has %lld bytes, the checkpoint was saved with %lld: lines are "
                       "lost; choose another --out, or go on without them: move the file away",
                       path, (long long)info.st_size, (long long)bytes);
    if (bytes > 0 && pread(fd, &last, 1, (off_t)bytes - 1) != 1)
        return dt_fail(DT_IO, "%s: reading byte %lld: %s", path, (long long)bytes - 1,
                       strerror(errno));
    if (last != '\n')
        return dt_fail(DT_FORMAT,
                       "%s: no line ends at byte %lld, where the checkpoint was saved: it "
                       "was changed since; choose another --out, or move the file away",
                       path, (long long)bytes);
    return DT_OK;
}

dt_status dt_metrics_check(const char *path, int64_t *bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0 && errno == ENOENT) {
        if (*bytes > 0)
            dt_warn("%s is missing: a new one begins, without the lines before", path);
        *bytes = 0;
        return DT_OK;
    }
    if (fd < 0)
        return dt_fail(DT_NOINPUT, "cannot read %s: %s", path,
                       errno == ELOOP ? "it is a link, and a run takes none for its records"
                                      : strerror(errno));
    const dt_status st = check_cut(fd, path, *bytes);
    close(fd);
    return st;
}

/* ---- Lines of steps that are undone ------------------------------------------------------- */

/* A run's records, and those put aside: what there is of them, 0 bytes where there is none. */
typedef struct both {
    char path[PATH_MAX], aside[PATH_MAX];
    int64_t bytes, aside_bytes;
} both;

static int64_t regular_bytes(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISREG(info.st_mode) ? (int64_t)info.st_size : 0;
}

static bool find_both(both *b, const char *run)
{
    if (dt_path_join(b->path, run, "metrics.jsonl") != DT_OK ||
        dt_path_join(b->aside, run, DT_METRICS_ASIDE) != DT_OK) {
        dt_fail_clear();
        return false;
    }
    b->bytes = regular_bytes(b->path);
    b->aside_bytes = regular_bytes(b->aside);
    return true;
}

void dt_metrics_put_aside(const char *run)
{
    both b;

    if (!find_both(&b, run) || b.bytes <= b.aside_bytes)
        return;
    const int from = open(b.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    unlink(b.aside); /* emptied, it would be for all of its names */
    const int to = open(b.aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (from < 0 || to < 0 || !copy_bytes(from, to, b.bytes)) {
        dt_warn("%s cannot be kept as " DT_METRICS_ASIDE ": %s; lines of steps that are undone "
                "will be lost",
                b.path, strerror(errno));
        if (to >= 0)
            unlink(b.aside);
    } else if (dt_path_sync(run) != DT_OK) {
        dt_fail_clear();
    }
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
}

void dt_metrics_drop_aside(const char *checkpoints)
{
    char run[PATH_MAX];
    both b;

    snprintf(run, sizeof run, "%s", checkpoints);
    if (find_both(&b, dirname(run)) && b.aside_bytes > 0)
        unlink(b.aside);
}

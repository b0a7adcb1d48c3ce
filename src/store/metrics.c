/* metrics.c - one write(2) a line: stdio and jansson would take memory in a step. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Opening ---------------------------------------------------------------------------- */

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

static void copy_drop(dt_metrics *m)
{
    if (m->copy >= 0)
        close(m->copy);
    m->copy = -1;
}

/* Of a file that is cut where it stands, nothing else has the lines. */
static dt_status copy_take(dt_metrics *m)
{
    DT_TRY(dt_metrics_bytes(m, &m->bytes));
    m->copy = memfd_create("metrics.jsonl", MFD_CLOEXEC);
    if (m->copy >= 0 && !copy_bytes(m->fd, m->copy, m->bytes))
        copy_drop(m);
    return DT_OK;
}

/* After open, with errno. */
static dt_status open_failed(const char *path)
{
    const char *why = strerror(errno);
    const char *remedy = errno == EACCES
                             ? "let this user read and write it, or choose another --out"
                             : "choose another --out";

    DT_TRY(dt_outfile_check(path));
    return dt_fail(DT_CANTCREATE, "cannot open %s: %s; %s", path, why, remedy);
}

static dt_status metrics_open(dt_metrics *m, const char *path)
{
    const int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return open_failed(path);
    *m = (dt_metrics){.fd = fd, .path = path, .copy = -1};
    return DT_OK;
}

dt_status dt_metrics_open(dt_metrics *m, const char *path)
{
    DT_TRY(metrics_open(m, path));
    return copy_take(m);
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

dt_status dt_metrics_check(const char *path, int64_t *bytes, bool write)
{
    const int how = write ? O_RDWR : O_RDONLY;
    const int fd = open(path, how | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0 && errno == ENOENT) {
        if (*bytes > 0)
            dt_warn("%s is missing: a new one begins, without the lines before", path);
        *bytes = 0;
        return DT_OK;
    }
    if (fd < 0)
        return write ? open_failed(path)
                     : dt_fail(DT_NOINPUT, "cannot read %s: %s", path,
                               errno == ELOOP ? "it is a link, and a run takes none for its records"
                                              : strerror(errno));
    const dt_status st = check_cut(fd, path, *bytes);
    close(fd);
    return st;
}

dt_status dt_metrics_bytes(const dt_metrics *m, int64_t *bytes)
{
    struct stat info;

    if (fstat(m->fd, &info) != 0)
        return dt_fail(DT_IO, "%s: %s", m->path, strerror(errno));
    *bytes = (int64_t)info.st_size;
    return DT_OK;
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
    } else if (dt_folder_sync(run) != DT_OK) {
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

/* ---- A file that has lost its name, or its lines ----------------------------------------- */

/* What somebody has put in its place is not ours to remove. */
static bool displace(const char *path)
{
    enum { TRIES = 100000 };
    char aside[PATH_MAX];
    struct stat info;

    for (int k = 1; k <= TRIES; k++) {
        const int n = snprintf(aside, sizeof aside, "%s.other-%d", path, k);
        if (n < 0 || (size_t)n >= sizeof aside)
            return false;
        if (lstat(aside, &info) != 0)
            return errno == ENOENT && rename(path, aside) == 0;
    }
    return false;
}

/* The first bytes of `from`, under the run's name alone. The descriptor's number stays, for a save
 * under way has it too. */
static dt_status write_again(dt_metrics *m, int from, int64_t bytes, bool displaced,
                             const char *why)
{
    char again[PATH_MAX];
    dt_status st = DT_OK;
    const int n = snprintf(again, sizeof again, "%s.again", m->path);
    int fd = -1;

    if (n > 0 && (size_t)n < sizeof again) {
        unlink(again); /* a pipe would be waited for, and a link lead elsewhere */
        fd = open(again, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    }
    if (fd < 0 || !copy_bytes(from, fd, bytes) || (displaced && !displace(m->path)) ||
        rename(again, m->path) != 0 || dup3(fd, m->fd, O_CLOEXEC) < 0)
        st =
            dt_fail(DT_IO, "%s %s, and cannot be written again: %s", m->path, why, strerror(errno));
    if (fd >= 0)
        close(fd);
    return st;
}

/* Said once: what is lost stays lost. */
static dt_status write_lost(dt_metrics *m, int64_t left)
{
    const int64_t had = m->bytes;

    m->bytes = left;
    return dt_fail(DT_IO,
                   "%s was cut from %lld bytes to %lld while the run goes on, and there was no "
                   "memory for a copy of the lines: they are lost",
                   m->path, (long long)had, (long long)left);
}

dt_status dt_metrics_keep(dt_metrics *m, bool *again)
{
    struct stat ours, named;

    *again = false;
    if (fstat(m->fd, &ours) != 0)
        return dt_fail(DT_IO, "%s: %s", m->path, strerror(errno));
    const bool there = lstat(m->path, &named) == 0, cut = ours.st_size < m->bytes;
    if (!cut && (there ? dt_same_file(&ours, &named) : errno != ENOENT))
        return DT_OK;
    if (cut && m->copy < 0)
        return write_lost(m, (int64_t)ours.st_size);
    DT_TRY(write_again(m, cut ? m->copy : m->fd, cut ? m->bytes : (int64_t)ours.st_size,
                       there && (!cut || named.st_size > 0), "was removed, replaced or cut"));
    *again = true;
    return DT_OK;
}

/* ---- Going on ------------------------------------------------------------------------------ */

/* In a copy of the folder by hard links the records are another run's, too. */
static dt_status cut_or_part(dt_metrics *m, int64_t bytes)
{
    struct stat info;

    if (fstat(m->fd, &info) != 0)
        return dt_fail(DT_IO, "%s: %s", m->path, strerror(errno));
    if (info.st_nlink > 1)
        return write_again(m, m->fd, bytes, false, "is a hard link, which this run parts with");
    if (ftruncate(m->fd, (off_t)bytes) != 0)
        return dt_fail(DT_IO, "cannot cut %s to %lld bytes: %s", m->path, (long long)bytes,
                       strerror(errno));
    return DT_OK;
}

dt_status dt_metrics_resume(dt_metrics *m, const char *path, int64_t bytes)
{
    DT_TRY(metrics_open(m, path));
    const dt_status st = cut_or_part(m, bytes);
    if (st == DT_OK)
        return copy_take(m);
    dt_metrics_close(m);
    return st;
}

void dt_metrics_close(dt_metrics *m)
{
    if (m->path) {
        copy_drop(m);
        close(m->fd);
    }
    *m = (dt_metrics){.fd = -1, .copy = -1};
}

/* A number as JSON. */
enum { NUMBER_CHARS = 32 };
static const char *number(double x, char out[NUMBER_CHARS])
{
    if (isfinite(x))
        snprintf(out, NUMBER_CHARS, "%.9g", x);
    else
        snprintf(out, NUMBER_CHARS, "null");
    return out;
}

/* `length` as snprintf has returned it for `line`. Half a line would be none of JSON's, and
 * would stand in the way of the next. */
static dt_status append(dt_metrics *m, const char *line, int length)
{
    const size_t done = dt_fd_write(m->fd, line, (size_t)length);
    int64_t bytes = 0;

    if (done == (size_t)length) {
        if (m->copy >= 0 && dt_fd_write(m->copy, line, done) < done)
            copy_drop(m);
        m->bytes += length;
        return DT_OK;
    }
    const dt_status st =
        dt_fail(DT_IO, "writing %d bytes to %s: %s", length, m->path, strerror(errno));
    if (done > 0 && dt_metrics_bytes(m, &bytes) == DT_OK &&
        ftruncate(m->fd, (off_t)(bytes - (int64_t)done)) != 0)
        dt_warn("%s ends in a line that is not whole", m->path);
    return st;
}

dt_status dt_metrics_step(dt_metrics *m, const dt_step_record *r)
{
    char line[DT_METRICS_LINE], loss[NUMBER_CHARS], lr[NUMBER_CHARS], rate[NUMBER_CHARS];
    const int n = snprintf(line, sizeof line,
                           "{\"kind\":\"step\",\"epoch\":%lld,\"step\":%lld,"
                           "\"loss\":%s,\"lr\":%s,\"images_per_s\":%s}\n",
                           (long long)r->epoch, (long long)r->run_step, number(r->loss, loss),
                           number(r->lr, lr), number(dt_images_per_s(r->images, r->seconds), rate));
    return append(m, line, n);
}

dt_status dt_metrics_epoch(dt_metrics *m, const dt_epoch_record *r)
{
    char line[DT_METRICS_LINE], train[NUMBER_CHARS], test[NUMBER_CHARS], accuracy[NUMBER_CHARS],
        seconds[NUMBER_CHARS];
    const int n =
        snprintf(line, sizeof line,
                 "{\"kind\":\"epoch\",\"epoch\":%lld,"
                 "\"train_loss\":%s,\"test_loss\":%s,\"test_accuracy\":%s,"
                 "\"seconds\":%s}\n",
                 (long long)r->epoch, number(r->train_loss, train), number(r->test_loss, test),
                 number(dt_test_accuracy(r), accuracy), number(r->seconds, seconds));
    return append(m, line, n);
}

dt_status dt_metrics_end(dt_metrics *m, const dt_end_record *r)
{
    char line[DT_METRICS_LINE];
    const int n = snprintf(line, sizeof line,
                           "{\"kind\":\"end\",\"weights_hash\":\"%s\","
                           "\"state_hash\":\"%s\",\"steps\":%lld}\n",
                           r->weights_hash, r->state_hash, (long long)r->steps);
    return append(m, line, n);
}

/* sink_jsonl.c - metrics.jsonl in the run folder: one JSON object a line, each written whole by
 * one write(2), so that a reader may follow the file while the run goes on; stdio and jansson
 * would take memory in a step.
 *
 *   {"kind":"step","epoch":1,"step":1,"loss":..,"lr":..,"images_per_s":..}
 *   {"kind":"epoch","epoch":1,"train_loss":..,"test_loss":..,"test_accuracy":..,"seconds":..}
 *   {"kind":"end","weights_hash":"..","state_hash":"..","steps":..}
 *
 * Epochs and steps count from 1, steps over the whole run. Numbers have 9 significant digits (a
 * float32 comes back exactly); NaN and infinities, which JSON lacks, are null. */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_CHARS = 512, NUMBER_CHARS = 32 }; /* the longest line has not 300 */

typedef struct jsonl {
    int fd;
    int64_t lost; /* lines since the last that was written */
} jsonl;

/* ---- Opening ------------------------------------------------------------------------------ */

static dt_status open_failed(const dt_report_setup *u)
{
    return dt_fail(DT_CANTCREATE, "cannot open %s/metrics.jsonl: %s", u->path,
                   errno == ELOOP    ? "there is a link, not a file, and it is left alone"
                   : errno == EACCES ? "Permission denied; let this user read and write it, or "
                                       "choose another --out"
                                     : strerror(errno));
}

/* A copy of the folder by hard links shares its files with the original. */
static dt_status check_file(const dt_report_setup *u, int fd)
{
    const int64_t keep = u->keep_bytes;
    struct stat info;
    char last = '\n';

    if (fstat(fd, &info) != 0)
        return dt_fail(DT_IO, "%s/metrics.jsonl: %s", u->path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return dt_fail(DT_CANTCREATE, "%s/metrics.jsonl is no regular file; choose another --out",
                       u->path);
    if (info.st_nlink > 1)
        return dt_fail(DT_CANTCREATE,
                       "%s/metrics.jsonl is hard-linked elsewhere, where it would change, too: put "
                       "a copy in its place, or choose another --out",
                       u->path);
    if (info.st_size < keep)
        return dt_fail(DT_FORMAT,
                       "%s/metrics.jsonl has %lld bytes, the checkpoint was saved with %lld: lines "
                       "are lost; choose another --out, or move the file away to resume without "
                       "them",
                       u->path, (long long)info.st_size, (long long)keep);
    if (keep > 0 && pread(fd, &last, 1, (off_t)keep - 1) != 1)
        return dt_fail(DT_IO, "%s/metrics.jsonl: reading byte %lld: %s", u->path,
                       (long long)keep - 1, strerror(errno));
    if (last != '\n')
        return dt_fail(DT_FORMAT,
                       "%s/metrics.jsonl: no line ends at byte %lld, where the checkpoint was "
                       "saved: it was changed since; choose another --out, or move the file away",
                       u->path, (long long)keep);
    return DT_OK;
}

/* *fd is -1 where there is no such file. */
static dt_status open_old(const dt_report_setup *u, int *fd)
{
    *fd =
        openat(u->folder, "metrics.jsonl", O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0)
        return errno == ENOENT ? DT_OK : open_failed(u);
    const dt_status st = check_file(u, *fd);
    if (st != DT_OK) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

dt_status dt_report_check(const dt_report_setup *u)
{
    int fd = -1;

    DT_TRY(open_old(u, &fd));
    if (fd >= 0)
        close(fd);
    return DT_OK;
}

static dt_status jsonl_open(dt_sink *s)
{
    const dt_report_setup *u = s->setup;
    jsonl *j = s->own;

    DT_TRY(open_old(u, &j->fd));
    if (j->fd < 0) {
        if (u->keep_bytes > 0)
            dt_warn("%s/metrics.jsonl is missing: a new one begins, without the lines before",
                    u->path);
        j->fd = openat(u->folder, "metrics.jsonl", O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC,
                       0644);
        return j->fd < 0 ? open_failed(u) : DT_OK;
    }
    if (ftruncate(j->fd, (off_t)u->keep_bytes) != 0)
        return dt_fail(DT_IO, "cannot cut %s/metrics.jsonl to %lld bytes: %s", u->path,
                       (long long)u->keep_bytes, strerror(errno));
    return DT_OK;
}

static void jsonl_close(dt_sink *s)
{
    const jsonl *j = s->own;

    if (j->lost > 0)
        dt_warn("metrics.jsonl lacks its last %lld lines", (long long)j->lost);
    if (j->fd >= 0)
        close(j->fd);
}

dt_status dt_jsonl_records(const dt_sink *s, int64_t *bytes, int *fd)
{
    const jsonl *j = s->own;
    struct stat info;

    if (fstat(j->fd, &info) != 0)
        return dt_fail(DT_IO, "%s/metrics.jsonl: %s", s->setup->path, strerror(errno));
    *bytes = (int64_t)info.st_size;
    *fd = j->fd;
    return DT_OK;
}

/* ---- Lines -------------------------------------------------------------------------------- */

static const char *number(double x, char out[NUMBER_CHARS])
{
    if (isfinite(x))
        snprintf(out, NUMBER_CHARS, "%.9g", x);
    else
        snprintf(out, NUMBER_CHARS, "null");
    return out;
}

static dt_status append(dt_sink *s, const char *line, int length)
{
    jsonl *j = s->own;

    if (dt_append(j->fd, line, (size_t)length)) {
        if (j->lost > 0)
            dt_warn("metrics.jsonl is written again; it lacks %lld lines", (long long)j->lost);
        j->lost = 0;
        return DT_OK;
    }
    if (j->lost++ > 0)
        return DT_OK; /* it was said with the first one */
    return dt_fail(DT_IO, "writing %d bytes to %s/metrics.jsonl: %s", length, s->setup->path,
                   strerror(errno));
}

static dt_status jsonl_step(dt_sink *s, const dt_step_record *r)
{
    char line[LINE_CHARS], loss[NUMBER_CHARS], lr[NUMBER_CHARS], rate[NUMBER_CHARS];
    const int n = snprintf(line, sizeof line,
                           "{\"kind\":\"step\",\"epoch\":%lld,\"step\":%lld,"
                           "\"loss\":%s,\"lr\":%s,\"images_per_s\":%s}\n",
                           (long long)r->epoch, (long long)r->run_step, number(r->loss, loss),
                           number(r->lr, lr), number(dt_images_per_s(r->images, r->seconds), rate));
    return append(s, line, n);
}

static dt_status jsonl_epoch(dt_sink *s, const dt_epoch_record *r)
{
    char line[LINE_CHARS], train[NUMBER_CHARS], test[NUMBER_CHARS], accuracy[NUMBER_CHARS],
        seconds[NUMBER_CHARS];
    const int n =
        snprintf(line, sizeof line,
                 "{\"kind\":\"epoch\",\"epoch\":%lld,"
                 "\"train_loss\":%s,\"test_loss\":%s,\"test_accuracy\":%s,"
                 "\"seconds\":%s}\n",
                 (long long)r->epoch, number(r->train_loss, train), number(r->test_loss, test),
                 number(dt_test_accuracy(r), accuracy), number(r->seconds, seconds));
    return append(s, line, n);
}

static dt_status jsonl_end(dt_sink *s, const dt_end_record *r)
{
    char line[LINE_CHARS];

    if (!r->ok)
        return DT_OK;
    return append(s, line,
                  snprintf(line, sizeof line,
                           "{\"kind\":\"end\",\"weights_hash\":\"%s\","
                           "\"state_hash\":\"%s\",\"steps\":%lld}\n",
                           r->weights_hash, r->state_hash, (long long)r->steps));
}

const dt_sink_row dt_sink_jsonl = {
    .name = "jsonl",
    .bytes = sizeof(jsonl),
    .open = jsonl_open,
    .step = jsonl_step,
    .epoch = jsonl_epoch,
    .end = jsonl_end,
    .close = jsonl_close,
};

/* report.c - a record goes to the log style that prints it, and to metrics.jsonl in the run folder:
 * one JSON object a line, each written whole by one write(2), so that a reader may follow the file
 * while the run goes on; stdio and jansson would take memory in a step.
 *
 * docs/formats.md describes each member. Numbers have 9 significant digits (a float32 comes back
 * exactly), times milliseconds; NaN and infinities, which JSON lacks, are null. */
#include "report.h"

#include <stdarg.h>
#include <stdio_ext.h>

/* ---- Opening metrics.jsonl ------------------------------------------------------------------ */

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
    const long long keep = u->keep_bytes;
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
    if (keep > 0 && (pread(fd, &last, 1, (off_t)keep - 1) != 1 || last != '\n'))
        return dt_fail(DT_FORMAT,
                       "%s/metrics.jsonl has %lld bytes, but no line ends at byte %lld, where the "
                       "checkpoint was saved: lines are lost or changed; choose another --out, or "
                       "move the file away to resume without them",
                       u->path, (long long)info.st_size, keep);
    return DT_OK;
}

/* *fd is -1 where there is no such file. */
static dt_status open_old(const dt_report_setup *u, int *fd)
{
    *fd = openat(u->folder, "metrics.jsonl",
                 (u->reads ? O_RDONLY : O_RDWR | O_APPEND) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0)
        return errno == ENOENT ? DT_OK : open_failed(u);
    const dt_status st = check_file(u, *fd);
    if (st != DT_OK)
        close(*fd);
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

static dt_status open_metrics(dt_report_setup *u, int *fd)
{
    DT_TRY(open_old(u, fd));
    if (*fd < 0) {
        if (u->keep_bytes > 0)
            dt_warn("%s/metrics.jsonl is missing: a new one begins, without the lines before",
                    u->path);
        u->keep_bytes = 0; /* a new file has nothing to keep */
        *fd = openat(u->folder, "metrics.jsonl", O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC,
                     0666);
        return *fd < 0 ? open_failed(u) : DT_OK;
    }
    if (ftruncate(*fd, (off_t)u->keep_bytes) == 0)
        return DT_OK;
    close(*fd);
    return dt_fail(DT_IO, "cannot cut %s/metrics.jsonl to %lld bytes: %s", u->path,
                   (long long)u->keep_bytes, strerror(errno));
}

dt_status dt_report_open(dt_report *r, const char *style, const dt_report_setup *setup)
{
    *r = (dt_report){.setup = *setup};
    for (int i = 0; i < DT_STYLES && dt_styles[i]; i++)
        r->style = strcmp(style, dt_styles[i]->name) == 0 ? dt_styles[i] : r->style;
    const dt_status st = setup->path ? open_metrics(&r->setup, &r->metrics) : DT_OK;
    if (st != DT_OK)
        *r = (dt_report){.style = NULL};
    return st;
}

void dt_report_close(dt_report *r)
{
    if (r->lost > 0)
        dt_warn("metrics.jsonl lacks its last %lld lines", (long long)r->lost);
    if (r->setup.path)
        close(r->metrics);
    *r = (dt_report){.style = NULL};
}

dt_status dt_report_records(const dt_report *r, int64_t *bytes, int *fd)
{
    struct stat info;

    if (fstat(r->metrics, &info) != 0)
        return dt_fail(DT_IO, "%s/metrics.jsonl: %s", r->setup.path, strerror(errno));
    *bytes = (int64_t)info.st_size;
    *fd = r->metrics;
    return DT_OK;
}

/* ---- Lines of metrics.jsonl ------------------------------------------------------------------ */

enum { NUMBER_CHARS = 32, MOST_CLASSES = 1000 };
#define NUMBER(x) number(x, (char[NUMBER_CHARS]){""})
static const char *number(double x, char out[NUMBER_CHARS])
{
    snprintf(out, NUMBER_CHARS, isfinite(x) ? "%.9g" : "null", x);
    return out;
}

/* Add to the line. */
static void say(dt_report *r, const char *fmt, ...) DT_PRINTF(2, 3);
static void say(dt_report *r, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    const int n = vsnprintf(r->line + r->used, sizeof r->line - r->used, fmt, args);
    r->used = DT_MIN(r->used + (size_t)n, sizeof r->line - 1);
    va_end(args);
}

static dt_status append(dt_report *r)
{
    const size_t bytes = r->used;
    const bool written = !r->setup.path || dt_append(r->metrics, r->line, bytes);

    r->used = 0; /* of the next line */
    if (written) {
        if (r->lost > 0)
            dt_warn("metrics.jsonl is written again; it lacks %lld lines", (long long)r->lost);
        r->lost = 0;
        return DT_OK;
    }
    if (r->lost++ > 0)
        return DT_OK; /* it was said with the first one */
    return dt_fail(DT_IO, "writing %zu bytes to %s/metrics.jsonl: %s", bytes, r->setup.path,
                   strerror(errno));
}

dt_status dt_report_line(dt_report *r, const char *object)
{
    say(r, "%s\n", object);
    return append(r);
}

/* ---- Records --------------------------------------------------------------------------------- */

/* A reader of what is printed that has left, or a full disk, does not end a run: one warning, and
 * nothing is printed any more. */
static void flush(dt_report *r)
{
    FILE *out = r->setup.out;

    if (!r->style || (fflush(out) == 0 && !ferror(out)))
        return;
    dt_warn("standard output cannot be written (%s): the run continues without it; its progress is "
            "in metrics.jsonl",
            strerror(errno));
    __fpurge(out); /* what lies there would be tried again, and fail, at the end */
    clearerr(out);
    r->style = NULL;
}

dt_status dt_report_step(dt_report *r, const dt_step_record *s)
{
    if (r->style)
        r->style->step(r, s);
    flush(r);
    say(r,
        "{\"kind\":\"step\",\"epoch\":%lld,\"step\":%lld,\"loss\":%s,\"loss_shard0\":%s,\"lr\":%s,"
        "\"images\":%lld,\"seconds\":%s,\"images_per_s\":%s,\"time\":%.3f}\n",
        (long long)s->epoch, (long long)s->run_step, NUMBER(s->loss), NUMBER(s->first_loss),
        NUMBER(s->lr), (long long)s->images, NUMBER(s->seconds),
        NUMBER(dt_images_per_s(s->images, s->seconds)), s->time);
    return append(r);
}

void dt_report_test(dt_report *r, int64_t done, int64_t images, double seconds)
{
    if (r->style && r->style->test)
        r->style->test(r, done, images, seconds);
    flush(r);
}

/* A class without test images has null. */
static void say_classes(dt_report *r, const dt_epoch_record *e)
{
    for (int c = 0; c < e->classes && e->classes <= MOST_CLASSES; c++) {
        const double x = (double)e->test.class_correct[c] / (double)e->test.class_images[c];
        say(r, isfinite(x) ? "%s%.4g" : "%snull", c ? "," : ",\"class_accuracy\":[", x);
    }
    say(r, "%s", e->classes > 0 && e->classes <= MOST_CLASSES ? "]" : "");
}

dt_status dt_report_epoch(dt_report *r, const dt_epoch_record *e)
{
    if (r->style && r->style->epoch)
        r->style->epoch(r, e);
    flush(r);
    say(r,
        "{\"kind\":\"epoch\",\"epoch\":%lld,\"train_loss\":%s,\"test_loss\":%s,"
        "\"test_accuracy\":%s%s",
        (long long)e->epoch, NUMBER(e->train_loss), NUMBER(e->test.loss), NUMBER(e->test.accuracy),
        e->held_out ? ",\"held_out\":true" : "");
    say_classes(r, e);
    say(r, ",\"seconds\":%s,\"time\":%.3f}\n", NUMBER(e->seconds), e->time);
    return append(r);
}

const dt_field dt_account[DT_ACCOUNTS] = {DT_ACCOUNT_LIST(DT_FIELD_OF)};

dt_status dt_report_end(dt_report *r, const dt_end_record *end)
{
    if (r->style)
        r->style->end(r, end);
    flush(r);
    if (!end->ok)
        return DT_OK;
    say(r, "{\"kind\":\"end\",\"weights_hash\":\"%s\",\"state_hash\":\"%s\",\"steps\":%lld",
        end->weights_hash, end->state_hash, (long long)end->steps);
    if (end->predicted_s > 0)
        say(r, ",\"step_s\":%.4g,\"predicted_s\":%.4g,\"predicted_data_parallel_s\":%.4g",
            end->step_s, end->predicted_s, end->whole_s);
    say(r, ",\"seconds\":%.4f", end->wall);
    for (int i = 0; i < DT_ACCOUNTS; i++)
        say(r, "%s\"%s\":%.4f", i ? "," : ",\"account_s\":{", dt_account[i].name, end->account[i]);
    say(r, "}}\n");
    return append(r);
}

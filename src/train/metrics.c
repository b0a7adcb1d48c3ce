/* metrics.jsonl, one write(2) a line: stdio and jansson would take memory in a step. */
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

dt_status dt_metrics_open(dt_metrics *m, const char *path)
{
    const int fd =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return dt_fail(DT_CANTCREATE, "cannot create %s: %s", path, strerror(errno));
    *m = (dt_metrics){fd, path};
    return DT_OK;
}

void dt_metrics_close(dt_metrics *m)
{
    if (m->path)
        close(m->fd);
    *m = (dt_metrics){-1, NULL};
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

/* `length` as snprintf has returned it for `line`. */
static dt_status append(dt_metrics *m, const char *line, int length)
{
    for (int at = 0; at < length;) {
        const ssize_t n = write(m->fd, line + at, (size_t)(length - at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_fail(DT_IO, "writing %d bytes to %s: %s", length, m->path,
                           strerror(errno));
        at += (int)n;
    }
    return DT_OK;
}

enum { LINE_CHARS = 512 }; /* the longest line has fewer than 300 */

dt_status dt_metrics_step(dt_metrics *m, const dt_step_record *r)
{
    char line[LINE_CHARS], loss[NUMBER_CHARS], lr[NUMBER_CHARS], rate[NUMBER_CHARS];
    const int n = snprintf(line, sizeof line,
                           "{\"kind\":\"step\",\"epoch\":%lld,\"step\":%lld,"
                           "\"loss\":%s,\"lr\":%s,\"images_per_s\":%s}\n",
                           (long long)r->epoch, (long long)r->run_step,
                           number(r->loss, loss), number(r->lr, lr),
                           number(dt_images_per_s(r->images, r->seconds), rate));
    return append(m, line, n);
}

dt_status dt_metrics_epoch(dt_metrics *m, const dt_epoch_record *r)
{
    char line[LINE_CHARS], train[NUMBER_CHARS], test[NUMBER_CHARS],
        accuracy[NUMBER_CHARS], seconds[NUMBER_CHARS];
    const int n = snprintf(
        line, sizeof line,
        "{\"kind\":\"epoch\",\"epoch\":%lld,"
        "\"train_loss\":%s,\"test_loss\":%s,\"test_accuracy\":%s,"
        "\"seconds\":%s}\n",
        (long long)r->epoch, number(r->train_loss, train), number(r->test_loss, test),
        number(dt_test_accuracy(r), accuracy), number(r->seconds, seconds));
    return append(m, line, n);
}

dt_status dt_metrics_end(dt_metrics *m, const dt_end_record *r)
{
    char line[LINE_CHARS];
    const int n = snprintf(line, sizeof line,
                           "{\"kind\":\"end\",\"weights_hash\":\"%s\","
                           "\"state_hash\":\"%s\",\"steps\":%lld}\n",
                           r->weights_hash, r->state_hash, (long long)r->steps);
    return append(m, line, n);
}

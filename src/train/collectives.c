/* collectives.c - the file of --comm-log: what each collective of a step carried, how long each
 * rank was in it, and for whom the others waited. */
#include "recorded.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 4096 }; /* lines of a step; more are counted */

struct dt_collectives {
    dt_comm *comm;             /* borrowed */
    int fd;                    /* rank 0's, until it cannot be written; else -1 */
    int64_t next;              /* event of the record */
    dt_event mine[MOST], *all; /* of a step; all: [world][MOST], owned, on rank 0 */
    char path[PATH_MAX];
};

int dt_collectives_last(const dt_event *all, int64_t count, int world, int64_t i)
{
    int last = 0;

    for (int r = 1; r < world; r++) {
        const dt_event *a = &all[r * count + i], *b = &all[last * count + i];
        last = a->ended - a->began < b->ended - b->began ? r : last;
    }
    return last;
}

static void put_event(FILE *f, const dt_collectives *l, int64_t step, int64_t count, int64_t i)
{
    const int world = dt_comm_world(l->comm);

    fprintf(f, "{\"step\":%lld,\"collective\":\"%s\",\"bytes\":%llu,\"seconds\":[", (long long)step,
            dt_collective_name[l->mine[i].what], (unsigned long long)l->mine[i].size);
    for (const dt_event *e = l->all + i; e < l->all + world * count; e += count)
        fprintf(f, "%s%.6f", e == l->all + i ? "" : ",", 1e-9 * (double)(e->ended - e->began));
    fprintf(f, "],\"for\":%d}\n", dt_collectives_last(l->all, count, world, i));
}

/* All lines of a step, or none. */
static bool put_step(const dt_collectives *l, int64_t step, int64_t count, int64_t more)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);

    if (!f)
        return false;
    for (int64_t i = 0; i < count; i++)
        put_event(f, l, step, count, i);
    if (more > 0)
        fprintf(f, "{\"step\":%lld,\"more\":%lld}\n", (long long)step, (long long)more);
    const bool ok = fclose(f) == 0 && dt_append(l->fd, text, length);
    free(text);
    return ok;
}

dt_status dt_collectives_step(dt_collectives *l, int64_t step)
{
    if (!l)
        return DT_OK;
    const int64_t found = dt_record_count(DT_LANE_WAIT) - l->next, count = DT_MIN(found, MOST);
    for (int64_t i = 0; i < count; i++)
        l->mine[i] = *dt_record_get(DT_LANE_WAIT, l->next + i);
    DT_TRY(dt_comm_gather(l->comm, l->mine, l->all, (size_t)count * sizeof l->mine[0]));
    const bool ok = l->fd < 0 || put_step(l, step, count, found - count);
    l->next += found;
    if (ok)
        return DT_OK;
    dt_warn("%s: %s; collectives are logged no more", l->path, strerror(errno));
    close(l->fd);
    l->fd = -1;
    return DT_OK;
}

/* Whether lines may be appended: a file that is empty, or begins as such a log does. */
static bool is_log(int fd)
{
    static const char begin[] = "{\"step\":";
    char have[sizeof begin - 1];
    struct stat info;

    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    const ssize_t n = pread(fd, have, sizeof have, 0);
    return n == 0 || (n == (ssize_t)sizeof have && memcmp(have, begin, sizeof have) == 0);
}

static dt_status open_file(dt_collectives *l)
{
    const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

    DT_TRY(dt_parents_make(l->path));
    l->fd = open(l->path, flags, 0666);
    if (l->fd < 0)
        return dt_fail(DT_CANTCREATE, "--comm-log %s: %s; name a file that can be written", l->path,
                       dt_open_error());
    if (!is_log(l->fd))
        return dt_fail(DT_CANTCREATE,
                       "--comm-log %s: this is no log of collectives, and it is left alone; name a "
                       "new file",
                       l->path);
    dt_append_mend(l->fd);
    return DT_OK;
}

dt_status dt_collectives_open(dt_collectives **l, dt_comm *c, const char *path)
{
    const size_t rows = dt_comm_rank(c) == 0 ? (size_t)dt_comm_world(c) : 0;

    DT_TRY(dt_comm_agree(c, dt_calloc(l, 1, sizeof **l, "the log of collectives")));
    (*l)->comm = c;
    (*l)->fd = -1;
    (*l)->next = dt_record_count(DT_LANE_WAIT);
    dt_record_keep();
    snprintf((*l)->path, sizeof(*l)->path, "%s", path);
    dt_status st = dt_calloc(&(*l)->all, rows * MOST + 1, sizeof *(*l)->all, "the log");
    if (st == DT_OK && dt_comm_rank(c) == 0)
        st = open_file(*l);
    return dt_comm_agree(c, st);
}

void dt_collectives_close(dt_collectives *l)
{
    if (!l)
        return;
    if (l->fd >= 0)
        close(l->fd);
    free(l->all);
    free(l);
}

/* collectives.c - the file of --comm-log: what each collective of a step carried, how long each
 * rank was in it, and for whom the others waited. */
#include "collectives.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct dt_collectives {
    dt_comm *comm; /* borrowed */
    int fd;        /* rank 0's, until it cannot be written; else -1 */
    char path[PATH_MAX];
};

static void put_record(FILE *f, const dt_comm_records *r, int world, int64_t step, int i)
{
    const double *took = r->seconds + i;
    int last = 0;

    fprintf(f, "{\"step\":%lld,\"collective\":\"%s\",\"bytes\":%zu,\"seconds\":[", (long long)step,
            r->what[i].name, r->what[i].bytes);
    for (int k = 0; k < world; k++) {
        fprintf(f, "%s%.6f", k == 0 ? "" : ",", took[(ptrdiff_t)k * r->count]);
        if (took[(ptrdiff_t)k * r->count] < took[(ptrdiff_t)last * r->count])
            last = k;
    }
    fprintf(f, "],\"for\":%d}\n", last);
}

/* All lines of a step, or none. */
static bool put_step(const dt_collectives *l, const dt_comm_records *r, int64_t step)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);

    if (!f)
        return false;
    for (int i = 0; i < r->count; i++)
        put_record(f, r, dt_comm_world(l->comm), step, i);
    if (r->more > 0)
        fprintf(f, "{\"step\":%lld,\"more\":%d}\n", (long long)step, r->more);
    const bool ok = fclose(f) == 0 && dt_append(l->fd, text, length);
    free(text);
    return ok;
}

dt_status dt_collectives_step(dt_collectives *l, int64_t step)
{
    dt_comm_records r;

    if (!l)
        return DT_OK;
    DT_TRY(dt_comm_records_take(l->comm, &r));
    if (r.count == 0 || l->fd < 0 || put_step(l, &r, step))
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
    dt_collectives *made = NULL;

    *l = NULL;
    DT_TRY(dt_comm_agree(c, dt_calloc(&made, 1, sizeof *made, "the log of collectives")));
    made->comm = c;
    made->fd = -1;
    snprintf(made->path, sizeof made->path, "%s", path);
    dt_status st = dt_comm_agree(c, dt_comm_rank(c) == 0 ? open_file(made) : DT_OK);
    if (st == DT_OK)
        st = dt_comm_records_keep(c);
    if (st == DT_OK)
        *l = made;
    else
        dt_collectives_close(made);
    return st;
}

void dt_collectives_close(dt_collectives *l)
{
    if (l && l->fd >= 0)
        close(l->fd);
    free(l);
}

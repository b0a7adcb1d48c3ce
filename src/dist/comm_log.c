/* comm_log.c - what each collective of a step carried, how long each rank was in it, and for whom.
 *
 * A rank's clock says nothing about another's, but how long each was in the same collective does:
 * whoever was in it for the shortest time came last, and the others waited for it. So the ranks
 * keep what they saw until the step's end, and then hand it to rank 0. */
#include "comm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDS = 4096 }; /* of a step; what is more is counted */

typedef struct record {
    const char *name;
    size_t bytes;
} record;

struct dt_comm_log {
    int fd; /* rank 0's, until it cannot be written; else -1 */
    char path[PATH_MAX];
    record what[RECORDS];
    double *took; /* [world][RECORDS]: seconds; the first row is mine */
    int count, more;
};

/* ---- While a step runs ---------------------------------------------------------------------- */

double dt_comm_log_begin(const dt_comm *c)
{
    return c->log ? dt_seconds() : 0;
}

static void keep(dt_comm_log *l, double took, const char *name, size_t bytes)
{
    if (l->count == RECORDS) {
        l->more++;
        return;
    }
    l->what[l->count] = (record){.name = name, .bytes = bytes};
    l->took[l->count++] = took;
}

void dt_comm_log_end(const dt_comm *c, double began, const char *name, size_t bytes)
{
    if (c->log)
        keep(c->log, dt_seconds() - began, name, bytes);
}

/* ---- At its end ----------------------------------------------------------------------------- */

static void put_record(FILE *f, const dt_comm_log *l, int world, int64_t step, int i)
{
    const double *took = l->took + i;
    int last = 0;

    fprintf(f, "{\"step\":%lld,\"collective\":\"%s\",\"bytes\":%zu,\"seconds\":[", (long long)step,
            l->what[i].name, l->what[i].bytes);
    for (int r = 0; r < world; r++) {
        fprintf(f, "%s%.6f", r == 0 ? "" : ",", took[(ptrdiff_t)r * l->count]);
        if (took[(ptrdiff_t)r * l->count] < took[(ptrdiff_t)last * l->count])
            last = r;
    }
    fprintf(f, "],\"for\":%d}\n", last);
}

/* All lines of a step, or none. */
static bool put_step(const dt_comm_log *l, int world, int64_t step)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);

    if (!f)
        return false;
    for (int i = 0; i < l->count; i++)
        put_record(f, l, world, step, i);
    if (l->more > 0)
        fprintf(f, "{\"step\":%lld,\"more\":%d}\n", (long long)step, l->more);
    const bool ok = fclose(f) == 0 && dt_append(l->fd, text, length);
    free(text);
    return ok;
}

static void write_step(dt_comm_log *l, int world, int64_t step)
{
    if (l->fd < 0 || put_step(l, world, step))
        return;
    dt_warn("%s: %s; collectives are logged no more", l->path, strerror(errno));
    close(l->fd);
    l->fd = -1;
}

/* Who is late for this message is awaited, too: it stands first among the next step's. */
dt_status dt_comm_log_step(dt_comm *c, int64_t step)
{
    dt_comm_log *l = c->log;
    const double began = dt_comm_log_begin(c);
    const int count = l ? l->count : 0; /* the same on all: they made the same calls */
    const bool root = c->rank == 0;
    MPI_Request request;

    if (count == 0)
        return DT_OK;
    if (c->world > 1) {
        DT_MPI(MPI_Igather(root ? MPI_IN_PLACE : l->took, count, MPI_DOUBLE, l->took, count,
                           MPI_DOUBLE, 0, c->all, &request));
        DT_TRY(dt_comm_wait(c, &request, 1));
    }
    const double took = dt_seconds() - began;
    write_step(l, c->world, step);
    l->count = l->more = 0;
    if (c->world > 1)
        keep(l, took, "log", (size_t)count * sizeof *l->took);
    return DT_OK;
}

/* ---- Opening -------------------------------------------------------------------------------- */

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

static dt_status open_file(dt_comm_log *l, const char *path)
{
    const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    DT_TRY(dt_parents_make(path, NULL));
    const int fd = open(path, flags, 0666);

    snprintf(l->path, sizeof l->path, "%s", path);
    if (fd < 0)
        return dt_fail(DT_CANTCREATE, "--comm-log %s: %s; name a file that can be written", path,
                       dt_open_error());
    if (is_log(fd)) {
        dt_append_mend(fd);
        l->fd = fd;
        return DT_OK;
    }
    close(fd);
    return dt_fail(DT_CANTCREATE,
                   "--comm-log %s: this is no log of collectives, and it is left alone; name a "
                   "new file",
                   path);
}

static void free_log(dt_comm_log *l)
{
    if (!l)
        return;
    if (l->fd >= 0)
        close(l->fd);
    free(l->took);
    free(l);
}

dt_status dt_comm_log_open(dt_comm *c, const char *path)
{
    const size_t rows = (size_t)(c->rank == 0 ? c->world : 1) * RECORDS;
    dt_comm_log *l = NULL;
    dt_status st = dt_calloc(&l, 1, sizeof *l, "the log of collectives");

    if (st == DT_OK) {
        l->fd = -1;
        st = dt_calloc(&l->took, rows, sizeof *l->took, "the log of collectives");
    }
    if (st == DT_OK && c->rank == 0)
        st = open_file(l, path);
    st = dt_comm_agree(c, st);
    if (st == DT_OK)
        c->log = l;
    else
        free_log(l);
    return st;
}

void dt_comm_log_close(dt_comm *c)
{
    free_log(c->log);
    c->log = NULL;
}

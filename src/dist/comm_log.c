/* comm_log.c - what each collective of a step carried, how long each rank was in it, and for whom.
 *
 * A rank's clock says nothing about another's, but how long each was in the same collective does:
 * whoever was in it for the shortest time came last, and the others waited for it. So the ranks
 * keep what they saw until the step's end, and then hand it to rank 0, in a message that is not
 * logged itself. */
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
    FILE *file; /* rank 0's, until it cannot be written */
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

void dt_comm_log_end(const dt_comm *c, double began, const char *name, size_t bytes)
{
    dt_comm_log *l = c->log;

    if (!l || l->count == RECORDS) {
        if (l)
            l->more++;
        return;
    }
    l->what[l->count] = (record){.name = name, .bytes = bytes};
    l->took[l->count++] = dt_seconds() - began;
}

/* ---- At its end ----------------------------------------------------------------------------- */

static void write_record(const dt_comm_log *l, int world, int64_t step, int i)
{
    const double *took = l->took + i;
    int last = 0;

    fprintf(l->file, "{\"step\":%lld,\"collective\":\"%s\",\"bytes\":%zu,\"seconds\":[",
            (long long)step, l->what[i].name, l->what[i].bytes);
    for (int r = 0; r < world; r++) {
        fprintf(l->file, "%s%.6f", r == 0 ? "" : ",", took[(ptrdiff_t)r * l->count]);
        if (took[(ptrdiff_t)r * l->count] < took[(ptrdiff_t)last * l->count])
            last = r;
    }
    fprintf(l->file, "],\"for\":%d}\n", last);
}

static void write_step(dt_comm_log *l, int world, int64_t step)
{
    if (!l->file)
        return;
    for (int i = 0; i < l->count; i++)
        write_record(l, world, step, i);
    if (l->more > 0)
        fprintf(l->file, "{\"step\":%lld,\"more\":%d}\n", (long long)step, l->more);
    if (fflush(l->file) == 0)
        return;
    dt_warn("%s: %s; collectives are logged no more", l->path, strerror(errno));
    fclose(l->file);
    l->file = NULL;
}

dt_status dt_comm_log_step(dt_comm *c, int64_t step)
{
    dt_comm_log *l = c->log;
    MPI_Request request;

    if (!l)
        return DT_OK;
    if (c->world > 1 && l->count > 0) { /* the same on all: they made the same calls */
        const bool root = c->rank == 0;
        DT_MPI(MPI_Igather(root ? MPI_IN_PLACE : l->took, l->count, MPI_DOUBLE, l->took, l->count,
                           MPI_DOUBLE, 0, c->all, &request));
        DT_TRY(dt_comm_wait(c, &request, 1));
    }
    write_step(l, c->world, step);
    l->count = l->more = 0;
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
    const int fd = open(path, flags, 0666);

    snprintf(l->path, sizeof l->path, "%s", path);
    if (fd < 0)
        return dt_fail(DT_CANTCREATE, "--comm-log %s: %s; name a file that can be written", path,
                       errno == ELOOP ? "it is a link" : strerror(errno));
    l->file = is_log(fd) ? fdopen(fd, "a") : NULL;
    if (l->file)
        return DT_OK;
    close(fd);
    return dt_fail(DT_CANTCREATE,
                   "--comm-log %s: this is no log of collectives, and it is left alone; name a "
                   "new file",
                   path);
}

dt_status dt_comm_log_open(dt_comm *c, const char *path)
{
    const size_t rows = (size_t)(c->rank == 0 ? c->world : 1) * RECORDS;
    dt_status st;

    st = dt_calloc(&c->log, 1, sizeof *c->log, "the log of collectives");
    if (st == DT_OK)
        st = dt_calloc(&c->log->took, rows, sizeof *c->log->took, "the log of collectives");
    if (st == DT_OK && c->rank == 0)
        st = open_file(c->log, path);
    dt_comm_log *const l = c->log;
    c->log = NULL; /* this agreement is none of a step */
    st = dt_comm_agree(c, st);
    c->log = l;
    if (st != DT_OK)
        dt_comm_log_close(c);
    return st;
}

void dt_comm_log_close(dt_comm *c)
{
    if (!c->log)
        return;
    if (c->log->file)
        fclose(c->log->file);
    free(c->log->took);
    free(c->log);
    c->log = NULL;
}

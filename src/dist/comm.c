/* comm.c - MPI's manners, what a communicator knows, and the small collectives. */
#include "comm.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* ---- MPI's manners --------------------------------------------------------------- */

dt_status dt_comm_error(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length = 0;

    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof text, "error %d", code);
    return dt_fail(DT_COMM, "%.*s: %s", (int)strcspn(call, "("), call, text);
}

dt_status dt_comm_count(size_t n, int *count)
{
    if (n > INT_MAX)
        return dt_fail(DT_UNSUPPORTED, "MPI cannot pass %zu elements at once, at most %d", n,
                       INT_MAX);
    *count = (int)n;
    return DT_OK;
}

void dt_comm_idle(const dt_comm *c, unsigned *looks)
{
    enum { CLOSE_LOOKS = 100 };
    const struct timespec nap = {.tv_nsec = 20 * 1000};

    if ((*looks)++ < CLOSE_LOOKS)
        return;
    dt_place_waits();
    if (c->crowded)
        nanosleep(&nap, NULL);
    else
        sched_yield();
}

dt_status dt_comm_wait(const dt_comm *c, MPI_Request *request, int count)
{
    int done = 0;

    for (unsigned looks = 0;; dt_comm_idle(c, &looks)) {
        DT_MPI(MPI_Testall(count, request, &done, MPI_STATUSES_IGNORE));
        if (done)
            return DT_OK;
    }
}

/* Agreement clears the record, so what is left was never agreed on. */
bool dt_comm_alone(void)
{
    return dt_fail_text()[0] != '\0';
}

void dt_comm_abort(dt_comm *c, int code)
{
    if (c->started)
        MPI_Abort(MPI_COMM_WORLD, code);
}

/* ---- What it knows ---------------------------------------------------------------- */

int dt_comm_rank(const dt_comm *c)
{
    return c->rank;
}

int dt_comm_world(const dt_comm *c)
{
    return c->world;
}

int dt_comm_node_rank(const dt_comm *c)
{
    return c->node_rank;
}

int dt_comm_node_ranks(const dt_comm *c)
{
    return c->node_ranks;
}

/* A node that is part of a machine has its ranks' share. */
int dt_comm_node_cpus(const dt_comm *c)
{
    return DT_MAX(c->machine_cpus / c->split, 1);
}

int dt_comm_nodes(const dt_comm *c)
{
    return c->nodes;
}

const char *dt_comm_version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING]; /* every call writes the same */
    int length = 0;

    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
        return "unknown MPI";
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* ---- Small collectives ----------------------------------------------------------- */

/* Non-blocking inside, so that a rank that waits leaves its core to others. */
dt_status dt_comm_barrier(dt_comm *c)
{
    const double began = dt_seconds();
    MPI_Request request;

    if (c->world == 1)
        return DT_OK;
    DT_MPI(MPI_Ibarrier(c->all, &request));
    DT_TRY(dt_comm_wait(c, &request, 1));
    dt_comm_record_end(c, began, "barrier", 0);
    return DT_OK;
}

dt_status dt_comm_bcast(dt_comm *c, void *data, size_t bytes, int root)
{
    const size_t most = (size_t)1 << 30; /* one message */
    const double began = dt_seconds();
    MPI_Request request;
    char *at = data;
    int count = 0;

    if (c->world == 1)
        return DT_OK;
    for (size_t left = bytes; left > 0; left -= (size_t)count, at += count) {
        DT_TRY(dt_comm_count(DT_MIN(left, most), &count));
        DT_MPI(MPI_Ibcast(at, count, MPI_BYTE, root, c->all, &request));
        DT_TRY(dt_comm_wait(c, &request, 1));
    }
    dt_comm_record_end(c, began, "broadcast", bytes);
    return DT_OK;
}

static dt_status comm_reduce(dt_comm *c, void *x, size_t n, MPI_Datatype type, MPI_Op op)
{
    const double began = dt_seconds();
    MPI_Request request;
    int count = 0;

    if (c->world == 1)
        return DT_OK;
    DT_TRY(dt_comm_count(n, &count));
    DT_MPI(MPI_Iallreduce(MPI_IN_PLACE, x, count, type, op, c->all, &request));
    DT_TRY(dt_comm_wait(c, &request, 1));
    dt_comm_record_end(c, began, "agreement", n * sizeof(int64_t));
    return DT_OK;
}

dt_status dt_comm_sum_i64(dt_comm *c, int64_t *x, size_t count)
{
    return comm_reduce(c, x, count, MPI_INT64_T, MPI_SUM);
}

dt_status dt_comm_max_i64(dt_comm *c, int64_t *x, size_t count)
{
    return comm_reduce(c, x, count, MPI_INT64_T, MPI_MAX);
}

dt_status dt_comm_min_u64(dt_comm *c, uint64_t *x, size_t count)
{
    return comm_reduce(c, x, count, MPI_UINT64_T, MPI_MIN);
}

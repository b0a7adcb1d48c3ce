/* comm.c - errors and waiting, what a communicator knows, small collectives, and agreement. */
#include "comm.h"

#include <time.h>

/* ---- Errors and waiting ----------------------------------------------------------- */

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

dt_status dt_comm_message(MPI_Comm on, bool sends, const void *at, size_t count, MPI_Datatype type,
                          int other, int tag, MPI_Request *r)
{
    int n = 0;

    *r = MPI_REQUEST_NULL;
    DT_TRY(dt_comm_count(count, &n));
    if (n > 0 && sends)
        DT_MPI(MPI_Isend(at, n, type, other, tag, on, r));
    else if (n > 0)
        DT_MPI(MPI_Irecv((void *)(uintptr_t)at, n, type, other, tag, on, r));
    return DT_OK;
}

void dt_comm_idle(const dt_comm *c, unsigned *looks)
{
    enum { CLOSE_LOOKS = 100 };
    const struct timespec nap = {.tv_nsec = 20 * 1000};

    if ((*looks)++ < CLOSE_LOOKS)
        return;
    dt_activity_waits();
    if (c->own->crowded)
        nanosleep(&nap, NULL);
    else
        sched_yield();
}

dt_status dt_comm_test(MPI_Request *request, int count, bool *done)
{
    int flag = 0;

    DT_MPI(MPI_Testall(count, request, &flag, MPI_STATUSES_IGNORE));
    *done = flag != 0;
    return DT_OK;
}

dt_status dt_comm_wait(const dt_comm *c, MPI_Request *request, int count)
{
    bool done = false;

    for (unsigned looks = 0; count > 0; dt_comm_idle(c, &looks)) { /* without MPI there are none */
        DT_TRY(dt_comm_test(request, count, &done));
        if (done)
            break;
    }
    return DT_OK;
}

/* Agreement clears the record, so a record that is left was never agreed on. */
bool dt_comm_alone(void)
{
    return dt_fail_text()[0] != '\0';
}

void dt_comm_leave(dt_comm *c, MPI_Comm closed, bool torn)
{
    c->own->torn = c->own->torn || torn || c->own->lefts == DT_COMM_LEFTS;
    if (c->own->lefts < DT_COMM_LEFTS)
        c->own->left[c->own->lefts++] = closed;
}

void dt_comm_free_left(dt_comm *c, bool torn)
{
    while (c->own->lefts > 0 && !torn)
        MPI_Comm_free(&c->own->left[--c->own->lefts]);
    c->own->lefts = 0;
    c->own->torn = false;
}

void dt_comm_abort(dt_comm *c, int code)
{
    if (c->own->started)
        MPI_Abort(MPI_COMM_WORLD, code);
}

/* ---- What it knows ---------------------------------------------------------------- */

/* A node that is part of a machine has its ranks' share. */
int dt_comm_node_cpus(const dt_comm *c)
{
    return DT_MAX(c->own->machine_cpus / c->own->split, 1);
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

/* They are non-blocking inside, so that a rank that waits leaves its core to others. */
dt_status dt_comm_barrier(dt_comm *c)
{
    const int64_t began = dt_activity_clock();
    MPI_Request request;

    if (c->world == 1)
        return DT_OK;
    DT_MPI(MPI_Ibarrier(c->own->all, &request));
    DT_TRY(dt_comm_wait(c, &request, 1));
    dt_record(DT_LANE_WAIT, DT_IN_barrier, 0, began);
    return DT_OK;
}

dt_status dt_comm_bcast(dt_comm *c, void *data, size_t bytes, int root)
{
    const int64_t began = dt_activity_clock();
    MPI_Request request;
    int count = 0;

    if (c->world == 1)
        return DT_OK;
    DT_TRY(dt_comm_count(bytes, &count));
    DT_MPI(MPI_Ibcast(data, count, MPI_BYTE, root, c->own->all, &request));
    DT_TRY(dt_comm_wait(c, &request, 1));
    dt_record(DT_LANE_WAIT, DT_IN_broadcast, bytes, began);
    return DT_OK;
}

dt_status dt_comm_gather(dt_comm *c, const void *mine, void *all, size_t bytes)
{
    const int64_t began = dt_activity_clock();
    MPI_Request request;
    int count = 0;

    if (c->world == 1) {
        memcpy(all, mine, bytes);
        return DT_OK;
    }
    DT_TRY(dt_comm_count(bytes, &count));
    DT_MPI(MPI_Igather(mine, count, MPI_BYTE, all, count, MPI_BYTE, 0, c->own->all, &request));
    DT_TRY(dt_comm_wait(c, &request, 1));
    dt_record(DT_LANE_WAIT, DT_IN_gather, bytes, began);
    return DT_OK;
}

static dt_status comm_reduce(dt_comm *c, void *x, size_t n, MPI_Datatype type, MPI_Op op)
{
    const int64_t began = dt_activity_clock();
    MPI_Request request;
    int count = 0;

    if (c->world == 1)
        return DT_OK;
    DT_TRY(dt_comm_count(n, &count));
    DT_MPI(MPI_Iallreduce(MPI_IN_PLACE, x, count, type, op, c->own->all, &request));
    DT_TRY(dt_comm_wait(c, &request, 1));
    dt_record(DT_LANE_WAIT, DT_IN_agreement, n * sizeof(int64_t), began);
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

/* ---- One outcome, one message and one set of values for all ranks ------------------ */

/* What the lowest failed rank sends to the others; as long as a record can be. */
typedef struct failure {
    int32_t status;
    char host[DT_HOST_CHARS], text[8192];
} failure;

/* All ranks have the same text if the smallest key is the largest one, too. The largest is found as
 * the smallest complement, in the same message. */
static uint64_t key_of(uint64_t seed, const char *text)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    return seed * odd + dt_hash_bytes(text, strlen(text)).low;
}

/* If the text is empty on all ranks, an inner agreement has told it already. */
static dt_status failure_tell(const dt_comm *c, const failure *f, uint64_t rank, bool alike)
{
    const dt_status st = (dt_status)f->status;
    char place[DT_HOST_CHARS + 32] = "";
    const char *text = f->text[0] ? f->text : dt_status_text(st);

    if (!alike)
        snprintf(place, sizeof place, "rank %d on %s: ", (int)rank, f->host);
    if (c->own->quiet)
        return dt_fail(st, "%s%s", place, text);
    if (!alike || f->text[0])
        dt_log_write(DT_LOG_COMMON, "%s%s", place, text);
    return st;
}

void dt_comm_quiet(dt_comm *c)
{
    c->own->quiet = true;
}

dt_status dt_comm_agree(dt_comm *c, dt_status local)
{
    const char *text = local == DT_OK ? "" : dt_fail_text();
    const uint64_t key = key_of((uint64_t)local, text), world = (uint64_t)c->world;
    uint64_t x[3] = {local == DT_OK ? world : (uint64_t)c->rank, key, ~key};
    failure f = {.status = (int32_t)local};

    DT_TRY(comm_reduce(c, x, 3, MPI_UINT64_T, MPI_MIN));
    if (x[0] == world) {
        dt_fail_clear();
        return DT_OK;
    }
    snprintf(f.text, sizeof f.text, "%s", text);
    dt_host_name(f.host);
    DT_TRY(dt_comm_bcast(c, &f, sizeof f, (int)x[0]));
    dt_fail_clear();
    return failure_tell(c, &f, x[0], x[1] == ~x[2]);
}

/* One message finds out whether anything differs; only then are fields compared one by one. */
dt_status dt_comm_same(dt_comm *c, const dt_field *fields, size_t count)
{
    struct {
        uint64_t key;
        char host[DT_HOST_CHARS], value[1024];
    } mine = {.key = 0}, zero;
    const char *remedy = "; start all ranks with the same program, options and data";
    uint64_t all = 0;

    for (size_t i = 0; i < count; i++)
        all = key_of(key_of(all, fields[i].name), fields[i].value);
    uint64_t x[2] = {all, ~all};
    DT_TRY(comm_reduce(c, x, 2, MPI_UINT64_T, MPI_MIN));
    dt_host_name(mine.host);
    for (size_t i = 0; i < count && x[0] != ~x[1]; i++) {
        mine.key = key_of(key_of(0, fields[i].name), fields[i].value);
        snprintf(mine.value, sizeof mine.value, "%s", fields[i].value);
        zero = mine;
        DT_TRY(dt_comm_bcast(c, &zero, sizeof zero, 0));
        dt_status st = DT_OK;
        if (zero.key != mine.key)
            st = dt_fail(DT_MISMATCH,
                         "ranks disagree on %s: rank 0 on %s has '%s', rank %d on %s has '%s'%s",
                         fields[i].name, zero.host, zero.value, c->rank, mine.host, mine.value,
                         c->own->quiet ? "" : remedy);
        DT_TRY(dt_comm_agree(c, st));
    }
    return DT_OK;
}

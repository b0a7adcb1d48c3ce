/* post.c - messages of any length between two ranks, many under way at once. */
#include "lib.h"

#include "dist/comm.h"

enum { POST_MOST = 1 << 30 }; /* bytes of a message: MPI counts in int */

struct dt_posted {
    MPI_Request request;
    int bytes; /* that are to come; -1: it is sent */
};

static dt_status post_grow(dt_post *p)
{
    const int room = p->room ? 2 * p->room : 16;
    struct dt_posted *more = realloc(p->message, (size_t)room * sizeof *more);

    if (!more)
        return dt_fail(DT_NOMEM, "no memory for %d messages", room);
    p->message = more;
    p->room = room;
    return DT_OK;
}

dt_status dt_post_message(dt_post *p, int lane, bool sends, const void *at, size_t bytes, int other)
{
    for (size_t done = 0; done < bytes; done += POST_MOST) {
        const size_t n = DT_MIN(bytes - done, (size_t)POST_MOST);
        if (p->count == p->room)
            DT_TRY(post_grow(p));
        struct dt_posted *m = &p->message[p->count];
        DT_TRY(dt_comm_message(p->comm->own->all, sends, (const char *)at + done, n, MPI_BYTE,
                               other, DT_TAG_LANES + lane, &m->request));
        m->bytes = sends ? -1 : (int)n;
        p->count++;
    }
    return DT_OK;
}

/* MPI says of a message that is too long only that it is. */
static dt_status post_check(const dt_post *p, const struct dt_posted *m, int code,
                            MPI_Status *status)
{
    int class = MPI_SUCCESS, came = 0;

    DT_MPI(MPI_Error_class(code, &class));
    if (class != MPI_SUCCESS && class != MPI_ERR_TRUNCATE)
        return dt_comm_error(code, "MPI_Test");
    if (m->bytes < 0)
        return DT_OK;
    DT_MPI(MPI_Get_count(status, MPI_BYTE, &came));
    if (class == MPI_SUCCESS && came == m->bytes)
        return DT_OK;
    return dt_fail(DT_MISMATCH, "a message of %s%d bytes was sent to rank %d, which expects %d",
                   class == MPI_SUCCESS ? "" : "more than ", class == MPI_SUCCESS ? came : m->bytes,
                   p->comm->rank, m->bytes);
}

/* The first failure is returned, but none is left under way. */
dt_status dt_post_wait(dt_post *p)
{
    dt_status st = DT_OK;
    MPI_Status status;
    unsigned looks = 0;

    for (int i = 0, done = 0; i < p->count; i += done) {
        struct dt_posted *m = &p->message[i];
        const int code = MPI_Test(&m->request, &done, &status);
        done = done || code != MPI_SUCCESS;
        if (!done) {
            dt_comm_idle(p->comm, &looks);
            continue;
        }
        dt_activity_slice(i); /* for the watch: it goes on */
        if (st == DT_OK)
            st = post_check(p, m, code, &status);
    }
    p->count = 0;
    return st;
}

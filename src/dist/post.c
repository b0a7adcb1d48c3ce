/* post.c - messages of any length between two ranks, many under way at once. */
#include "comm.h"

#include <stdlib.h>

enum { POST_MOST = 1 << 30 }; /* bytes of a message: MPI counts in int */

struct dt_post {
    dt_comm *comm;        /* borrowed */
    MPI_Request *request; /* [room], owned, as the next two are */
    MPI_Status *status;   /* [room] */
    int *bytes;           /* [room] that are to come; -1: it is sent */
    int count, room;
};

dt_status dt_post_create(dt_post **p, dt_comm *c)
{
    DT_TRY(dt_calloc(p, 1, sizeof **p, "messages"));
    (*p)->comm = c;
    return DT_OK;
}

void dt_post_destroy(dt_post *p)
{
    if (!p)
        return;
    free(p->request);
    free(p->status);
    free(p->bytes);
    free(p);
}

static dt_status post_grow(dt_post *p)
{
    const int room = p->room ? 2 * p->room : 16;
    MPI_Request *request = realloc(p->request, (size_t)room * sizeof *request);
    p->request = request ? request : p->request;
    MPI_Status *status = realloc(p->status, (size_t)room * sizeof *status);
    p->status = status ? status : p->status;
    int *bytes = realloc(p->bytes, (size_t)room * sizeof *bytes);
    p->bytes = bytes ? bytes : p->bytes;

    if (!request || !status || !bytes)
        return dt_fail(DT_NOMEM, "no memory for %d messages", room);
    p->room = room;
    return DT_OK;
}

/* `to` NULL: it is sent. */
static dt_status post(dt_post *p, int lane, const void *from, void *to, size_t bytes, int peer)
{
    for (size_t at = 0; at < bytes; at += POST_MOST) {
        const int n = (int)DT_MIN(bytes - at, (size_t)POST_MOST), tag = DT_TAG_LANES + lane;
        if (p->count == p->room)
            DT_TRY(post_grow(p));
        if (to)
            DT_MPI(MPI_Irecv((char *)to + at, n, MPI_BYTE, peer, tag, p->comm->own->all,
                             &p->request[p->count]));
        else
            DT_MPI(MPI_Isend((const char *)from + at, n, MPI_BYTE, peer, tag, p->comm->own->all,
                             &p->request[p->count]));
        p->bytes[p->count++] = to ? n : -1;
    }
    return DT_OK;
}

dt_status dt_post_send(dt_post *p, int lane, const void *at, size_t bytes, int to)
{
    return post(p, lane, at, NULL, bytes, to);
}

dt_status dt_post_receive(dt_post *p, int lane, void *at, size_t bytes, int from)
{
    return post(p, lane, NULL, at, bytes, from);
}

/* MPI says of a message that is too long only that it is. */
static dt_status post_check(const dt_post *p, int code)
{
    for (int i = 0; i < p->count; i++) {
        int error = MPI_SUCCESS, came = 0;
        if (code == MPI_ERR_IN_STATUS)
            DT_MPI(MPI_Error_class(p->status[i].MPI_ERROR, &error));
        if (p->bytes[i] >= 0 && error == MPI_SUCCESS)
            DT_MPI(MPI_Get_count(&p->status[i], MPI_BYTE, &came));
        if (error == MPI_ERR_TRUNCATE)
            return dt_fail(DT_MISMATCH, "rank %d sent more than the %d bytes that rank %d expects",
                           p->status[i].MPI_SOURCE, p->bytes[i], p->comm->rank);
        if (p->bytes[i] >= 0 && error == MPI_SUCCESS && came != p->bytes[i])
            return dt_fail(DT_MISMATCH, "rank %d sent %d bytes, but rank %d expects %d",
                           p->status[i].MPI_SOURCE, came, p->comm->rank, p->bytes[i]);
    }
    return code == MPI_SUCCESS ? DT_OK : dt_comm_error(code, "MPI_Testall");
}

dt_status dt_post_wait(dt_post *p)
{
    int done = p->count == 0, code = MPI_SUCCESS;

    for (unsigned looks = 0; !done; dt_comm_idle(p->comm, &looks)) {
        code = MPI_Testall(p->count, p->request, &done, p->status);
        if (done || code != MPI_SUCCESS)
            break;
    }
    const dt_status st = post_check(p, code);
    p->count = 0;
    return st;
}

/* moves.c - copies between ranks. A message is of an MPI type that knows where its bytes lie:
 * nothing is packed here. Both sides list the same rectangles in the same order, so a message fits
 * its receiver by construction. */
#include "split.h"

#include "dist/comm.h"

typedef struct move_key {
    dt_rect *rect; /* [rects], in which this rank has a part; owned */
    size_t rects;
    size_t request, requests; /* messages */
    uint64_t bytes;           /* that this rank sends */
} move_key;

struct dt_moves {
    dt_comm *comm; /* borrowed */
    MPI_Comm mpi;  /* a duplicate, so that other messages are never met; owned */
    move_key *key; /* [keys], owned */
    int keys;
    size_t rects;         /* of all keys */
    MPI_Request *request; /* [requests], persistent; owned */
    size_t requests;
};

dt_status dt_moves_create(dt_moves **m, dt_comm *c, int keys)
{
    DT_TRY(dt_calloc(m, 1, sizeof **m, "moves"));
    (*m)->comm = c;
    (*m)->mpi = MPI_COMM_NULL;
    (*m)->keys = keys;
    return dt_calloc(&(*m)->key, (size_t)keys, sizeof *(*m)->key, "moves");
}

dt_status dt_moves_add(dt_moves *m, const dt_rect *r)
{
    const int rank = m->comm->rank;
    move_key *k = &m->key[r->key];

    if ((r->from != rank && r->to != rank) || r->rows * r->bytes == 0)
        return DT_OK;
    if ((k->rects & (k->rects - 1)) == 0) { /* it has room for no more than that power of two */
        dt_rect *more = realloc(k->rect, DT_MAX(2 * k->rects, 1) * sizeof *more);
        if (!more)
            return dt_fail(DT_NOMEM, "no memory for %zu moves", k->rects + 1);
        k->rect = more;
    }
    k->rect[k->rects++] = *r;
    k->bytes += r->from != r->to && r->from == rank ? r->rows * r->bytes : 0;
    m->rects++;
    return DT_OK;
}

/* ---- Sealing --------------------------------------------------------------------- */

/* A type of rectangles that this rank sends or receives, at absolute addresses. */
static dt_status message_type(const dt_rect *const *rect, int count, bool sends,
                              MPI_Datatype *whole)
{
    MPI_Datatype *part = NULL;
    MPI_Aint *at = NULL;
    int *each = NULL, parts = 0, rows = 0, bytes = 0;
    dt_status st;

    DT_GO(st, dt_calloc(&part, (size_t)count, sizeof(MPI_Datatype), "moves"), out);
    DT_GO(st, dt_calloc(&at, (size_t)count, sizeof *at, "moves"), out);
    DT_GO(st, dt_calloc(&each, (size_t)count, sizeof *each, "moves"), out);
    for (; parts < count; parts++) {
        const dt_rect *r = rect[parts];
        const size_t stride = sends ? r->from_stride : r->to_stride;
        DT_GO(st, dt_comm_count(r->rows, &rows), out);
        DT_GO(st, dt_comm_count(r->bytes, &bytes), out);
        MPI_Get_address(sends ? r->source : r->target, &at[parts]);
        each[parts] = 1;
        MPI_Type_create_hvector(rows, bytes, (MPI_Aint)stride, MPI_BYTE, &part[parts]);
    }
    MPI_Type_create_struct(parts, each, at, part, whole);
    if (MPI_Type_commit(whole) != MPI_SUCCESS)
        st = dt_fail(DT_COMM, "MPI takes no type of %d rectangles", parts);
out:
    for (int i = 0; i < parts; i++)
        MPI_Type_free(&part[i]);
    DT_FREE(part, at, each);
    return st;
}

/* The key's message to the other rank, or from it, if there is one. room: for all rectangles. */
static dt_status message_open(dt_moves *m, int key, int other, bool sends, const dt_rect **room)
{
    enum { TAGS = 32768 }; /* that any MPI has; messages of a key are started in one order */
    const int from = sends ? m->comm->rank : other, to = sends ? other : m->comm->rank;
    move_key *k = &m->key[key];
    MPI_Request *request = &m->request[m->requests];
    MPI_Datatype type;
    int count = 0;

    for (size_t i = 0; i < k->rects; i++)
        if (k->rect[i].from == from && k->rect[i].to == to)
            room[count++] = &k->rect[i];
    if (count == 0)
        return DT_OK;
    DT_TRY(message_type(room, count, sends, &type));
    const int code = sends ? MPI_Send_init(MPI_BOTTOM, 1, type, other, key % TAGS, m->mpi, request)
                           : MPI_Recv_init(MPI_BOTTOM, 1, type, other, key % TAGS, m->mpi, request);
    MPI_Type_free(&type);
    if (code != MPI_SUCCESS)
        return dt_comm_error(code, "MPI_Send_init, MPI_Recv_init");
    k->requests++;
    m->requests++;
    return DT_OK;
}

static dt_status moves_open(dt_moves *m)
{
    const dt_rect **room = NULL;
    dt_status st;

    DT_GO(st, dt_calloc(&m->request, m->rects, sizeof *m->request, "moves"), out);
    DT_GO(st, dt_calloc(&room, m->rects, sizeof *room, "moves"), out);
    for (int key = 0; key < m->keys; key++) {
        m->key[key].request = m->requests;
        for (int other = 0; other < m->comm->world; other++)
            for (int sends = 1; sends >= 0 && other != m->comm->rank; sends--)
                DT_GO(st, message_open(m, key, other, sends, room), out);
    }
out:
    free(room);
    return st;
}

/* MPI moves messages only while it is called. What fails is told by the wait. */
static void moves_look(void *context)
{
    const dt_moves *m = context;
    int flag = 0;

    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, m->mpi, &flag, MPI_STATUS_IGNORE);
}

dt_status dt_moves_seal(dt_moves *m)
{
    if (m->comm->own->all != MPI_COMM_NULL) {
        DT_MPI(MPI_Comm_dup(m->comm->own->all, &m->mpi));
        DT_MPI(MPI_Comm_set_errhandler(m->mpi, MPI_ERRORS_RETURN));
        dt_poll_set(DT_LOOK_S, moves_look, m);
    }
    return dt_comm_agree(m->comm, moves_open(m));
}

void dt_moves_destroy(dt_moves *m)
{
    if (!m)
        return;
    dt_poll_set(0, NULL, m);
    /* Else some are under way, and are not given back. */
    const bool over =
        !dt_comm_alone() && dt_comm_wait(m->comm, m->request, (int)m->requests) == DT_OK;
    for (size_t i = 0; over && i < m->requests; i++)
        MPI_Request_free(&m->request[i]);
    if (over && m->mpi != MPI_COMM_NULL)
        MPI_Comm_free(&m->mpi);
    for (int i = 0; m->key && i < m->keys; i++)
        free(m->key[i].rect);
    DT_FREE(m->key, m->request, m);
}

/* ---- Running --------------------------------------------------------------------- */

static void rect_copy(const dt_rect *r)
{
    const char *from = r->source;
    char *to = r->target;

    for (size_t i = 0; i < r->rows; i++, from += r->from_stride, to += r->to_stride)
        memmove(to, from, r->bytes);
}

dt_status dt_moves_start(dt_moves *m, int key)
{
    const move_key *k = &m->key[key];

    if (k->requests > 0)
        DT_MPI(MPI_Startall((int)k->requests, m->request + k->request));
    for (size_t i = 0; i < k->rects; i++)
        if (k->rect[i].from == k->rect[i].to)
            rect_copy(&k->rect[i]);
    dt_activity_sent(k->bytes);
    return DT_OK;
}

dt_status dt_moves_wait(dt_moves *m, int key)
{
    const move_key *k = &m->key[key];

    return dt_comm_wait(m->comm, m->request + k->request, (int)k->requests);
}

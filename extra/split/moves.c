/* moves.c - copies between ranks, planned once and started again and again.
 *
 * All rectangles that a rank sends to another one under one key are one message, of an MPI type
 * that knows where its bytes lie: nothing is packed here. Both sides list the same rectangles in
 * the same order, so a message fits its receiver by construction. */
#include "split.h"

#include "dist/comm.h"

#include <stdlib.h>

typedef struct move_key {
    size_t copy, copies;      /* rectangles inside this rank */
    size_t request, requests; /* messages */
    uint64_t bytes;           /* that this rank sends */
} move_key;

struct dt_moves {
    dt_comm *comm; /* borrowed */
    MPI_Comm mpi;  /* a duplicate, so that other messages are never met; owned */
    dt_rect *rect; /* [rects], this rank's, by key, kind and peer once sealed; owned */
    size_t rects, room;
    move_key *key;        /* [keys], owned */
    MPI_Request *request; /* [requests], persistent; owned */
    size_t requests;
};

dt_status dt_moves_create(dt_moves **m, dt_comm *c, int keys)
{
    DT_TRY(dt_calloc(m, 1, sizeof **m, "moves"));
    (*m)->comm = c;
    (*m)->mpi = MPI_COMM_NULL;
    return dt_calloc(&(*m)->key, (size_t)keys, sizeof *(*m)->key, "moves");
}

dt_status dt_moves_add(dt_moves *m, const dt_rect *r)
{
    const int rank = m->comm->rank;

    if ((r->from != rank && r->to != rank) || r->rows * r->bytes == 0)
        return DT_OK;
    if (m->rects == m->room) {
        const size_t room = 2 * m->room + 64;
        dt_rect *more = realloc(m->rect, room * sizeof *more);
        if (!more)
            return dt_fail(DT_NOMEM, "no memory for %zu moves", room);
        m->rect = more;
        m->room = room;
    }
    m->rect[m->rects] = *r;
    m->rect[m->rects].order = (int64_t)m->rects;
    m->rects++;
    return DT_OK;
}

/* ---- Sealing --------------------------------------------------------------------- */

/* Copies inside the rank come first, then messages by peer; sent ones before received ones. */
static int64_t rect_kind(const dt_rect *r, int rank)
{
    if (r->from == r->to)
        return -1;
    return r->from == rank ? 2 * (int64_t)r->to : 2 * (int64_t)r->from + 1;
}

static int by_message(const void *pa, const void *pb)
{
    const dt_rect *a = pa, *b = pb;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* A type of all rectangles of a message that this rank sends or receives, at absolute addresses. */
static dt_status message_type(const dt_rect *r, size_t count, bool sends, MPI_Datatype *whole)
{
    MPI_Datatype *part = NULL;
    MPI_Aint *at = NULL;
    int *each = NULL, parts = 0, rows = 0, bytes = 0;
    dt_status st;

    *whole = MPI_DATATYPE_NULL;
    DT_GO(st, dt_calloc(&part, count, sizeof(MPI_Datatype), "moves"), out);
    DT_GO(st, dt_calloc(&at, count, sizeof *at, "moves"), out);
    DT_GO(st, dt_calloc(&each, count, sizeof *each, "moves"), out);
    for (size_t i = 0; i < count; i++, r++) {
        const size_t stride = sends ? r->from_stride : r->to_stride;
        void *address = sends ? (void *)(uintptr_t)r->source : r->target;
        DT_GO(st, dt_comm_count(r->rows, &rows), out);
        DT_GO(st, dt_comm_count(r->bytes, &bytes), out);
        MPI_Get_address(address, &at[i]);
        each[i] = 1;
        MPI_Type_create_hvector(rows, bytes, (MPI_Aint)stride, MPI_BYTE, &part[i]);
        parts++;
    }
    MPI_Type_create_struct(parts, each, at, part, whole);
    if (MPI_Type_commit(whole) != MPI_SUCCESS)
        st = dt_fail(DT_COMM, "MPI takes no type of %d rectangles", parts);
out:
    for (int i = 0; i < parts; i++)
        MPI_Type_free(&part[i]);
    free(part);
    free(at);
    free(each);
    return st;
}

/* The message of rectangles [count], which have one key and one other rank. */
static dt_status message_open(dt_moves *m, const dt_rect *r, size_t count)
{
    enum { TAGS = 32768 }; /* that any MPI has; messages of a key are started in one order */
    const bool sends = r->from == m->comm->rank;
    MPI_Request *request = &m->request[m->requests];
    MPI_Datatype type;

    DT_TRY(message_type(r, count, sends, &type));
    const int code =
        sends ? MPI_Send_init(MPI_BOTTOM, 1, type, r->to, r->key % TAGS, m->mpi, request)
              : MPI_Recv_init(MPI_BOTTOM, 1, type, r->from, r->key % TAGS, m->mpi, request);
    MPI_Type_free(&type);
    if (code != MPI_SUCCESS)
        return dt_comm_error(code, "MPI_Send_init, MPI_Recv_init");
    m->key[r->key].requests++;
    m->requests++;
    return DT_OK;
}

static dt_status moves_open(dt_moves *m)
{
    const int rank = m->comm->rank;
    size_t end;

    for (size_t i = 0; i < m->rects; i++)
        m->rect[i].kind = rect_kind(&m->rect[i], rank);
    if (m->rects > 0)
        qsort(m->rect, m->rects, sizeof *m->rect, by_message);
    DT_TRY(dt_calloc(&m->request, m->rects, sizeof *m->request, "moves"));
    for (size_t first = 0; first < m->rects; first = end) {
        const dt_rect *r = &m->rect[first];
        move_key *key = &m->key[r->key];
        uint64_t bytes = 0;
        for (end = first;
             end < m->rects && m->rect[end].key == r->key && m->rect[end].kind == r->kind; end++)
            bytes += m->rect[end].rows * m->rect[end].bytes;
        if (r->from == r->to) {
            key->copy = first;
            key->copies = end - first;
            continue;
        }
        if (key->requests == 0)
            key->request = m->requests;
        key->bytes += r->from == rank ? bytes : 0;
        DT_TRY(message_open(m, r, end - first));
    }
    return DT_OK;
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
    if (!dt_comm_alone() && dt_comm_wait(m->comm, m->request, (int)m->requests) != DT_OK)
        m->requests = 0; /* some are under way, and are not given back */
    for (size_t i = 0; i < m->requests && !dt_comm_alone(); i++)
        MPI_Request_free(&m->request[i]);
    if (m->mpi != MPI_COMM_NULL && !dt_comm_alone())
        MPI_Comm_free(&m->mpi);
    free(m->rect);
    free(m->key);
    free(m->request);
    free(m);
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
    for (size_t i = k->copy; i < k->copy + k->copies; i++)
        rect_copy(&m->rect[i]);
    dt_activity_sent(k->bytes);
    return DT_OK;
}

dt_status dt_moves_wait(dt_moves *m, int key)
{
    const move_key *k = &m->key[key];

    return k->requests == 0 ? DT_OK
                            : dt_comm_wait(m->comm, m->request + k->request, (int)k->requests);
}

/* hail.c - a word from one rank to all others, which hear it when they listen. */
#include "comm.h"

/* The only messages on c->all that are no part of a collective. */
enum { HAIL_TAG = 1 };

dt_status dt_comm_hail(dt_comm *c, int word)
{
    MPI_Request request;

    c->hail = word; /* messages under way read it */
    for (int r = 0; r < c->world; r++) {
        if (r == c->rank)
            continue;
        DT_MPI(MPI_Isend(&c->hail, 1, MPI_INT, r, HAIL_TAG, c->all, &request));
        DT_MPI(MPI_Request_free(&request));
    }
    return DT_OK;
}

dt_status dt_comm_hear(dt_comm *c, int *word, bool *heard)
{
    MPI_Status from;
    int there = 0;

    *heard = false;
    if (c->world == 1)
        return DT_OK;
    DT_MPI(MPI_Iprobe(MPI_ANY_SOURCE, HAIL_TAG, c->all, &there, &from));
    if (!there)
        return DT_OK;
    DT_MPI(MPI_Recv(word, 1, MPI_INT, from.MPI_SOURCE, HAIL_TAG, c->all, MPI_STATUS_IGNORE));
    *heard = true;
    return DT_OK;
}

dt_status dt_comm_await_hail(dt_comm *c, int *word)
{
    bool heard = false;

    for (unsigned looks = 0;; dt_comm_idle(c, &looks)) {
        DT_TRY(dt_comm_hear(c, word, &heard));
        if (heard)
            return DT_OK;
    }
}

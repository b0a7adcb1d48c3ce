/* record.c - the one record of who waited for whom.
 *
 * A rank's clock says nothing about another's, but how long each was in the same collective does:
 * the rank that was in it for the shortest time came last, and the others waited for it. So each
 * rank adds up its time in collectives, and, where that is asked for, keeps the time of each until
 * the ranks hand them to rank 0. */
#include "comm.h"

#include <stdlib.h>

enum { RECORDS = 4096 }; /* kept between two calls of dt_comm_records_take; more are counted */

struct dt_comm_kept {
    dt_comm_record what[RECORDS];
    int count, more;
    bool taken;       /* all of them: the next one begins anew */
    double take_s;    /* how long that took */
    double seconds[]; /* [world][count] on rank 0, else [count]; the first row is mine */
};

static void keep(dt_comm_kept *k, double took, const char *name, size_t bytes)
{
    if (k->count == RECORDS) {
        k->more++;
        return;
    }
    k->what[k->count] = (dt_comm_record){.name = name, .bytes = bytes};
    k->seconds[k->count++] = took;
}

/* A rank that is late where records are taken is waited for, too. */
static void begin_anew(dt_comm_kept *k, int world)
{
    const size_t bytes = (size_t)k->count * sizeof *k->seconds;

    k->count = k->more = 0;
    k->taken = false;
    if (world > 1)
        keep(k, k->take_s, "log", bytes);
}

double dt_comm_record_end(dt_comm *c, double began, const char *name, size_t bytes)
{
    const double took = dt_seconds() - began;

    if (c->world > 1)
        c->waited_s += took;
    if (!c->kept)
        return took;
    if (c->kept->taken)
        begin_anew(c->kept, c->world);
    keep(c->kept, took, name, bytes);
    return took;
}

double dt_comm_waited(const dt_comm *c)
{
    return c->waited_s;
}

dt_status dt_comm_records_keep(dt_comm *c)
{
    const size_t rows = (size_t)(c->rank == 0 ? c->world : 1);
    dt_comm_kept *k = NULL;

    DT_TRY(dt_comm_agree(c, dt_calloc(&k, 1, sizeof *k + rows * RECORDS * sizeof *k->seconds,
                                      "records of collectives")));
    free(c->kept);
    c->kept = k;
    return DT_OK;
}

dt_status dt_comm_records_take(dt_comm *c, dt_comm_records *r)
{
    dt_comm_kept *k = c->kept;
    const double began = dt_seconds();
    const bool root = c->rank == 0;
    MPI_Request request;

    *r = (dt_comm_records){.count = 0};
    if (!k || k->taken || k->count == 0)
        return DT_OK; /* on all ranks: they made the same calls */
    if (c->world > 1) {
        DT_MPI(MPI_Igather(root ? MPI_IN_PLACE : k->seconds, k->count, MPI_DOUBLE, k->seconds,
                           k->count, MPI_DOUBLE, 0, c->all, &request));
        DT_TRY(dt_comm_wait(c, &request, 1));
    }
    if (root)
        *r = (dt_comm_records){k->what, k->seconds, k->count, k->more};
    k->taken = true;
    k->take_s = dt_seconds() - began;
    return DT_OK;
}

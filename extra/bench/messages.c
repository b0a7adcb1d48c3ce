/* messages.c - how long messages between two ranks take, and by how much ranks' clocks differ. */
#include "bench.h"

#include "dist/comm.h"

/* This rank's x to another one, or that one's. */
static dt_status pass(const dt_comm *c, dt_comm_clock *x, int other, bool send)
{
    MPI_Request r;

    DT_TRY(dt_comm_message(c->own->all, send, x, sizeof *x, MPI_BYTE, other, DT_TAG_CLOCK, &r));
    return dt_comm_wait(c, &r, 1);
}

/* Rank r reads its clock between two times of rank 0: in their middle, give or take half of what
 * lies between them. The shortest round trip says most. */
dt_status dt_comm_clocks(dt_comm *c, dt_comm_clock *of)
{
    enum { TRIPS = 100 };
    const bool root = c->rank == 0;
    dt_comm_clock x = {.ahead = 0};

    for (int r = 0; r < c->world && root; r++)
        of[r] = (dt_comm_clock){.bound = r > 0 ? INT64_MAX : 0};
    dt_host_name(root ? of[0].host : x.host);
    for (int r = 1; r < c->world; r++)
        for (int i = 0; i < TRIPS && (root || c->rank == r); i++) {
            const int64_t began = dt_activity_clock();
            DT_TRY(pass(c, root ? &x : &(dt_comm_clock){.ahead = 0}, root ? r : 0, root));
            x.ahead = dt_activity_clock();
            DT_TRY(pass(c, &x, root ? r : 0, !root));
            const int64_t half = (dt_activity_clock() - began + 1) / 2;
            if (!root || half >= of[r].bound)
                continue;
            x.ahead = began + half - x.ahead;
            x.bound = half;
            of[r] = x;
        }
    return DT_OK;
}

dt_status dt_messages_time(dt_comm *c, char *room, int count, size_t bytes, bool both,
                           double *seconds)
{
    const int other = c->rank == 0 ? c->world - 1 : 0;
    const double began = dt_seconds();
    MPI_Request r[2 * DT_MESSAGES];
    dt_status st = DT_OK;
    int n = 0;

    for (int i = 0; i < 2 * count && st == DT_OK; i++) {
        const bool sends = i % 2 == 1;
        char *at = room + (size_t)(i / 2 + (sends ? count : 0)) * bytes;
        if (!both && sends != (c->rank != 0))
            continue;
        st = dt_comm_message(c->own->all, sends, at, bytes, MPI_BYTE, other, DT_TAG_LANES, &r[n]);
        n += st == DT_OK;
    }
    const dt_status waited = dt_comm_wait(c, r, n); /* in any case: they use the room */
    DT_TRY(st == DT_OK ? waited : st);
    *seconds = (dt_seconds() - began) / count;
    return DT_OK;
}

/* gather.c - what rank 0 learns from each rank: its data, its host and its clock. */
#include "comm.h"

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

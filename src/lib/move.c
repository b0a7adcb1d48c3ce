/* move.c - collectives that move numbers and compute nothing. */
#include "lib.h"

/* No rank leaves the comparison before all have come. */
static dt_status barrier(dtd_group *g)
{
    DT_TRY(dtd_enter(DTD_IN_barrier, &g));
    return dtd_compare(g, DT_OK, NULL);
}

int dtd_barrier(dtd_group *g)
{
    return dtd_leave(barrier(g));
}

static dt_status broadcast(const dtd_tensor *list, size_t count, int root, dtd_group *g)
{
    enum { MOST = 1 << 30 }; /* bytes at once: MPI counts in int */
    const dtd_arg arg = {"root", root, NULL};
    int64_t piece = 0;

    DT_TRY(dtd_enter(DTD_IN_broadcast, &g));
    dt_status st = dtd_check_rank(g, "root", root);
    if (st == DT_OK)
        st = dtd_check_list(list, count, true);
    DT_TRY(dtd_compare(g, st, &(dtd_args){&arg, 1, list, st == DT_OK ? count : 0, NULL}));
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = list[i].count * dtd_size_of(list[i].type);
        for (size_t at = 0; at < bytes; at += MOST) {
            dt_place_slice(piece++);
            DT_TRY(
                dt_comm_bcast(g->comm, (char *)list[i].data + at, DT_MIN(bytes - at, MOST), root));
        }
    }
    return DT_OK;
}

int dtd_broadcast(const dtd_tensor *list, size_t count, int root, dtd_group *g)
{
    return dtd_leave(broadcast(list, count, root, g));
}

/* comm_first.c - a smaller world made of the first ranks, for scaling curves. */
#include "comm.h"

#include <stdlib.h>

/* Both splits are by all ranks; the ranks that are left out get no communicator. */
static dt_status first_split(dt_comm *made, const dt_comm *c, int ranks)
{
    const int color = c->rank < ranks ? 0 : MPI_UNDEFINED;

    DT_MPI(MPI_Comm_split(c->all, color, c->rank, &made->all));
    DT_MPI(MPI_Comm_split(c->node, color, c->node_rank, &made->node));
    if (made->all == MPI_COMM_NULL)
        return DT_OK;
    DT_MPI(MPI_Comm_set_errhandler(made->all, MPI_ERRORS_RETURN));
    DT_MPI(MPI_Comm_set_errhandler(made->node, MPI_ERRORS_RETURN));
    DT_MPI(MPI_Comm_rank(made->node, &made->node_rank));
    DT_MPI(MPI_Comm_size(made->node, &made->node_ranks));
    const int leads = made->node_rank == 0;
    DT_MPI(MPI_Allreduce(&leads, &made->nodes, 1, MPI_INT, MPI_SUM, made->all));
    return DT_OK;
}

dt_status dt_comm_first(dt_comm **first, dt_comm *c, int ranks)
{
    dt_comm *made = NULL;
    dt_status st = DT_OK;

    *first = NULL;
    DT_TRY(dt_comm_agree(c, dt_calloc(&made, 1, sizeof *made, "the communicator")));
    *made = *c;
    made->all = made->node = MPI_COMM_NULL;
    made->started = false; /* MPI is finished with the whole world */
    made->world = ranks;
    if (c->all != MPI_COMM_NULL)
        st = dt_comm_agree(c, first_split(made, c, ranks));
    made->crowded = made->node_ranks > made->node_cpus;
    if (st != DT_OK || c->rank >= ranks)
        dt_comm_close(made);
    else
        *first = made;
    return st;
}

/* comm_open.c - starting and finishing MPI, and who is who: ranks are renumbered by node, a
 * machine is split into nodes, some ranks become a world of their own. */
#include "comm.h"

/* mpirun may bind each rank to CPUs of its own, or leave all of them to all. */
static dt_status comm_machine(dt_comm *c)
{
    cpu_set_t mine, all;

    dt_machine_cpus(&mine);
    if (CPU_COUNT(&mine) == 0)
        CPU_SET(0, &mine);
    all = mine;
    if (c->own->machine != MPI_COMM_NULL) {
        DT_MPI(MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, c->own->machine));
        DT_MPI(MPI_Comm_rank(c->own->machine, &c->machine_rank));
        DT_MPI(MPI_Comm_size(c->own->machine, &c->machine_ranks));
    }
    const int allowed = dt_cores(NULL);
    c->own->machine_cpus = allowed < CPU_COUNT(&mine) ? allowed : CPU_COUNT(&all); /* a quota */
    c->own->crowded = c->machine_ranks > c->own->machine_cpus;
    return DT_OK;
}

/* Order by the machine's lowest rank, then by rank: a machine's ranks become neighbours. */
static dt_status comm_renumber(dt_comm *c)
{
    MPI_Comm machine;
    int lowest = 0;

    DT_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &lowest));
    DT_MPI(
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, lowest, MPI_INFO_NULL, &machine));
    DT_MPI(MPI_Bcast(&lowest, 1, MPI_INT, 0, machine));
    DT_MPI(MPI_Comm_free(&machine));
    DT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, lowest, &c->own->all));
    return DT_OK;
}

/* A node is a run of neighbours on one machine, or one of the equal parts that stand for nodes. */
static dt_status comm_form_nodes(dt_comm *c)
{
    struct dt_comm_own *own = c->own;
    int lowest = c->rank, color = c->rank;

    DT_MPI(MPI_Bcast(&lowest, 1, MPI_INT, 0, own->machine));
    free(own->node_start);
    DT_TRY(dt_calloc(&own->node_start, (size_t)c->world + 1, sizeof(int), "the communicator"));
    DT_MPI(MPI_Allgather(&lowest, 1, MPI_INT, own->node_start, 1, MPI_INT, own->all));
    while (color > 0 && own->node_start[color - 1] == lowest)
        color--;
    own->split = DT_MIN(own->split, c->machine_ranks);
    if (own->split > 1)
        for (color = 0; (color + 1) * c->machine_ranks / own->split <= c->machine_rank;)
            color++;
    DT_MPI(MPI_Comm_split(own->machine, color, c->rank, &own->team));
    DT_MPI(MPI_Comm_set_errhandler(own->team, MPI_ERRORS_RETURN));
    DT_MPI(MPI_Comm_rank(own->team, &c->node_rank));
    DT_MPI(MPI_Comm_size(own->team, &c->node_ranks));

    const int leads = c->node_rank == 0;
    DT_MPI(MPI_Allgather(&leads, 1, MPI_INT, own->node_start, 1, MPI_INT, own->all));
    c->nodes = 0;
    for (int r = 0; r < c->world; r++)
        if (own->node_start[r])
            own->node_start[c->nodes++] = r;
    own->node_start[c->nodes] = c->world;
    return DT_OK;
}

/* The order of c->own->all stays. */
dt_status dt_comm_learn(dt_comm *c)
{
    struct dt_comm_own *own = c->own;

    if (own->all == MPI_COMM_NULL)
        return comm_machine(c);
    DT_MPI(MPI_Comm_set_errhandler(own->all, MPI_ERRORS_RETURN));
    DT_MPI(MPI_Comm_rank(own->all, &c->rank));
    DT_MPI(MPI_Comm_size(own->all, &c->world));
    DT_MPI(
        MPI_Comm_split_type(own->all, MPI_COMM_TYPE_SHARED, c->rank, MPI_INFO_NULL, &own->machine));
    DT_MPI(MPI_Comm_set_errhandler(own->machine, MPI_ERRORS_RETURN));
    DT_TRY(comm_machine(c));
    return comm_form_nodes(c);
}

dt_status dt_comm_split_nodes(dt_comm *c, int nodes)
{
    if (nodes < 1)
        return dt_fail(DT_CONFIG, "a node cannot be treated as %d nodes", nodes);
    if (c->own->machine == MPI_COMM_NULL)
        return DT_OK;
    DT_MPI(MPI_Comm_free(&c->own->team));
    c->own->split = nodes;
    return comm_form_nodes(c);
}

static dt_status comm_start(dt_comm *c, int *argc, char ***argv)
{
    int threads = 0;

    DT_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &threads));
    c->own->started = true;
    if (threads < MPI_THREAD_FUNNELED)
        return dt_fail(DT_UNSUPPORTED, "%s was built without threads; use another MPI library",
                       dt_comm_version());
    DT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    DT_MPI(MPI_Comm_size(MPI_COMM_WORLD, &c->world));
    return comm_renumber(c);
}

dt_status dt_comm_create(dt_comm **c)
{
    struct {
        dt_comm c;
        struct dt_comm_own own;
    } *all = NULL;

    DT_TRY(dt_calloc(&all, 1, sizeof *all, "the communicator"));
    all->own = (struct dt_comm_own){.all = MPI_COMM_NULL,
                                    .machine = MPI_COMM_NULL,
                                    .team = MPI_COMM_NULL,
                                    .split = 1,
                                    .few = DT_FEW};
    all->c =
        (dt_comm){.world = 1, .nodes = 1, .node_ranks = 1, .machine_ranks = 1, .own = &all->own};
    *c = &all->c;
    return DT_OK;
}

dt_status dt_comm_open(dt_comm **c, bool mpi, int *argc, char ***argv)
{
    *c = NULL;
    DT_TRY(dt_comm_create(c));
    if (mpi)
        DT_TRY(comm_start(*c, argc, argv));
    DT_TRY(dt_comm_learn(*c));
    dt_log_init((*c)->rank, (*c)->world);
    return DT_OK;
}

/* ---- Parts of a world ------------------------------------------------------------- */

/* Those that are left out get no communicator. */
static dt_status comm_take_part(dt_comm *made, const dt_comm *c, int color)
{
    if (c->own->all != MPI_COMM_NULL)
        DT_MPI(MPI_Comm_split(c->own->all, color < 0 ? MPI_UNDEFINED : color, c->rank,
                              &made->own->all));
    made->own->split = c->own->split;
    return color < 0 ? DT_OK : dt_comm_learn(made);
}

/* If every rank is in a part, they work at the same time: together they are as many as before. */
dt_status dt_comm_split(dt_comm **part, dt_comm *c, int color)
{
    int64_t taken = color >= 0;
    dt_status st = DT_OK;

    *part = NULL;
    DT_TRY(dt_comm_sum_i64(c, &taken, 1));
    DT_GO(st, dt_comm_agree(c, dt_comm_create(part)), out);
    DT_GO(st, dt_comm_agree(c, comm_take_part(*part, c, color)), out);
    if (taken == c->world)
        (*part)->own->crowded = c->own->crowded;

out:
    if (st != DT_OK || color < 0) {
        dt_comm_close(*part);
        *part = NULL;
    }
    return st;
}

/* After a failure of this rank alone the others do not come: a part is left as it is. */
void dt_comm_close(dt_comm *c)
{
    if (!c)
        return;
    if (!c->own->started && dt_comm_alone())
        c->own->all = c->own->team = c->own->machine = MPI_COMM_NULL;
    dt_comm_free_left(c, c->own->torn || dt_comm_alone());
    MPI_Comm *const made[] = {&c->own->all, &c->own->team, &c->own->machine};
    for (size_t i = 0; i < DT_COUNT_OF(made); i++)
        if (*made[i] != MPI_COMM_NULL)
            MPI_Comm_free(made[i]);
    if (c->own->started)
        MPI_Finalize();
    free(c->own->node_start);
    free(c);
}

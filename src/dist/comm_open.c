/* comm_open.c - starting and finishing MPI, and who is who: ranks are renumbered by node, a
 * machine is split into nodes, the first ranks become a world of their own. */
#include "comm.h"

#include <stdlib.h>

/* mpirun may bind each rank to CPUs of its own, or leave all of them to all. */
static dt_status comm_machine(dt_comm *c)
{
    cpu_set_t mine, all;
    dt_machine machine;

    dt_machine_cpus(&mine);
    if (CPU_COUNT(&mine) == 0)
        CPU_SET(0, &mine);
    all = mine;
    if (c->own->machine != MPI_COMM_NULL) {
        DT_MPI(MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, c->own->machine));
        DT_MPI(MPI_Comm_rank(c->own->machine, &c->machine_rank));
        DT_MPI(MPI_Comm_size(c->own->machine, &c->machine_ranks));
    }
    dt_machine_describe(&machine);
    const bool quota = machine.cores_allowed < CPU_COUNT(&mine);
    c->own->machine_cpus = quota ? machine.cores_allowed : CPU_COUNT(&all);
    c->own->crowded = c->machine_ranks > c->own->machine_cpus;
    return DT_OK;
}

/* Order by the machine's lowest rank, then by rank: a machine's ranks become neighbours. */
static dt_status comm_renumber(dt_comm *c)
{
    int old = 0, lowest = 0;

    DT_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &old));
    DT_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, old, MPI_INFO_NULL,
                               &c->own->machine));
    DT_MPI(MPI_Comm_set_errhandler(c->own->machine, MPI_ERRORS_RETURN));
    lowest = old;
    DT_MPI(MPI_Bcast(&lowest, 1, MPI_INT, 0, c->own->machine));
    DT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, lowest, &c->own->all));
    DT_MPI(MPI_Comm_set_errhandler(c->own->all, MPI_ERRORS_RETURN));
    DT_MPI(MPI_Comm_rank(c->own->all, &c->rank));
    DT_MPI(MPI_Comm_size(c->own->all, &c->world));
    return DT_OK;
}

/* node_start from the ranks that lead a node; its place holds all of them first. */
static dt_status comm_node_starts(dt_comm *c)
{
    const int leads = c->node_rank == 0;

    free(c->own->node_start);
    DT_TRY(dt_calloc(&c->own->node_start, (size_t)c->world + 1, sizeof *c->own->node_start,
                     "the communicator"));
    DT_MPI(MPI_Allgather(&leads, 1, MPI_INT, c->own->node_start, 1, MPI_INT, c->own->all));
    c->nodes = 0;
    for (int r = 0; r < c->world; r++)
        if (c->own->node_start[r])
            c->own->node_start[c->nodes++] = r;
    c->own->node_start[c->nodes] = c->world;
    for (c->own->node = 0; c->own->node_start[c->own->node + 1] <= c->rank;)
        c->own->node++;
    return DT_OK;
}

/* The machine's ranks that give the same color are a node. */
static dt_status comm_form_team(dt_comm *c, int color)
{
    DT_MPI(MPI_Comm_split(c->own->machine, color, c->rank, &c->own->team));
    DT_MPI(MPI_Comm_set_errhandler(c->own->team, MPI_ERRORS_RETURN));
    DT_MPI(MPI_Comm_rank(c->own->team, &c->node_rank));
    DT_MPI(MPI_Comm_size(c->own->team, &c->node_ranks));
    return comm_node_starts(c);
}

/* Each machine's ranks as `parts` nodes of neighbours. */
static dt_status comm_form_nodes(dt_comm *c, int parts)
{
    int rank = 0, ranks = 0, part = 0;

    DT_MPI(MPI_Comm_rank(c->own->machine, &rank));
    DT_MPI(MPI_Comm_size(c->own->machine, &ranks));
    while ((int64_t)(part + 1) * ranks / parts <= rank)
        part++;
    c->own->split = parts;
    return comm_form_team(c, part);
}

dt_status dt_comm_split_nodes(dt_comm *c, int nodes)
{
    uint64_t fewest = 1;
    int ranks = 0;

    if (c->own->machine != MPI_COMM_NULL) {
        DT_MPI(MPI_Comm_size(c->own->machine, &ranks));
        fewest = (uint64_t)ranks;
    }
    DT_TRY(dt_comm_min_u64(c, &fewest, 1));
    if (nodes < 1 || (uint64_t)nodes > fewest)
        return dt_fail(DT_CONFIG,
                       "a node of %d ranks cannot be treated as %d nodes; ask for at "
                       "most %d",
                       (int)fewest, nodes, (int)fewest);
    if (c->own->machine == MPI_COMM_NULL)
        return DT_OK;
    DT_MPI(MPI_Comm_free(&c->own->team));
    return comm_form_nodes(c, nodes);
}

/* Without a launcher Open MPI would start a daemon of its own, which takes half a
 * second and fails where it finds no ssh: a world of one needs no MPI at all. */
bool dt_comm_launched(void)
{
    static const char *const sign[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD"};

    for (size_t i = 0; i < DT_COUNT_OF(sign); i++)
        if (getenv(sign[i]))
            return true;
    return false;
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
    DT_TRY(comm_renumber(c));
    return comm_form_nodes(c, 1);
}

static dt_status comm_create(dt_comm **c)
{
    struct {
        dt_comm c;
        struct dt_comm_own own;
    } *all = NULL;

    DT_TRY(dt_calloc(&all, 1, sizeof *all, "the communicator"));
    all->own = (struct dt_comm_own){
        .all = MPI_COMM_NULL, .machine = MPI_COMM_NULL, .team = MPI_COMM_NULL, .split = 1};
    all->c =
        (dt_comm){.world = 1, .nodes = 1, .node_ranks = 1, .machine_ranks = 1, .own = &all->own};
    *c = &all->c;
    return DT_OK;
}

dt_status dt_comm_open(dt_comm **c, int *argc, char ***argv)
{
    *c = NULL;
    DT_TRY(comm_create(c));
    if (dt_comm_launched())
        DT_TRY(comm_start(*c, argc, argv));
    DT_TRY(comm_machine(*c));
    dt_log_init((*c)->rank, (*c)->world);
    return DT_OK;
}

/* Both splits are by all ranks; those that are left out get no communicator. */
static dt_status comm_take_part(dt_comm *made, const dt_comm *c, int color)
{
    int here = 0;

    DT_MPI(MPI_Comm_split(c->own->all, color, c->rank, &made->own->all));
    DT_MPI(MPI_Comm_split(c->own->machine, color, c->rank, &made->own->machine));
    if (made->own->all == MPI_COMM_NULL)
        return DT_OK;
    DT_MPI(MPI_Comm_set_errhandler(made->own->all, MPI_ERRORS_RETURN));
    DT_MPI(MPI_Comm_set_errhandler(made->own->machine, MPI_ERRORS_RETURN));
    DT_MPI(MPI_Comm_size(made->own->machine, &here));
    DT_MPI(MPI_Comm_rank(made->own->all, &made->rank));
    DT_MPI(MPI_Comm_size(made->own->all, &made->world));
    DT_TRY(comm_form_nodes(made, DT_MIN(c->own->split, here)));
    return comm_machine(made);
}

static dt_status comm_part(dt_comm **part, dt_comm *c, int color)
{
    dt_comm *made = NULL;
    dt_status st = DT_OK;

    *part = NULL;
    DT_GO(st, dt_comm_agree(c, comm_create(&made)), out);
    if (c->own->all != MPI_COMM_NULL)
        DT_GO(st, dt_comm_agree(c, comm_take_part(made, c, color < 0 ? MPI_UNDEFINED : color)),
              out);
    if (color >= 0) {
        *part = made;
        made = NULL;
    }

out:
    dt_comm_close(made);
    return st;
}

/* ---- Other communicators ---------------------------------------------------------- */

dt_comm_mpi dt_comm_mpi_now(void)
{
    int began = 0, ended = 0;

    if (MPI_Initialized(&began) != MPI_SUCCESS || MPI_Finalized(&ended) != MPI_SUCCESS || !began)
        return DT_COMM_NO_MPI;
    return ended ? DT_COMM_MPI_OVER : DT_COMM_MPI_RUNS;
}

/* All but c->own->all, whose order stays. */
static dt_status comm_learn(dt_comm *c)
{
    struct dt_comm_own *own = c->own;

    DT_MPI(MPI_Comm_set_errhandler(own->all, MPI_ERRORS_RETURN));
    DT_MPI(MPI_Comm_rank(own->all, &c->rank));
    DT_MPI(MPI_Comm_size(own->all, &c->world));
    DT_MPI(
        MPI_Comm_split_type(own->all, MPI_COMM_TYPE_SHARED, c->rank, MPI_INFO_NULL, &own->machine));
    DT_MPI(MPI_Comm_set_errhandler(own->machine, MPI_ERRORS_RETURN));
    int lowest = c->rank, first = c->rank;
    DT_MPI(MPI_Bcast(&lowest, 1, MPI_INT, 0, own->machine));
    DT_TRY(dt_calloc(&own->node_start, (size_t)c->world + 1, sizeof(int), "the communicator"));
    DT_MPI(MPI_Allgather(&lowest, 1, MPI_INT, own->node_start, 1, MPI_INT, own->all));
    while (first > 0 && own->node_start[first - 1] == lowest)
        first--;
    DT_TRY(comm_form_team(c, first));
    return comm_machine(c);
}

dt_status dt_comm_adopt(dt_comm **c, const void *mpi_comm)
{
    const MPI_Comm from = mpi_comm ? *(const MPI_Comm *)mpi_comm : MPI_COMM_WORLD;

    *c = NULL;
    if (from == MPI_COMM_NULL)
        return dt_fail(DT_USAGE, "the communicator is MPI_COMM_NULL");
    DT_TRY(comm_create(c));
    DT_MPI(MPI_Comm_dup(from, &(*c)->own->all));
    return comm_learn(*c);
}

static dt_status comm_take(dt_comm *made, const dt_comm *c, const int *ranks, int count)
{
    MPI_Group all, some;

    DT_MPI(MPI_Comm_group(c->own->all, &all));
    DT_MPI(MPI_Group_incl(all, count, ranks, &some));
    DT_MPI(MPI_Comm_create_group(c->own->all, some, DT_TAG_GROUP, &made->own->all));
    DT_MPI(MPI_Group_free(&some));
    DT_MPI(MPI_Group_free(&all));
    return comm_learn(made);
}

dt_status dt_comm_group(dt_comm **made, dt_comm *c, const int *ranks, int count)
{
    dt_comm *group = NULL;
    dt_status st;

    *made = NULL;
    DT_GO(st, comm_create(&group), out);
    group->own->quiet = c->own->quiet;
    st = c->own->all == MPI_COMM_NULL ? comm_machine(group) : comm_take(group, c, ranks, count);

out:
    if (st == DT_OK)
        *made = group;
    else
        dt_comm_close(group);
    return st;
}

/* The others do nothing meanwhile. */
dt_status dt_comm_first(dt_comm **first, dt_comm *c, int ranks)
{
    return comm_part(first, c, c->rank < ranks ? 0 : -1);
}

/* All parts work at the same time: together they are as many as before. */
dt_status dt_comm_split(dt_comm **part, dt_comm *c, int color)
{
    DT_TRY(comm_part(part, c, color));
    if (*part)
        (*part)->own->crowded = c->own->crowded;
    return DT_OK;
}

/* After a failure of this rank alone the others do not come: a part is left as it is. */
void dt_comm_close(dt_comm *c)
{
    if (!c)
        return;
    if (!c->own->started && dt_comm_alone())
        c->own->all = c->own->team = c->own->machine = MPI_COMM_NULL;
    if (c->own->all != MPI_COMM_NULL)
        MPI_Comm_free(&c->own->all);
    if (c->own->team != MPI_COMM_NULL)
        MPI_Comm_free(&c->own->team);
    if (c->own->machine != MPI_COMM_NULL)
        MPI_Comm_free(&c->own->machine);
    if (c->own->started)
        MPI_Finalize();
    free(c->own->node_start);
    free(c);
}

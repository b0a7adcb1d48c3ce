/* asked.c - how many ranks were meant: by who typed a number, by the launcher, by variables that
 * are inherited; and what is said where fewer have come. */
#include "comm.h"

/* Whether its variables are a launch, the weaker first: inherited from anything; of a batch
 * system's task, which may be a shell; of a rank that an mpirun has started; typed by the user. */
typedef enum strength { INHERITED, TASK, BY_MPIRUN, TYPED } strength;

typedef struct launcher {
    strength strength;
    const char *size, *rank; /* variables: how many ranks, which of them; "": there is none */
    const char *sign;        /* a variable that all its ranks have, and nothing else; NULL: none */
    const char *parents;     /* with a sign: what the processes are called that start ranks */
    bool wires;              /* MPI starts by it */
    const char *remedy;      /* where ranks do not find each other */
    bool nodes;              /* its size counts nodes, of a rank or more each */
} launcher;

#define OTHER_MPI "another MPI library started it: put the mpirun of dtrain's first in PATH"
#define NO_PMI "srun --mpi=pmix starts ranks (srun --mpi=list has what there is), or dtrain --np N"
#define APART "dtrain --np N starts ranks, dtrain launch on several hosts; unset what is left over"

#define RANKS(strength_, size_, rank_, remedy_)                                                    \
    .strength = strength_, .size = size_, .rank = rank_, .remedy = remedy_
/* The stronger ones first, up to one without a size. Of launchers the first that is set counts:
 * ranks of Open MPI's mpirun also see the variables of what started its daemons. */
static const launcher launchers[] = {
    {RANKS(TYPED, DT_ASKED_VARIABLE, "", OTHER_MPI)},
    {RANKS(BY_MPIRUN, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", OTHER_MPI), .wires = true,
     .sign = "OMPI_COMM_WORLD_RANK", .parents = " mpirun orterun orted prterun prted"},
    {RANKS(BY_MPIRUN, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", OTHER_MPI), .wires = true},
    /* Hydra, of MPICH, Intel MPI and MVAPICH */
    {RANKS(BY_MPIRUN, "PMI_SIZE", "PMI_RANK", OTHER_MPI), .wires = true, .sign = "MPI_LOCALRANKID",
     .parents = " hydra_pmi_proxy"},
    {RANKS(TASK, "PMI_SIZE", "PMI_RANK", OTHER_MPI), .wires = true}, /* srun --mpi=pmi2, PALS */
    {RANKS(TASK, "FLUX_JOB_SIZE", "FLUX_TASK_RANK", OTHER_MPI)},
    {RANKS(TASK, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NO_PMI)},
    {RANKS(TASK, "", "PALS_RANKID", OTHER_MPI), .wires = true}, /* where PALS sets no PMI_RANK */
    {RANKS(TASK, "", "PMIX_RANK", OTHER_MPI), .wires = true},   /* Open MPI, alone, sets it to 0 */
    {RANKS(INHERITED, "RANK_SIZE", "RANK_ID", APART)},
    {RANKS(INHERITED, "WORLD_SIZE", "RANK", APART)},
    {RANKS(INHERITED, "HOROVOD_SIZE", "HOROVOD_RANK", APART)},
    {RANKS(INHERITED, "MS_WORKER_NUM", "MS_NODE_ID", APART)},
    {RANKS(INHERITED, "NNODES", "NODE_RANK", APART), .nodes = true},
    {RANKS(INHERITED, "PET_NNODES", "PET_NODE_RANK", APART), .nodes = true}, /* torchrun's */
    {RANKS(INHERITED, "VC_WORKER_NUM", "", APART), .nodes = true}, /* an index is any task's */
    {.size = NULL},
};

/* -1: not set, or no number from 0. */
static int64_t number(const char *variable)
{
    const char *text = getenv(variable), *end = text;
    int64_t n = -1;

    return text && text[0] && dt_whole_parse(text, &end, &n) && *end == '\0' && n >= 0 ? n : -1;
}

/* How many ranks there are by this source, at least; 0: it says nothing; -1: no number of ranks and
 * one of them. */
static int64_t meant(const launcher *l)
{
    const char *size = getenv(l->size);
    const int64_t n = number(l->size), rank = number(l->rank);

    if (l->strength == INHERITED && size && size[0] && (n < 1 || rank >= n))
        return -1;
    return l->sign && !getenv(l->sign) ? 0 : n > 0 ? n : rank > 0 ? rank + 1 : 0;
}

/* The first that is set; NULL: there is none. */
static const launcher *current(void)
{
    for (const launcher *l = launchers; l->size; l++)
        if (l->strength > INHERITED && l->strength < TYPED && meant(l))
            return l;
    return NULL;
}

/* Whether there is one by which MPI starts. */
static bool wired(void)
{
    for (const launcher *l = launchers; l->size; l++)
        if (l->wires && (getenv(l->size) || getenv(l->rank)))
            return true;
    return false;
}

int64_t dt_comm_launcher(int64_t *rank)
{
    const launcher *by = current();

    *rank = by ? DT_MAX(number(by->rank), 0) : 0;
    return by ? meant(by) : wired() ? 0 : 1;
}

/* Without a launcher Open MPI would start a daemon of its own, which takes half a second and fails
 * where it finds no ssh: a world of one needs no MPI at all. And one task that a shell has from its
 * own launcher, as Slurm's have, is none: MPI could start in it once at most. */
bool dt_comm_launched(void)
{
    int64_t rank;

    return dt_comm_launcher(&rank) != 1 && wired();
}

const char *dt_comm_mpirun(void)
{
    for (const launcher *l = launchers; l->size; l++)
        if (l->sign && getenv(l->sign))
            return l->parents;
    return NULL;
}

bool dt_comm_has_peers(void)
{
    int64_t rank;

    return dt_comm_launcher(&rank) > 1 || rank > 0 || dt_comm_mpirun();
}

/* "WORLD_SIZE=2 RANK=1" */
static const char *describe(const launcher *l, char text[200])
{
    const char *name = l->size[0] ? l->size : l->rank, *value = getenv(name);
    const char *rank = l->size[0] ? getenv(l->rank) : NULL;

    snprintf(text, 200, rank ? "%s=%.40s %s=%.40s" : "%s=%.40s", name, value ? value : "", l->rank,
             rank);
    return l->strength == TYPED ? "--np (or launch)" : text;
}

dt_status dt_comm_check_asked(const dt_comm *c)
{
    const launcher *by = NULL, *weaker = NULL, *const first = current();
    char text[200], other[200];

    for (const launcher *l = launchers; l->size; l++) {
        const bool launches = l->strength > INHERITED && l->strength < TYPED;
        const int64_t n = meant(l);
        if (n == 0 || (launches && l != first) || (n == 1 && l->strength == TASK))
            continue;
        if (!by && n > 0)
            by = l;
        else if (!by ||
                 (by->strength == INHERITED && (n > meant(by) || n < (l->nodes ? 1 : meant(by)))))
            return dt_fail(DT_CONFIG, "%s%s%s: how many ranks are meant? unset what is left over",
                           by ? describe(by, text) : "", by ? ", " : "", describe(l, other));
        else if (!weaker && n > 1 &&
                 (l->nodes ? n > c->nodes : n != meant(by) || number(l->rank) > 0))
            weaker = l;
    }
    if (by && meant(by) > c->world && by->strength == TYPED && !first && !wired())
        return dt_fail(DT_MISMATCH, DT_ASKED_VARIABLE " is no option: give --np %lld",
                       (long long)meant(by));
    if (by && meant(by) > c->world)
        return dt_fail(DT_MISMATCH, "%s: %lld ranks are meant, but this run has %d: %s",
                       describe(by, text), (long long)meant(by), c->world, by->remedy);
    if (weaker && !c->own->quiet)
        dt_warn("%s: not what this run goes by, it has %d rank%s by %s", describe(weaker, text),
                c->world, c->world == 1 ? "" : "s", by->strength == TYPED ? "--np" : by->size);
    if (!by && !first && c->world == 1 && number("SLURM_NTASKS") > 1 && !c->own->quiet)
        dt_warn("SLURM_NTASKS=%s, but this run has 1 rank: " NO_PMI, getenv("SLURM_NTASKS"));
    return DT_OK;
}

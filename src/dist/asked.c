/* asked.c - how many ranks were meant: by who typed a number, by the launcher, by variables that
 * are inherited; and what is said where fewer have come. */
#include "comm.h"
#include <stdio.h>
#include <stdlib.h>

/* TASK: of a batch system or its shell, where one alone is no launch. */
typedef enum strength { INHERITED, TASK, MPIRUN, TYPED } strength;

#define OTHER_MPI "another MPI library started it: put the mpirun of dtrain's first in PATH"
#define NO_PMI "srun --mpi=pmix starts ranks (srun --mpi=list has what there is), or dtrain --np N"
#define APART "dtrain --np N starts ranks, dtrain launch on several hosts; unset what is left over"

/* The stronger ones first. Of launchers the first that is set counts: ranks of Open MPI's mpirun
 * also see the variables of what started its daemons. */
static const struct source {
    strength strength;
    const char *size, *rank, *remedy;
} sources[] = {
    {TYPED, DT_ASKED_VARIABLE, "", OTHER_MPI},
    {MPIRUN, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", OTHER_MPI},
    {MPIRUN, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", OTHER_MPI},
    {TASK, "PMI_SIZE", "PMI_RANK", OTHER_MPI},
    {TASK, "FLUX_JOB_SIZE", "FLUX_TASK_RANK", OTHER_MPI},
    {TASK, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NO_PMI},
    {INHERITED, "RANK_SIZE", "RANK_ID", APART},
    {INHERITED, "WORLD_SIZE", "RANK", APART},
    {INHERITED, "HOROVOD_SIZE", "HOROVOD_RANK", APART},
    {INHERITED, "MS_WORKER_NUM", "MS_NODE_ID", APART},
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
static int64_t meant(const struct source *s)
{
    const char *size = getenv(s->size);
    const int64_t n = number(s->size), rank = number(s->rank);

    if (s->strength == INHERITED && size && size[0] && (n < 1 || rank >= n))
        return -1;
    return n > 0 ? n : rank > 0 ? rank + 1 : 0;
}

/* The first that is set; NULL: there is none. */
static const struct source *launcher(void)
{
    for (size_t i = 0; i < DT_COUNT_OF(sources); i++)
        if (sources[i].strength > INHERITED && sources[i].strength < TYPED && meant(&sources[i]))
            return &sources[i];
    return NULL;
}

int64_t dt_comm_launcher(int64_t *rank)
{
    const struct source *by = launcher();

    *rank = DT_MAX(number(by ? by->rank : "PMIX_RANK"), 0);
    return by ? meant(by) : getenv("PMIX_RANK") || getenv("PMI_RANK") ? 0 : 1;
}

/* Without a launcher Open MPI would start a daemon of its own, which takes half a second and fails
 * where it finds no ssh: a world of one needs no MPI at all. And one task that a shell has from its
 * own launcher, as Slurm's have, is none: MPI could start in it once at most. */
bool dt_comm_launched(void)
{
    int64_t rank;

    return dt_comm_launcher(&rank) != 1 &&
           (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK"));
}

bool dt_comm_has_peers(void)
{
    int64_t rank;

    return dt_comm_launcher(&rank) > 1 || rank > 0 || getenv("OMPI_COMM_WORLD_SIZE");
}

/* "WORLD_SIZE=2 RANK=1" */
static const char *describe(const struct source *s, char text[200])
{
    const char *size = getenv(s->size), *rank = getenv(s->rank);

    snprintf(text, 200, rank ? "%s=%.40s %s=%.40s" : "%s=%.40s", s->size, size ? size : "", s->rank,
             rank);
    return s->strength == TYPED ? "--np (or launch)" : text;
}

dt_status dt_comm_check_asked(const dt_comm *c)
{
    const struct source *by = NULL, *weaker = NULL, *const first = launcher();
    char text[200], other[200];

    for (const struct source *s = sources; s < sources + DT_COUNT_OF(sources); s++) {
        const bool launches = s->strength == TASK || s->strength == MPIRUN;
        const int64_t n = meant(s);
        if (n == 0 || (launches && s != first) || (n == 1 && s->strength == TASK))
            continue;
        if (!by && n > 0)
            by = s;
        else if (!by || (by->strength == INHERITED && n != meant(by)))
            return dt_fail(DT_CONFIG, "%s, %s: how many ranks are meant? unset what is left over",
                           describe(by ? by : s, text), describe(s, other));
        else if (!weaker && n > 1 && (n != meant(by) || number(s->rank) > 0))
            weaker = s;
    }
    if (by && meant(by) > c->world)
        return dt_fail(DT_MISMATCH, "%s: %lld ranks are meant, but this run has %d: %s",
                       describe(by, text), (long long)meant(by), c->world, by->remedy);
    if (weaker && !c->own->quiet)
        dt_warn("%s: not what this run goes by, it has %d rank%s by %s", describe(weaker, text),
                c->world, c->world == 1 ? "" : "s", by->strength == TYPED ? "--np" : by->size);
    return DT_OK;
}

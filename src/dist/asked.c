/* asked.c - how many ranks were meant: by who typed a number, by the launcher, by variables that
 * are inherited; and what is said where fewer have come. */
#include "comm.h"
#include <stdio.h>
#include <stdlib.h>

/* TASK: of a batch system or its shell, where one alone is no launch. */
typedef enum strength { INHERITED, TASK, MPIRUN, TYPED } strength;

/* The stronger ones first, and of launchers the one that is asked first: ranks of Open MPI's mpirun
 * also see the variables of what started its daemons. */
static const struct source {
    strength strength;
    const char *size, *rank, *remedy; /* rank: "": it says none */
} sources[] = {
#define OTHER_MPI                                                                                  \
    "what started them is of another MPI library than the one that dtrain was built with; put "    \
    "that one's mpirun first in PATH"
#define NO_PMI "srun --mpi=pmix starts ranks (srun --mpi=list has what there is), or dtrain --np N"
#define APART "dtrain --np N starts ranks that train together, dtrain launch those of several "    \
    "hosts; or unset what is left over"
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

/* How many ranks there are by this source, at least; 0: it says nothing. */
static int64_t meant(const struct source *s)
{
    const int64_t size = number(s->size), rank = number(s->rank);

    return size > 0 ? size : rank > 0 ? rank + 1 : 0;
}

static bool launches(const struct source *s)
{
    return s->strength == TASK || s->strength == MPIRUN;
}

int64_t dt_comm_launcher(int64_t *rank)
{
    const int64_t pmix = number("PMIX_RANK"), pmi = number("PMI_RANK");

    for (size_t i = 0; i < DT_COUNT_OF(sources); i++) {
        const int64_t size = number(sources[i].size);
        if (!launches(&sources[i]) || size < 1)
            continue;
        *rank = DT_MAX(number(sources[i].rank), 0);
        return size;
    }
    *rank = DT_MAX(DT_MAX(pmix, pmi), 0);
    return pmix < 0 && pmi < 0 ? 1 : 0;
}

/* Without a launcher Open MPI would start a daemon of its own, which takes half a second and fails
 * where it finds no ssh: a world of one needs no MPI at all. And one task that a shell has from its
 * own launcher, as Slurm's have, is none: MPI could start in it once at most. */
bool dt_comm_launched(void)
{
    static const char *const sign[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
    int64_t rank;

    for (size_t i = 0; i < DT_COUNT_OF(sign); i++)
        if (getenv(sign[i]))
            return dt_comm_launcher(&rank) != 1;
    return false;
}

bool dt_comm_has_peers(void)
{
    int64_t rank;
    const int64_t ranks = dt_comm_launcher(&rank);

    return ranks > 1 || rank > 0 || getenv("OMPI_COMM_WORLD_SIZE");
}

/* "WORLD_SIZE=2 and RANK=1 in the environment" */
static const char *describe(const struct source *s, char text[200])
{
    const char *size = getenv(s->size), *rank = getenv(s->rank);

    if (s->strength == TYPED)
        snprintf(text, 200, "--np (or dtrain launch)");
    else
        snprintf(text, 200, "%s%s%.40s%s%s%s%.40s in the environment", size ? s->size : "",
                 size ? "=" : "", size ? size : "", size && rank ? " and " : "",
                 rank ? s->rank : "", rank ? "=" : "", rank ? rank : "");
    return text;
}

/* A size that is no number, or a rank beyond it. */
static bool contradicts_itself(const struct source *s)
{
    const char *size = getenv(s->size);
    const int64_t n = number(s->size);

    return s->strength == INHERITED && size && size[0] && (n < 1 || number(s->rank) >= n);
}

/* Two programs' variables that are inherited and differ, without a stronger source. */
static dt_status refuse_both(const struct source *a, const struct source *b)
{
    char first[200], second[200];

    if (a == b)
        return dt_fail(DT_CONFIG, "%s: not a number of ranks, and one of them from 0: unset them",
                       describe(a, first));
    return dt_fail(DT_CONFIG,
                   "%s, but %s: how many ranks are meant? unset those that are left over",
                   describe(a, first), describe(b, second));
}

dt_status dt_comm_check_asked(const dt_comm *c)
{
    const struct source *by = NULL, *weaker = NULL;
    bool launcher = false;
    char text[200];

    for (const struct source *s = sources; s < sources + DT_COUNT_OF(sources); s++) {
        const bool broken = contradicts_itself(s), again = launches(s) && launcher;
        const int64_t n = meant(s);
        launcher |= launches(s) && n > 0;
        if ((n == 0 && !broken) || again || (n == 1 && s->strength == TASK))
            continue;
        if (by && by->strength > INHERITED) {
            if (!weaker && n > 1 && (n != meant(by) || number(s->rank) > 0))
                weaker = s;
            continue;
        }
        if (broken || (by && n != meant(by)))
            return refuse_both(by ? by : s, s);
        by = s;
    }
    if (by && meant(by) > c->world)
        return dt_fail(DT_MISMATCH, "%s: %lld ranks are meant, but this run has %d: %s",
                       describe(by, text), (long long)meant(by), c->world, by->remedy);
    if (weaker && !c->own->quiet)
        dt_warn("%s: not what this run goes by, it has %d rank%s by %s", describe(weaker, text),
                c->world, c->world == 1 ? "" : "s", by->strength == TYPED ? "--np" : by->size);
    return DT_OK;
}

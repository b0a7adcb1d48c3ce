/* asked.c - how many ranks were meant: by who typed a number, by the launcher, by variables that
 * are inherited; and what is said where fewer have come. */
#include "comm.h"
#include <stdio.h>
#include <stdlib.h>

/* -1: not set, or no number from 0. */
static int64_t number(const char *variable)
{
    const char *text = getenv(variable), *end = text;
    int64_t n = -1;

    return text && text[0] && dt_whole_parse(text, &end, &n) && *end == '\0' && n >= 0 ? n : -1;
}

/* How many ranks there are by this source, at least; 0: it says nothing; -1: no number of ranks and
 * one of them. */
static int64_t meant(const dt_launcher *l)
{
    const char *size = getenv(l->size);
    const int64_t n = number(l->size), rank = number(l->rank);

    if (l->strength == DT_INHERITED && size && size[0] && (n < 1 || rank >= n))
        return -1;
    return l->sign && !getenv(l->sign) ? 0 : n > 0 ? n : rank > 0 ? rank + 1 : 0;
}

/* The first that is set; NULL: there is none. */
static const dt_launcher *launcher(void)
{
    for (const dt_launcher *l = dt_launchers; l->size; l++)
        if (l->strength > DT_INHERITED && l->strength < DT_TYPED && meant(l))
            return l;
    return NULL;
}

/* Whether there is one by which MPI starts. */
static bool wired(void)
{
    for (const dt_launcher *l = dt_launchers; l->size; l++)
        if (l->wires && (getenv(l->size) || getenv(l->rank)))
            return true;
    return false;
}

int64_t dt_comm_launcher(int64_t *rank)
{
    const dt_launcher *by = launcher();

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

bool dt_comm_has_peers(void)
{
    int64_t rank;

    return dt_comm_launcher(&rank) > 1 || rank > 0 || dt_launcher_mpirun();
}

/* "WORLD_SIZE=2 RANK=1" */
static const char *describe(const dt_launcher *l, char text[200])
{
    const char *size = getenv(l->size), *rank = getenv(l->rank);

    snprintf(text, 200, rank ? "%s=%.40s %s=%.40s" : "%s=%.40s", l->size, size ? size : "", l->rank,
             rank);
    return l->strength == DT_TYPED ? "--np (or launch)" : text;
}

dt_status dt_comm_check_asked(const dt_comm *c)
{
    const dt_launcher *by = NULL, *weaker = NULL, *const first = launcher();
    char text[200], other[200];

    for (const dt_launcher *l = dt_launchers; l->size; l++) {
        const bool launches = l->strength > DT_INHERITED && l->strength < DT_TYPED;
        const int64_t n = l->remedy[0] ? meant(l) : 0;
        if (n == 0 || (launches && l != first) || (n == 1 && l->strength == DT_TASK))
            continue;
        if (!by && n > 0)
            by = l;
        else if (!by || (by->strength == DT_INHERITED && n != meant(by)))
            return dt_fail(DT_CONFIG, "%s, %s: how many ranks are meant? unset what is left over",
                           describe(by ? by : l, text), describe(l, other));
        else if (!weaker && n > 1 && (n != meant(by) || number(l->rank) > 0))
            weaker = l;
    }
    if (by && meant(by) > c->world)
        return dt_fail(DT_MISMATCH, "%s: %lld ranks are meant, but this run has %d: %s",
                       describe(by, text), (long long)meant(by), c->world, by->remedy);
    if (weaker && !c->own->quiet)
        dt_warn("%s: not what this run goes by, it has %d rank%s by %s", describe(weaker, text),
                c->world, c->world == 1 ? "" : "s", by->strength == DT_TYPED ? "--np" : by->size);
    return DT_OK;
}

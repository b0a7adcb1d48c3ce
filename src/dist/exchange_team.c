/* exchange_team.c - ranks that work in one another's memory: where everything lies in
 * the node's block, and how they wait for each other without messages.
 *
 * The block holds every rank's slots and extra memory; a second, small one a line of
 * counters per rank. A rank writes its slots during backward, then each rank reads its
 * slice of all slots, and only then writes memory that others read. Three counters keep that
 * apart: slices of a bucket are read when all ranks have folded it; weights are written when
 * all have finished backward; slots and weights belong to the next step when all have published. */
#include "exchange_row.h"
#include "spans.h"

#include <stdlib.h>

/* ---- Who and where --------------------------------------------------------------- */

int dt_exchange_teams(const dt_exchange *x)
{
    return x->shares ? x->comm->nodes : x->comm->world;
}

int dt_exchange_team(const dt_exchange *x)
{
    return x->shares ? x->comm->node : x->comm->rank;
}

int dt_exchange_team_first(const dt_exchange *x, int team)
{
    return x->shares ? x->comm->node_start[team] : team;
}

/* Bounds of groups of leaves: the ranks of my team, or all teams. */
static int team_bounds(const dt_exchange *x, bool inside, int *bound)
{
    const int team = dt_exchange_team(x);
    const int first = inside ? dt_exchange_team_first(x, team) : 0;
    const int end = inside ? dt_exchange_team_first(x, team + 1) : dt_exchange_teams(x);

    for (int i = first; i < end; i++)
        dt_shards_of(x->shards, x->comm->world, inside ? i : dt_exchange_team_first(x, i),
                     &bound[i - first], &bound[i - first + 1]);
    if (!inside)
        bound[end] = x->shards;
    return end - first;
}

dt_status dt_exchange_team_folds(dt_exchange *x)
{
    int *bound = NULL;
    dt_status st;

    dt_fold_release(&x->inner);
    dt_fold_release(&x->outer);
    DT_TRY(dt_calloc(&bound, (size_t)x->comm->world + 1, sizeof *bound, "the exchange"));
    const int ranks = team_bounds(x, true, bound);
    DT_GO(st, dt_fold_init_groups(&x->inner, bound, ranks, false), out);
    const int teams = team_bounds(x, false, bound);
    st = dt_fold_init_groups(&x->outer, bound, teams, true);

out:
    free(bound);
    return st;
}

int dt_exchange_slots_of(const dt_exchange *x, int r)
{
    int first, end;

    dt_shards_of(x->shards, x->comm->world, r, &first, &end);
    return x->lockstep ? end - first : dt_counter_slots(first, end);
}

int dt_exchange_partial_slot(const dt_exchange *x, int r, int part)
{
    int first, end;

    if (!x->lockstep)
        return part;
    dt_shards_of(x->shards, x->comm->world, r, &first, &end);
    return (int)x->fold.part[x->fold.start[r] + part].first - first;
}

float *dt_exchange_team_partial(const dt_exchange *x, int r, int part)
{
    return x->base[r - x->team_first] + (size_t)dt_exchange_partial_slot(x, r, part) * x->floats;
}

/* Floats of one rank's slots and extra memory. */
static size_t team_region(const dt_exchange *x, int rank)
{
    const size_t extra = x->comm->world > 1 && x->row->extra ? x->row->extra(x, rank) : 0;
    return (size_t)dt_exchange_slots_of(x, rank) * x->floats + dt_align(extra, 16);
}

/* The largest node's, because a block is as large on all nodes. */
size_t dt_exchange_block(const dt_exchange *x)
{
    size_t most = 0;

    if (!x->shares)
        return team_region(x, x->comm->rank);
    for (int t = 0; t < x->comm->nodes; t++) {
        const int first = x->comm->node_start[t], end = x->comm->node_start[t + 1];
        size_t floats = 0;
        for (int r = first; r < end; r++)
            floats += team_region(x, r);
        most = DT_MAX(floats, most);
    }
    return most;
}

dt_status dt_exchange_bind(dt_exchange *x, float *memory)
{
    const int team = dt_exchange_team(x), mine = x->comm->rank;
    float *at = memory;

    x->team_first = dt_exchange_team_first(x, team);
    x->team_ranks = dt_exchange_team_first(x, team + 1) - x->team_first;
    DT_TRY(dt_calloc(&x->base, (size_t)x->team_ranks, sizeof *x->base, "the exchange"));
    for (int i = 0; i < x->team_ranks; i++) {
        x->base[i] = at;
        at += team_region(x, x->team_first + i);
    }
    x->memory = x->sum = x->base[mine - x->team_first];
    x->extra = dt_exchange_slot(x, x->slots);
    return DT_OK;
}

dt_status dt_exchange_open_lines(dt_exchange *x)
{
    const size_t bytes = (size_t)x->comm->world * sizeof *x->line;
    void *memory = NULL;
    const char *why = NULL;

    if (!x->shares)
        return DT_OK;
    DT_TRY(dt_node_mem_create(&x->lines, x->comm, bytes, "the exchange's counters", &memory, &why));
    if (!memory)
        return dt_fail(DT_NOMEM, "exchange %s: counters: %s; use --exchange p2p", x->row->name,
                       why);
    x->line = memory;
    return DT_OK;
}

/* ---- Slices ---------------------------------------------------------------------- */

dt_span dt_exchange_own_slice(const dt_exchange *x, size_t bucket)
{
    return dt_spans_slice(x->bucket[bucket], x->comm->rank - x->team_first, x->team_ranks);
}

dt_status dt_exchange_own_slices(dt_exchange *x)
{
    dt_span *owned = NULL;

    DT_TRY(dt_calloc(&owned, x->buckets, sizeof *owned, "the exchange"));
    free(x->owned);
    x->owned = owned;
    x->spans = 0;
    for (size_t b = 0; b < x->buckets; b++) {
        const dt_span s = dt_exchange_own_slice(x, b);
        if (s.count > 0)
            x->owned[x->spans++] = s;
    }
    return DT_OK;
}

/* ---- Progress -------------------------------------------------------------------- */

void dt_exchange_tell(dt_exchange *x, dt_exchange_mark which, uint64_t count)
{
    if (x->line)
        atomic_store_explicit(&x->line[x->comm->rank - x->team_first].count[which], count,
                              memory_order_release);
}

bool dt_exchange_all(const dt_exchange *x, dt_exchange_mark which, uint64_t count)
{
    for (int i = 0; x->line && i < x->team_ranks; i++)
        if (atomic_load_explicit(&x->line[i].count[which], memory_order_acquire) < count)
            return false;
    return true;
}

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

dt_status dt_exchange_form_teams(dt_exchange *x, bool shares)
{
    const int world = x->comm->world;

    x->shares = shares;
    x->teams = shares ? x->comm->nodes : world;
    x->team_ranks = world / x->teams;
    x->team = x->comm->rank / x->team_ranks;
    x->team_first = x->team * x->team_ranks;
    dt_fold_release(&x->inner);
    dt_fold_release(&x->outer);
    DT_TRY(dt_fold_init(&x->inner,
                        &(dt_groups){.shards = x->shards,
                                     .world = world,
                                     .first = x->team_first,
                                     .step = 1,
                                     .count = x->team_ranks},
                        false));
    return dt_fold_init(
        &x->outer,
        &(dt_groups){.shards = x->shards, .world = world, .step = x->team_ranks, .count = x->teams},
        true);
}

int dt_exchange_slots_of(const dt_exchange *x, int r)
{
    int first, end;

    dt_shards_of(x->shards, x->comm->world, r, &first, &end);
    return x->lockstep ? end - first : dt_counter_slots(first, end);
}

void dt_exchange_team_operands(dt_exchange *x, const dt_fold *f, size_t at)
{
    for (int r = 0; r < x->team_ranks; r++)
        for (int i = f->start[r]; i < f->start[r + 1]; i++)
            x->operand[i] =
                (dt_operand){.at = dt_exchange_team_partial(x, r, i - f->start[r]) + at};
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
    for (int t = 0; t < x->teams; t++) {
        size_t floats = 0;
        for (int i = 0; i < x->team_ranks; i++)
            floats += team_region(x, t * x->team_ranks + i);
        most = DT_MAX(floats, most);
    }
    return most;
}

dt_span dt_exchange_own_slice(const dt_exchange *x, size_t bucket)
{
    return dt_spans_slice(x->bucket[bucket], x->comm->rank - x->team_first, x->team_ranks);
}

dt_status dt_exchange_bind(dt_exchange *x, float *memory)
{
    DT_TRY(dt_calloc(&x->base, (size_t)x->team_ranks, sizeof *x->base, "the exchange"));
    for (int i = 0; i < x->team_ranks; i++) {
        x->base[i] = memory;
        memory += team_region(x, x->team_first + i);
    }
    x->memory = x->sum = x->base[x->comm->rank - x->team_first];
    x->extra = dt_exchange_slot(x, x->slots);
    for (size_t b = 0; b < x->buckets && x->shares; b++) {
        const dt_span s = dt_exchange_own_slice(x, b);
        if (s.count > 0)
            x->owned[x->spans++] = s;
    }
    if (!x->shares)
        x->owned[x->spans++] = (dt_span){0, x->floats};
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

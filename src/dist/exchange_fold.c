/* exchange_fold.c - a rank's own shards: where backward writes them, and folding them
 * bucket by bucket in the order of the tree. */
#include "exchange_row.h"

#include <assert.h>

enum { SLOT_BLOCK = 16384 }; /* floats of each slot at once; a few fit into a core's cache */

/* slot[left] += slot[right], addition after addition; the leaves in slots [from, to) are
 * rounded before. Block by block, because all of it would leave the cache. */
static void fold_slots(dt_exchange *x, dt_span span, int from, int to, const dt_addition *add,
                       int adds)
{
    const size_t end = span.first + span.count;

    if (adds == 0 && from == to)
        return;
    for (size_t at = span.first; at < end; at += SLOT_BLOCK) {
        const size_t n = DT_MIN(end - at, SLOT_BLOCK);
        for (int slot = from; slot < to; slot++)
            dt_round_f32(dt_exchange_slot(x, slot) + at, n);
        for (int k = 0; k < adds; k++)
            dt_add_f32(dt_exchange_slot(x, add[k].left) + at,
                       dt_exchange_slot(x, add[k].right) + at, n);
    }
}

/* The last `count` of `parts` partial sums, from the right. */
static int fold_cascade(dt_addition *add, const int *slot, int parts, int count)
{
    for (int k = 0; k < count; k++)
        add[k] = (dt_addition){slot[parts - k - 2], slot[parts - k - 1]};
    return count;
}

dt_status dt_exchange_fold_plan(dt_exchange *x)
{
    const int leaves = x->end - x->first;
    dt_counter k = {.depth = 0};
    int held[DT_COUNTER_DEPTH];

    DT_TRY(dt_calloc(&x->add, (size_t)leaves, sizeof *x->add, "the exchange"));
    for (int leaf = 0; leaf < leaves && x->lockstep; leaf++) {
        const int top = k.depth;
        held[top] = leaf;
        const int merges = dt_counter_push(&k, (dt_subtree){(unsigned)(x->first + leaf), 1});
        x->adds += fold_cascade(x->add + x->adds, held, top + 1, merges);
    }
    return DT_OK;
}

/* ---- Leaves ---------------------------------------------------------------------- */

float *dt_exchange_leaf(dt_exchange *x)
{
    const int shard = x->next;

    assert(!x->writing && shard < x->end);
    x->next++;
    x->folded = 0;
    x->writing = !x->lockstep || x->next == x->end;
    if (x->lockstep)
        return dt_exchange_slot(x, shard - x->first);
    x->leaf = x->counter.depth;
    x->merges = dt_counter_push(&x->counter, (dt_subtree){(unsigned)shard, 1});
    return dt_exchange_slot(x, x->leaf);
}

static void fold_leaves(dt_exchange *x, dt_span span)
{
    const int first = x->lockstep ? 0 : x->leaf, leaves = x->lockstep ? x->end - x->first : 1,
              end = x->bf16 ? first + leaves : first; /* of those to be rounded */
    dt_addition add[DT_COUNTER_DEPTH];
    int slot[DT_COUNTER_DEPTH];

    if (x->lockstep) {
        fold_slots(x, span, first, end, x->add, x->adds);
        return;
    }
    for (int i = 0; i <= x->leaf; i++)
        slot[i] = i;
    fold_slots(x, span, first, end, add, fold_cascade(add, slot, x->leaf + 1, x->merges));
}

/* In a world of one the partial sums are all there are. */
static void fold_alone(dt_exchange *x, dt_span span)
{
    dt_addition add[DT_COUNTER_DEPTH];
    int slot[DT_COUNTER_DEPTH];

    for (int part = 0; part < x->partials; part++)
        slot[part] = dt_exchange_partial_slot(x, 0, part);
    fold_slots(x, span, 0, 0, add, fold_cascade(add, slot, x->partials, x->partials - 1));
}

void dt_exchange_fold_partials(dt_exchange *x, dt_span span)
{
    for (int part = 1; part < x->partials; part++)
        dt_add_f32(dt_exchange_slot(x, 0) + span.first, dt_exchange_partial(x, part) + span.first,
                   span.count);
}

/* The leaves' bucket is final; with the last leaf, so are the rank's partial sums. */
static dt_status fold_bucket(dt_exchange *x, size_t b)
{
    fold_leaves(x, x->bucket[b]);
    if (x->next < x->end)
        return DT_OK;
    if (x->comm->world > 1)
        return x->row->start ? x->row->start(x, b) : DT_OK;
    fold_alone(x, x->bucket[b]);
    return DT_OK;
}

dt_status dt_exchange_ready(dt_exchange *x, size_t floats_done)
{
    if (floats_done > x->floats)
        return dt_fail(DT_BUG, "%zu floats of %zu are done", floats_done, x->floats);
    for (; x->writing && x->folded < x->buckets; x->folded++) {
        const dt_span *b = &x->bucket[x->folded];
        if (b->first + b->count > floats_done)
            break;
        DT_TRY(fold_bucket(x, x->folded));
    }
    if (x->folded == x->buckets)
        x->writing = false;
    return x->comm->world > 1 && x->row->poll ? x->row->poll(x) : DT_OK;
}

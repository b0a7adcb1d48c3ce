/* exchange_fold.c - a rank's own shards: where backward writes them, and folding them
 * bucket by bucket in the order of the tree. */
#include "exchange_row.h"

#include <assert.h>
#include <stdlib.h>

/* In lockstep each leaf has a slot of its own, and all are folded at once. */
dt_status dt_exchange_fold_plan(dt_exchange *x)
{
    const int leaves = x->end - x->first;
    int *bound = NULL;

    if (!x->lockstep)
        return DT_OK;
    DT_TRY(dt_calloc(&bound, (size_t)leaves + 1, sizeof *bound, "the exchange"));
    for (int i = 0; i <= leaves; i++)
        bound[i] = x->first + i;
    const dt_status st = dt_fold_init(&x->leaves, bound, leaves, false);
    free(bound);
    return st;
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

/* A span of slots [first, first + operands); those from `leaf` on are leaves. */
static void fold_slots(dt_exchange *x, dt_span span, const dt_fold *f, int first, int leaf)
{
    for (int i = 0; i < f->operands; i++)
        x->operand[i] =
            (dt_operand){dt_exchange_slot(x, first + i) + span.first,
                         x->bf16 && first + i >= leaf ? DT_LEAF_ROUNDED : DT_LEAF_PLAIN};
    for (int root = 0; root < f->roots; root++)
        x->result[root] = dt_exchange_slot(x, first + (f->root ? f->root[root] : 0)) + span.first;
    dt_fold_run(f, &dt_fold_f32, x->operand, x->result, span.count, x->scratch);
}

static void fold_leaves(dt_exchange *x, dt_span span)
{
    dt_addition add[DT_COUNTER_DEPTH];

    if (x->lockstep) {
        fold_slots(x, span, &x->leaves, 0, 0);
        return;
    }
    const dt_fold f = dt_fold_cascade(add, x->merges + 1);
    if (f.additions > 0 || x->bf16)
        fold_slots(x, span, &f, x->leaf - x->merges, x->leaf);
}

/* In a world of one the partial sums are all there are. */
static void fold_alone(dt_exchange *x, dt_span span)
{
    void *sum = x->sum + span.first;

    for (int part = 0; part < x->partials; part++)
        x->operand[part] = (dt_operand){.at = dt_exchange_partial(x, part) + span.first};
    if (x->partials > 1)
        dt_fold_run(&x->fold, &dt_fold_f32, x->operand, &sum, span.count, x->scratch);
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
    if (x->comm->world == 1) {
        fold_alone(x, x->bucket[b]);
        return DT_OK;
    }
    x->started = b + 1;
    return x->row->start ? x->row->start(x, b) : DT_OK;
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
    return dt_exchange_poll(x);
}

/* exchange_fold.c - a rank's own shards: where backward writes them, and folding them
 * bucket by bucket in the order of the tree. */
#include "exchange_row.h"

#include <assert.h>

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

/* Fold a span of slots [first, first + operands), those from `leaf` on being leaves, into slots
 * from `first` on. */
static void fold_slots(dt_exchange *x, dt_span span, const dt_fold *f, int first, int leaf)
{
    for (int i = 0; i < f->operands; i++)
        x->operand[i] =
            (dt_operand){dt_exchange_slot(x, first + i) + span.first,
                         x->bf16 && first + i >= leaf ? DT_LEAF_ROUNDED : DT_LEAF_PLAIN};
    for (int root = 0; root < f->roots; root++)
        x->result[root] = dt_exchange_slot(x, first + root) + span.first;
    dt_fold_run(f, &dt_fold_f32, x->operand, x->result, span.count, x->scratch);
}

static void fold_leaves(dt_exchange *x, dt_span span)
{
    dt_fold_part part[DT_COUNTER_DEPTH];
    const dt_fold f = dt_fold_cascade(part, x->merges + 1);

    if (x->lockstep)
        fold_slots(x, span, &x->leaves, 0, 0);
    else if (x->merges > 0 || x->bf16)
        fold_slots(x, span, &f, x->leaf - x->merges, x->leaf);
}

void dt_exchange_fold_partials(dt_exchange *x, dt_span span)
{
    for (int part = 1; part < x->partials; part++)
        dt_add_f32(dt_exchange_slot(x, 0) + span.first, dt_exchange_slot(x, part) + span.first,
                   span.count);
}

/* The leaves' bucket is final; with the last leaf, so are the rank's partial sums. */
static dt_status fold_bucket(dt_exchange *x, size_t b)
{
    fold_leaves(x, x->bucket[b]);
    if (x->next < x->end)
        return DT_OK;
    if (x->comm->world == 1) { /* the partial sums are all there are */
        fold_slots(x, x->bucket[b], &x->fold, 0, x->slots);
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

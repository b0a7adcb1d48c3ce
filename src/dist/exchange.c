/* exchange.c - what all exchanges share: the table, buckets, and folding own shards. */
#include "exchange.h"
#include "spans.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const dt_exchange_row *const exchange_table[] = {
#define X(name) &dt_exchange_row_##name,
    DT_EXCHANGE_LIST(X)
#undef X
};
enum { EXCHANGE_ROWS = sizeof exchange_table / sizeof *exchange_table };

/* ---- Choosing a row -------------------------------------------------------------- */

static bool exchange_declines(const dt_exchange *x, const dt_exchange_row *row)
{
    return x->comm->world > 1 && row->longest(x) > INT_MAX;
}

/* From (same) arguments alone, so all ranks choose alike. */
static dt_status exchange_choose(dt_exchange *x, const char *name)
{
    const bool any = strcmp(name, "auto") == 0;
    bool known = any;

    for (int i = 0; i < EXCHANGE_ROWS; i++) {
        if (!any && strcmp(name, exchange_table[i]->name) != 0)
            continue;
        known = true;
        if (!exchange_declines(x, exchange_table[i])) {
            x->row = exchange_table[i];
            return DT_OK;
        }
    }
    if (!known)
        return dt_fail(
            DT_CONFIG,
            "unknown exchange '%s'; use one of: auto" DT_EXCHANGE_LIST(DT_WORD), name);
    return dt_fail(DT_UNSUPPORTED,
                   "exchange %s: a message would hold more than %d floats; use "
                   "--exchange tree with smaller buckets",
                   name, INT_MAX);
}

/* ---- Planning, opening, closing -------------------------------------------------- */

static dt_status exchange_cut(dt_exchange *x, const dt_exchange_opts *o)
{
    DT_TRY(dt_spans_check(o));
    DT_TRY(dt_calloc(&x->tensor, o->tensors, sizeof *x->tensor, "the exchange"));
    DT_TRY(dt_calloc(&x->bucket, o->tensors, sizeof *x->bucket, "the exchange"));
    memcpy(x->tensor, o->tensor, o->tensors * sizeof *x->tensor);
    x->tensors = o->tensors;
    x->buckets = dt_spans_buckets(o, x->bucket);
    return DT_OK;
}

/* All that follows from the options, before any memory of the slab's size is taken. */
static dt_status exchange_plan(dt_exchange *x, const dt_exchange_opts *o)
{
    const int world = x->comm->world, rank = x->comm->rank;

    DT_TRY(dt_fold_init(&x->fold, o->shards, world));
    DT_TRY(dt_calloc(&x->operand, (size_t)x->fold.operands, sizeof *x->operand,
                     "the exchange"));
    dt_shards_of(o->shards, world, rank, &x->first, &x->end);
    x->next = x->first;
    x->floats = o->floats;
    x->slots = dt_counter_slots(x->first, x->end);
    x->parts = dt_exchange_parts(x, rank);
    DT_TRY(exchange_cut(x, o));
    return exchange_choose(x, o->name);
}

static dt_status exchange_create(dt_exchange **x, dt_comm *c, const dt_exchange_opts *o)
{
    dt_exchange *made = NULL;

    DT_TRY(dt_calloc(&made, 1, sizeof *made, "the exchange"));
    made->comm = c;
    made->mpi = MPI_COMM_NULL;
    const dt_status st = exchange_plan(made, o);
    if (st != DT_OK)
        dt_exchange_close(made);
    else
        *x = made;
    return st;
}

dt_status dt_exchange_slabs(dt_comm *c, const dt_exchange_opts *opts, size_t *slabs)
{
    dt_exchange *x = NULL;

    DT_TRY(exchange_create(&x, c, opts));
    const size_t extra = c->world > 1 && x->row->extra ? x->row->extra(x) : 0;
    *slabs = (size_t)x->slots + (extra + opts->floats - 1) / opts->floats;
    dt_exchange_close(x);
    return DT_OK;
}

static dt_status exchange_bind(dt_exchange *x, float *memory)
{
    x->memory = memory;
    x->extra = dt_exchange_slot(x, x->slots);
    x->sum = memory;
    return x->comm->world > 1 && x->row->open ? x->row->open(x) : DT_OK;
}

dt_status dt_exchange_open(dt_exchange **x, dt_comm *c, const dt_exchange_opts *opts,
                           float *memory)
{
    dt_exchange *made = NULL;
    dt_status st = exchange_create(&made, c, opts);

    if (st == DT_OK)
        st = exchange_bind(made, memory);
    DT_GO(st, dt_comm_agree(c, st), out);
    if (c->world > 1) {
        const int code = MPI_Comm_dup(c->all, &made->mpi);
        if (code != MPI_SUCCESS)
            DT_GO(st, dt_comm_error(code, "MPI_Comm_dup"), out);
    }
    *x = made;

out:
    if (st != DT_OK)
        dt_exchange_close(made);
    return st;
}

void dt_exchange_close(dt_exchange *x)
{
    if (!x)
        return;
    if (x->state && x->row->close)
        x->row->close(x);
    if (x->mpi != MPI_COMM_NULL && !dt_comm_alone())
        MPI_Comm_free(&x->mpi);
    dt_fold_release(&x->fold);
    free(x->operand);
    free(x->tensor);
    free(x->bucket);
    free(x);
}

const char *dt_exchange_name(const dt_exchange *x)
{
    return x->row->name;
}

bool dt_exchange_exact(const dt_exchange *x)
{
    return x->row->exact;
}

/* ---- Folding own shards ---------------------------------------------------------- */

enum { FOLD_BLOCK = 16384 }; /* floats; a few slots of it fit into a core's cache */

/* slot[top - 1] += slot[top], then slot[top - 2] += slot[top - 1], ... */
static void exchange_cascade(dt_exchange *x, dt_span span, int top, int merges)
{
    const size_t end = span.first + span.count;

    for (size_t at = span.first; at < end; at += FOLD_BLOCK) {
        const size_t n = end - at < FOLD_BLOCK ? end - at : FOLD_BLOCK;
        for (int m = 0; m < merges; m++)
            dt_add_f32(dt_exchange_slot(x, top - m - 1) + at,
                       dt_exchange_slot(x, top - m) + at, n);
    }
}

void dt_exchange_fold_parts(dt_exchange *x, dt_span span)
{
    for (int part = 1; part < x->parts; part++)
        dt_add_f32(dt_exchange_slot(x, 0) + span.first,
                   dt_exchange_slot(x, part) + span.first, span.count);
}

float *dt_exchange_leaf(dt_exchange *x)
{
    assert(!x->writing && x->next < x->end);
    x->writing = true;
    x->folded = 0;
    x->leaf = x->counter.depth;
    x->merges = dt_counter_push(&x->counter, (dt_subtree){(unsigned)x->next, 1});
    return dt_exchange_slot(x, x->leaf);
}

/* The leaf's bucket is final; with the last leaf, so are the rank's partial sums. */
static dt_status exchange_bucket(dt_exchange *x, size_t b)
{
    exchange_cascade(x, x->bucket[b], x->leaf, x->merges);
    if (x->next + 1 < x->end)
        return DT_OK;
    if (x->comm->world == 1) {
        exchange_cascade(x, x->bucket[b], x->parts - 1, x->parts - 1);
        return DT_OK;
    }
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
        DT_TRY(exchange_bucket(x, x->folded));
    }
    if (x->writing && x->folded == x->buckets) {
        x->writing = false;
        x->next++;
    }
    return x->comm->world > 1 && x->row->poll ? x->row->poll(x) : DT_OK;
}

/* ---- Finishing a step ------------------------------------------------------------ */

static double exchange_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

dt_status dt_exchange_finish(dt_exchange *x, const float **sum, dt_span *owned)
{
    const double start = exchange_seconds();

    if (x->writing || x->next != x->end)
        return dt_fail(DT_BUG, "a gradient sum over shards [%d, %d) ended at %d",
                       x->first, x->end, x->next);
    if (x->comm->world > 1)
        DT_TRY(x->row->finish(x));
    x->next = x->first;
    x->counter.depth = 0;
    x->stats.wait_s += exchange_seconds() - start;
    *sum = x->sum;
    *owned = (dt_span){0, x->floats};
    return DT_OK;
}

dt_status dt_exchange_publish(dt_exchange *x)
{
    (void)x; /* every rank owns, and updates, all of it */
    return DT_OK;
}

/* ---- Statistics ------------------------------------------------------------------ */

void dt_exchange_count_sent(dt_exchange *x, size_t floats)
{
    x->stats.bytes_sent += floats * sizeof(float);
    x->stats.messages++;
}

void dt_exchange_count_received(dt_exchange *x, size_t floats)
{
    x->stats.bytes_received += floats * sizeof(float);
    x->stats.messages++;
}

void dt_exchange_count_allreduce(dt_exchange *x, size_t floats)
{
    const size_t world = (size_t)x->comm->world,
                 moved = 2 * (world - 1) * floats / world;

    dt_exchange_count_sent(x, moved);
    dt_exchange_count_received(x, moved);
}

void dt_exchange_stats_get(const dt_exchange *x, dt_exchange_stats *s)
{
    *s = x->stats;
}

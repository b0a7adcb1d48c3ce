/* exchange_open.c - opening an exchange: the choice of its row, the teams, and where everything
 * lies in memory. */
#include "exchange_row.h"

#include <assert.h>

const dt_exchange_row *dt_exchange_rows[DT_EXCHANGES + 1] = {&dt_exchange_row_shared,
                                                             &dt_exchange_row_tree};
const dt_compress *dt_compress_rows;

/* ---- Choosing a row -------------------------------------------------------------- */

static bool exchange_row_shares(const dt_exchange *x, const dt_exchange_row *row)
{
    const dt_comm *c = x->comm;

    for (int n = 0; n < c->nodes && c->world > 1; n++)
        if (c->own->node_start[n + 1] - c->own->node_start[n] != c->world / c->nodes)
            return false;
    return c->nodes < c->world && !x->apart &&
           row->shares == (c->nodes == 1 ? DT_SHARES_NODE : DT_SHARES_NODES);
}

static bool exchange_row_declines(const dt_exchange *x, const dt_exchange_row *row)
{
    return x->comm->world > 1 && row->shares == DT_SHARES_NODE && !exchange_row_shares(x, row);
}

/* From (same) arguments alone, so all ranks choose alike. */
static dt_status exchange_choose(dt_exchange *x, const char *name)
{
    const bool any = strcmp(name, "auto") == 0;

    for (size_t i = 0; dt_exchange_rows[i] && !x->named; i++)
        if (any ? !exchange_row_declines(x, dt_exchange_rows[i])
                : strcmp(name, dt_exchange_rows[i]->name) == 0)
            x->named = dt_exchange_rows[i];
    if (!x->named && dt_words_have(DT_EXCHANGE_LIST(DT_WORD), name))
        return dt_fail(DT_UNSUPPORTED, "exchange %s: this build is the core (DTRAIN_EXTRAS)", name);
    if (!x->named)
        return dt_fail(DT_CONFIG,
                       "--exchange %s is not for training; use one of: "
                       "auto" DT_EXCHANGE_LIST(DT_WORD),
                       name);
    if (exchange_row_declines(x, x->named))
        return dt_fail(DT_UNSUPPORTED,
                       "exchange %s: the ranks run on %d nodes, which share no memory; use "
                       "--exchange tree",
                       x->named->name, x->comm->nodes);
    x->row = x->comm->world > 1 ? x->named : &dt_exchange_row_shared;
    return DT_OK;
}

static dt_status exchange_compress(dt_exchange *x, const char *word)
{
    static const dt_compress none = {.name = "none"};

    x->compress = &none;
    if (!word || strcmp(word, none.name) == 0)
        return DT_OK;
    for (x->compress = dt_compress_rows; x->compress && x->compress->name; x->compress++)
        if (strcmp(word, x->compress->name) == 0)
            return DT_OK;
    return dt_fail(DT_UNSUPPORTED, "--grad-compress %s: this build is the core (DTRAIN_EXTRAS)",
                   word);
}

/* The tree over `count` groups of `step` ranks each, from rank `first` on. */
static dt_status exchange_fold(const dt_exchange *x, dt_fold *f, int first, int step, int count,
                               bool whole)
{
    return dt_fold_init(f, (dt_groups){x->shards, x->comm->world, first, step, count}, NULL, whole);
}

static dt_status exchange_form_teams(dt_exchange *x)
{
    const int world = x->comm->world;

    x->shares = exchange_row_shares(x, x->row);
    x->teams = x->shares ? x->comm->nodes : world;
    x->team_ranks = world / x->teams;
    x->team_first = x->comm->rank / x->team_ranks * x->team_ranks;
    DT_TRY(exchange_fold(x, &x->inner, x->team_first, 1, x->team_ranks, false));
    DT_TRY(exchange_fold(x, &x->outer, 0, x->team_ranks, x->teams, true));
    x->group_teams = dt_fold_group(x->teams, x->comm->own->few);
    const int each = x->group_teams * x->team_ranks, first = x->comm->rank / each * each;
    DT_TRY(exchange_fold(x, &x->within, first, x->team_ranks, x->group_teams, each == world));
    return exchange_fold(x, &x->across, 0, each, world / each, true);
}

/* ---- Memory ---------------------------------------------------------------------- */

/* A rank's slots, and residuals: what is left of each of its shards. */
static int exchange_slabs_of(const dt_exchange *x, int r, bool residuals)
{
    int first, end;

    dt_shards_of(x->shards, x->comm->world, r, &first, &end);
    if (first == end) /* a place for the sum */
        return 1;
    return (x->lockstep ? end - first : dt_counter_slots(first, end)) +
           (residuals && x->compress->quantise ? end - first : 0);
}

/* Floats of one rank's slots, residuals and extra memory. */
static size_t exchange_region(const dt_exchange *x, int rank)
{
    const size_t beside = x->row->beside ? x->floats : 0;
    const size_t extra = x->row->extra ? x->row->extra(x, rank) : beside;
    return (size_t)exchange_slabs_of(x, rank, true) * x->floats + dt_align(extra, 16);
}

/* The largest node's, because a block is as large on all nodes. */
static size_t exchange_block(const dt_exchange *x)
{
    size_t most = 0;

    if (!x->shares)
        return exchange_region(x, x->comm->rank);
    for (int t = 0; t < x->teams; t++) {
        size_t floats = 0;
        for (int i = 0; i < x->team_ranks; i++)
            floats += exchange_region(x, t * x->team_ranks + i);
        most = DT_MAX(floats, most);
    }
    return most;
}

static dt_status exchange_bind(dt_exchange *x, float *memory)
{
    DT_TRY(dt_calloc(&x->base, (size_t)x->team_ranks, sizeof *x->base, "the exchange"));
    for (int i = 0; i < x->team_ranks; i++) {
        x->base[i] = memory;
        memory += exchange_region(x, x->team_first + i);
    }
    x->memory = x->sum = x->base[x->comm->rank - x->team_first];
    x->residual = x->compress->quantise ? dt_exchange_slot(x, x->slots) : NULL;
    x->extra = dt_exchange_slot(x, exchange_slabs_of(x, x->comm->rank, true));
    if (x->row->beside)
        x->sum = x->extra;
    for (size_t b = 0; b < x->buckets && x->shares; b++) {
        const dt_span s = dt_exchange_own_slice(x, b);
        if (s.count > 0)
            x->owned[x->spans++] = s;
    }
    if (!x->shares)
        x->owned[x->spans++] = (dt_span){0, x->floats};
    return DT_OK;
}

/* What the exchange's ranks have in common. Collective. */
static dt_status exchange_meet(dt_exchange *x)
{
    const size_t bytes = (size_t)x->comm->world * sizeof *x->line;
    int64_t torn = x->comm->own->torn;

    DT_TRY(dt_comm_max_i64(x->comm, &torn, 1));
    dt_comm_free_left(x->comm, torn != 0);
    DT_MPI(MPI_Comm_dup(x->comm->own->all, &x->mpi));
    if (!x->shares)
        return DT_OK;
    DT_TRY(dt_node_slab_create(&x->lines, x->comm, bytes, "the exchange's counters"));
    x->line = x->lines.mem;
    return DT_OK;
}

/* ---- Creating, opening, closing -------------------------------------------------- */

static dt_status exchange_cut(dt_exchange *x, const dt_exchange_opts *o)
{
    DT_TRY(dt_calloc(&x->tensor, o->tensors, sizeof *x->tensor, "the exchange"));
    DT_TRY(dt_calloc(&x->bucket, o->tensors, sizeof *x->bucket, "the exchange"));
    DT_TRY(dt_calloc(&x->final_ns, o->tensors, sizeof *x->final_ns, "the exchange"));
    memcpy(x->tensor, o->tensor, o->tensors * sizeof *x->tensor);
    x->tensors = o->tensors;
    x->buckets = dt_spans_buckets(o, x->bucket);
    const size_t most = (size_t)DT_MAX(x->fold.operands, x->comm->world);
    DT_TRY(dt_calloc(&x->request, DT_MAX(most, x->buckets), sizeof *x->request, "the exchange"));
    return dt_calloc(&x->owned, x->buckets, sizeof *x->owned, "the exchange");
}

/* All that follows from the options, before any memory of the slab's size is taken. */
static dt_status exchange_plan(dt_exchange *x, const dt_exchange_opts *o)
{
    const int world = x->comm->world, rank = x->comm->rank;
    const size_t slabs = 8 * ((size_t)o->shards + (size_t)world); /* and more are never needed */

    assert(o->shards >= 1);
    if (o->floats > PTRDIFF_MAX / sizeof(float) / slabs)
        return dt_fail(DT_NOMEM, "no memory holds gradients of %zu numbers in %d shards", o->floats,
                       o->shards);
    DT_TRY(dt_fold_init(&x->fold, (dt_groups){o->shards, world, 0, 1, world}, NULL, true));
    DT_TRY(dt_calloc(&x->operand, (size_t)o->shards + 1, sizeof *x->operand, "the exchange"));
    DT_TRY(dt_calloc(&x->result, (size_t)o->shards + 1, sizeof *x->result, "the exchange"));
    dt_shards_of(o->shards, world, rank, &x->first, &x->end);
    x->next = x->first;
    x->floats = o->floats;
    x->shards = o->shards;
    x->lockstep = o->lockstep;
    x->apart = o->apart;
    x->writing = x->first == x->end; /* nothing is to come */
    DT_TRY(exchange_compress(x, o->compress));
    x->threshold = (float)o->threshold;
    x->threads = DT_MAX(o->threads, 1);
    x->slots = exchange_slabs_of(x, rank, false);
    x->partials = dt_fold_held(&x->fold, rank);
    if (x->lockstep) /* each leaf has a slot of its own, and all are folded at once */
        DT_TRY(dt_fold_init(&x->leaves,
                            (dt_groups){o->shards, o->shards, x->first, 1, x->end - x->first}, NULL,
                            false));
    DT_TRY(exchange_cut(x, o));
    DT_TRY(exchange_choose(x, o->name));
    return exchange_form_teams(x);
}

dt_status dt_exchange_create(dt_exchange **x, dt_comm *c, const dt_exchange_opts *opts,
                             dt_exchange_needs *needs)
{
    *x = NULL;
    DT_TRY(dt_calloc(x, 1, sizeof **x, "the exchange"));
    (*x)->comm = c;
    (*x)->mpi = MPI_COMM_NULL;
    DT_TRY(exchange_plan(*x, opts));
    *needs = (dt_exchange_needs){.shares = (*x)->shares,
                                 .slabs = (exchange_block(*x) + opts->floats - 1) / opts->floats};
    return DT_OK;
}

static dt_status exchange_take(dt_exchange *x, float *memory)
{
    const size_t bytes = exchange_block(x) * sizeof(float);
    const int deepest = DT_MAX(x->inner.depth, x->within.depth);
    const int depth = DT_MAX(DT_MAX(x->fold.depth, deepest), x->slots);

    DT_TRY(dt_calloc(&x->scratch, (size_t)(depth * x->threads), DT_FOLD_BYTES, "the exchange"));
    DT_TRY(exchange_bind(x, memory));
    x->stats.memory = bytes / (size_t)x->team_ranks;
    return x->row->open ? x->row->open(x) : DT_OK;
}

dt_status dt_exchange_open(dt_exchange *x, float *memory)
{
    DT_TRY(dt_comm_agree(x->comm, exchange_take(x, memory)));
    return x->comm->world > 1 ? exchange_meet(x) : DT_OK;
}

bool dt_exchange_close(dt_exchange *x)
{
    dt_poll_set(0, NULL, x);
    if (!x)
        return true;
    const bool torn = x->teams > 1 && x->row->start && x->started > 0;
    if (x->state && x->row->close)
        x->row->close(x);
    free(x->state);
    if (x->mpi != MPI_COMM_NULL && !dt_comm_alone())
        dt_comm_leave(x->comm, x->mpi, torn);
    dt_slab_destroy(&x->lines);
    dt_fold *const fold[] = {&x->fold, &x->inner, &x->outer, &x->within, &x->across, &x->leaves};
    for (size_t i = 0; i < DT_COUNT_OF(fold); i++)
        dt_fold_release(fold[i]);
    DT_FREE(x->operand, x->result, x->scratch, x->request, x->owned, x->base, x->tensor, x->bucket,
            x->final_ns, x);
    return !torn;
}

const char *dt_exchange_name(const dt_exchange *x)
{
    return x->named->name;
}

bool dt_exchange_exact(const dt_exchange *x)
{
    return x->named->exact || x->compress->quantise;
}

/* exchange.c - what all exchanges share: the table and its choice, opening, finishing. */
#include "exchange_row.h"
#include "spans.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static const dt_exchange_row *const exchange_table[] = {
#define X(name) &dt_exchange_row_##name,
    DT_EXCHANGE_LIST(X)
#undef X
};
enum { EXCHANGE_ROWS = DT_COUNT_OF(exchange_table) };

/* ---- Choosing a row -------------------------------------------------------------- */

/* With x->row under trial: whether it declines. `why`: where it does, or where ranks cannot
 * share what they would; then in one line. */
static dt_status exchange_try(dt_exchange *x, const dt_exchange_opts *o, char *why, size_t room,
                              bool *declines)
{
    const bool would = x->comm->world > 1 && x->row->shares && x->row->shares(x);

    DT_TRY(dt_exchange_form_teams(x, would && !o->apart));
    *declines = x->comm->world > 1 && x->row->only_shared && !x->shares;
    why[0] = '\0';
    if (would && o->apart)
        snprintf(why, room, "exchange %s: %s; --exchange tree sends messages instead", x->row->name,
                 o->apart);
    else if (*declines)
        snprintf(why, room,
                 "exchange %s: the ranks run on %d nodes, which share no memory; use "
                 "--exchange tree",
                 x->row->name, x->comm->nodes);
    return DT_OK;
}

/* From (same) arguments alone, so all ranks choose alike. A named row that declines is an
 * error; that memory cannot be shared is a note, unless it is `quiet`. */
static dt_status exchange_choose(dt_exchange *x, const dt_exchange_opts *o, bool quiet)
{
    const bool any = strcmp(o->name, "auto") == 0;
    char why[512] = "";
    bool declines = true;

    for (int i = 0; i < EXCHANGE_ROWS && declines; i++) {
        if (!any && strcmp(o->name, exchange_table[i]->name) != 0)
            continue;
        x->row = exchange_table[i];
        DT_TRY(exchange_try(x, o, why, sizeof why, &declines));
        if (why[0] && o->apart && (any || !declines) && !quiet)
            dt_note("%s", why);
    }
    if (!x->row)
        return dt_fail(DT_CONFIG,
                       "unknown exchange '%s'; use one of: auto" DT_EXCHANGE_LIST(DT_WORD),
                       o->name);
    return declines ? dt_fail(DT_UNSUPPORTED, "%s", why) : DT_OK;
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
    return dt_calloc(&x->owned, x->buckets, sizeof *x->owned, "the exchange");
}

/* All that follows from the options, before any memory of the slab's size is taken. */
static dt_status exchange_plan(dt_exchange *x, const dt_exchange_opts *o, bool quiet)
{
    const int world = x->comm->world, rank = x->comm->rank;

    DT_TRY(dt_shards_check(o->shards, world));
    DT_TRY(dt_fold_init(
        &x->fold, &(dt_groups){.shards = o->shards, .world = world, .step = 1, .count = world},
        true));
    DT_TRY(dt_calloc(&x->operand, (size_t)o->shards + 1, sizeof *x->operand, "the exchange"));
    DT_TRY(dt_calloc(&x->result, (size_t)o->shards + 1, sizeof *x->result, "the exchange"));
    dt_shards_of(o->shards, world, rank, &x->first, &x->end);
    x->next = x->first;
    x->floats = o->floats;
    x->shards = o->shards;
    x->bf16 = o->bf16;
    x->lockstep = o->lockstep;
    x->slots = dt_exchange_slots_of(x, rank);
    x->partials = dt_exchange_partials(x, rank);
    if (x->lockstep) /* each leaf has a slot of its own, and all are folded at once */
        DT_TRY(dt_fold_init(&x->leaves,
                            &(dt_groups){.shards = o->shards,
                                         .world = o->shards,
                                         .first = x->first,
                                         .step = 1,
                                         .count = x->end - x->first},
                            false));
    DT_TRY(exchange_cut(x, o));
    return exchange_choose(x, o, quiet);
}

static dt_status exchange_create(dt_exchange **x, dt_comm *c, const dt_exchange_opts *o, bool quiet)
{
    dt_exchange *made = NULL;

    DT_TRY(dt_calloc(&made, 1, sizeof *made, "the exchange"));
    made->comm = c;
    made->mpi = MPI_COMM_NULL;
    const dt_status st = exchange_plan(made, o, quiet);
    if (st != DT_OK)
        dt_exchange_close(made);
    else
        *x = made;
    return st;
}

dt_status dt_exchange_plan(dt_comm *c, const dt_exchange_opts *opts, dt_exchange_needs *needs)
{
    dt_exchange *x = NULL;

    DT_TRY(exchange_create(&x, c, opts, false));
    *needs = (dt_exchange_needs){.shares = x->shares,
                                 .slabs = (dt_exchange_block(x) + opts->floats - 1) / opts->floats};
    dt_exchange_close(x);
    return DT_OK;
}

static dt_status exchange_open(dt_exchange *x, float *memory)
{
    const size_t bytes = dt_exchange_block(x) * sizeof(float);
    const int depth = DT_MAX(DT_MAX(x->fold.depth, x->inner.depth), x->slots);

    DT_TRY(dt_calloc(&x->scratch, (size_t)depth, DT_FOLD_BYTES, "the exchange"));
    DT_TRY(dt_exchange_bind(x, memory));
    x->stats.memory = bytes / (size_t)x->team_ranks;
    return x->comm->world > 1 && x->row->open ? x->row->open(x) : DT_OK;
}

static dt_status exchange_duplicate(dt_exchange *x)
{
    DT_MPI(MPI_Comm_dup(x->comm->all, &x->mpi));
    return DT_OK;
}

dt_status dt_exchange_open(dt_exchange **x, dt_comm *c, const dt_exchange_opts *opts, float *memory)
{
    dt_exchange *made = NULL;
    dt_status st = exchange_create(&made, c, opts, true);

    if (st == DT_OK)
        st = exchange_open(made, memory);
    DT_GO(st, dt_comm_agree(c, st), out);
    if (c->world > 1) {
        DT_GO(st, dt_comm_agree(c, exchange_duplicate(made)), out);
        DT_GO(st, dt_exchange_open_lines(made), out);
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
    free(x->state);
    if (x->mpi != MPI_COMM_NULL && !dt_comm_alone())
        MPI_Comm_free(&x->mpi);
    dt_node_mem_destroy(x->lines);
    dt_fold_release(&x->fold);
    dt_fold_release(&x->inner);
    dt_fold_release(&x->outer);
    dt_fold_release(&x->leaves);
    free(x->operand);
    free(x->result);
    free(x->scratch);
    free(x->owned);
    free(x->base);
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

bool dt_exchange_shares(const dt_exchange *x)
{
    return x->shares;
}

/* ---- Finishing a step ------------------------------------------------------------ */

/* Messages of this rank may still lie in MPI, which moves them only when it is called. */
static dt_status exchange_await(dt_exchange *x, dt_exchange_mark which, uint64_t count)
{
    int flag = 0;

    for (unsigned looks = 0; !dt_exchange_all(x, which, count); dt_comm_idle(x->comm, &looks))
        if (x->teams > 1)
            DT_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, x->mpi, &flag, MPI_STATUS_IGNORE));
    return DT_OK;
}

dt_status dt_exchange_poll(dt_exchange *x)
{
    for (size_t b = x->oldest; b < x->started; b++) {
        bool done = !x->row->advance;
        if (!done)
            DT_TRY(x->row->advance(x, b, &done));
        if (b == x->oldest && done)
            x->oldest++;
    }
    return DT_OK;
}

/* Until all buckets are complete. */
static dt_status exchange_drain(dt_exchange *x)
{
    for (unsigned looks = 0; x->oldest < x->started; dt_comm_idle(x->comm, &looks)) {
        const size_t before = x->oldest;
        DT_TRY(dt_exchange_poll(x));
        if (x->oldest != before) {
            looks = 0;
            dt_place_slice((int64_t)x->oldest);
        }
    }
    x->oldest = x->started = 0;
    return x->row->finish ? x->row->finish(x) : DT_OK;
}

dt_status dt_exchange_finish(dt_exchange *x, const float **sum, const dt_span **owned,
                             size_t *spans)
{
    const double began = dt_seconds();

    if (x->writing || x->next != x->end)
        return dt_fail(DT_BUG, "a gradient sum over shards [%d, %d) ended at %d", x->first, x->end,
                       x->next);
    dt_exchange_tell(x, DT_FINISHED, x->step + 1);
    if (x->comm->world > 1)
        DT_TRY(exchange_drain(x));
    x->step++;
    DT_TRY(exchange_await(x, DT_FINISHED, x->step));
    x->next = x->first;
    x->counter.depth = 0;
    x->stats.wait_s +=
        dt_comm_record_end(x->comm, began, "gradients", x->floats * (x->bf16 ? 2 : sizeof(float)));
    *sum = x->sum;
    *owned = x->owned;
    *spans = x->spans;
    return DT_OK;
}

dt_status dt_exchange_publish(dt_exchange *x)
{
    const double began = dt_seconds();

    x->published++;
    dt_exchange_tell(x, DT_PUBLISHED, x->published);
    DT_TRY(exchange_await(x, DT_PUBLISHED, x->published));
    x->stats.wait_s += dt_comm_record_end(x->comm, began, "weights", x->floats * sizeof(float));
    return DT_OK;
}

/* ---- Messages and statistics ------------------------------------------------------ */

void dt_exchange_count(dt_exchange *x, size_t bytes, int sent, int received)
{
    x->stats.bytes_sent += bytes * (size_t)sent;
    x->stats.bytes_received += bytes * (size_t)received;
    x->stats.messages += (uint64_t)(sent + received);
    dt_place_sent(bytes * (size_t)sent);
}

void dt_exchange_count_allreduce(dt_exchange *x, size_t floats)
{
    const size_t world = (size_t)x->comm->world;

    dt_exchange_count(x, 2 * (world - 1) * floats / world * sizeof(float), 1, 1);
}

static size_t exchange_bytes(size_t count, MPI_Datatype type)
{
    return count * (type == MPI_FLOAT ? sizeof(float) : sizeof(dt_bf16));
}

dt_status dt_exchange_send(dt_exchange *x, const void *data, size_t count, MPI_Datatype type,
                           int to, int tag, MPI_Request *r)
{
    int n = 0;

    if (count == 0)
        return DT_OK;
    DT_TRY(dt_comm_count(count, &n));
    DT_MPI(MPI_Isend(data, n, type, to, tag, x->mpi, r));
    dt_exchange_count(x, exchange_bytes(count, type), 1, 0);
    return DT_OK;
}

dt_status dt_exchange_receive(dt_exchange *x, void *data, size_t count, MPI_Datatype type, int from,
                              int tag, MPI_Request *r)
{
    int n = 0;

    if (count == 0)
        return DT_OK;
    DT_TRY(dt_comm_count(count, &n));
    DT_MPI(MPI_Irecv(data, n, type, from, tag, x->mpi, r));
    dt_exchange_count(x, exchange_bytes(count, type), 0, 1);
    return DT_OK;
}

void dt_exchange_cancel(MPI_Request *r, size_t count)
{
    for (size_t i = 0; r && i < count; i++) {
        if (r[i] == MPI_REQUEST_NULL)
            continue;
        MPI_Cancel(&r[i]);
        MPI_Request_free(&r[i]);
    }
}

void dt_exchange_stats_get(const dt_exchange *x, dt_exchange_stats *s)
{
    *s = x->stats;
}

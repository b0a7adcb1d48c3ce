/* exchange.c - a step of an exchange: leaves are folded bucket by bucket, in the order of the tree;
 * a row brings the ranks together; and what all rows use.
 *
 * Ranks of a team work in one another's memory and wait for each other without messages: a block
 * holds every rank's slots and extra memory, a second, small one a line of counters per rank. A
 * rank writes its slots during backward, then each rank reads its slice of all slots, and only then
 * writes memory that others read. Three counters keep that apart: slices of a bucket are read when
 * all ranks have folded it; weights are written when all have finished backward; slots and weights
 * belong to the next step when all have published. */
#include "exchange_row.h"

#include <assert.h>

/* ---- Teams ----------------------------------------------------------------------- */

/* Publish this rank's progress to its team. */
static void exchange_tell(dt_exchange *x, dt_exchange_mark which, uint64_t count)
{
    if (x->line)
        atomic_store_explicit(&x->line[x->comm->rank - x->team_first].count[which], count,
                              memory_order_release);
}

/* Whether all ranks of the team are as far; what they wrote before is then visible. */
static bool exchange_all(const dt_exchange *x, dt_exchange_mark which, uint64_t count)
{
    for (int i = 0; x->line && i < x->team_ranks; i++)
        if (atomic_load_explicit(&x->line[i].count[which], memory_order_acquire) < count)
            return false;
    return true;
}

dt_span dt_exchange_own_slice(const dt_exchange *x, size_t bucket)
{
    return dt_spans_slice(x->bucket[bucket], x->comm->rank - x->team_first, x->team_ranks);
}

void dt_exchange_team_operands(dt_exchange *x, const dt_fold *f, size_t at)
{
    for (int r = 0; r < x->team_ranks; r++)
        for (int i = f->start[r]; i < f->start[r + 1]; i++)
            x->operand[i] =
                (dt_operand){.at = x->base[r] + (size_t)(i - f->start[r]) * x->floats + at};
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

/* In place, with what was left of the shard's last one. */
static void quantise_leaves(dt_exchange *x, dt_span span)
{
    const int shards = x->lockstep ? x->end - x->first : 1, slot = x->lockstep ? 0 : x->leaf;
    float *residual = x->residual + (size_t)(x->next - shards - x->first) * x->floats;

    for (int i = 0; i < shards; i++)
        x->compress->quantise(dt_exchange_slot(x, slot + i) + span.first,
                              residual + (size_t)i * x->floats + span.first, x->threshold,
                              span.count, x->threads);
}

/* The top slots, of which the last one is a leaf; with `lockstep` all slots, which are leaves. */
static void fold_leaves(dt_exchange *x, dt_span span)
{
    dt_fold_part part[DT_COUNTER_DEPTH];
    const dt_fold f = x->lockstep ? x->leaves : dt_fold_cascade(part, x->merges + 1);
    const int first = x->lockstep ? 0 : x->leaf - x->merges, leaf = x->lockstep ? 0 : x->leaf;

    if (x->first == x->end) {
        memset(dt_exchange_slot(x, 0) + span.first, 0, span.count * sizeof(float));
        return;
    }
    if (x->residual)
        quantise_leaves(x, span);
    if (f.operands == f.roots && !x->compress->leaf)
        return;
    for (int i = 0; i < f.operands; i++)
        x->operand[i] = (dt_operand){dt_exchange_slot(x, first + i) + span.first,
                                     first + i >= leaf ? x->compress->leaf : NULL};
    for (int root = 0; root < f.roots; root++)
        x->result[root] = dt_exchange_slot(x, first + root) + span.first;
    dt_fold_run(&f, &dt_fold_f32, x->operand, x->result, span.count, x->scratch, x->threads);
}

/* The leaves' bucket is final; with the last leaf, so are the rank's partial sums. A rank without
 * shards has none: zeros where inexact rows add them up. */
static dt_status fold_bucket(dt_exchange *x, size_t b)
{
    fold_leaves(x, x->bucket[b]);
    if (x->next < x->end)
        return DT_OK;
    x->final_ns[b] = dt_activity_clock();
    x->started = b + 1;
    if (x->oldest == b)
        x->oldest_began = dt_activity_clock();
    exchange_tell(x, DT_FOLDED, x->step * x->buckets + b + 1);
    return x->row->start ? x->row->start(x, b) : DT_OK;
}

/* ---- Progress -------------------------------------------------------------------- */

/* Advance all buckets that are under way, and folded by the whole team. */
static dt_status exchange_poll(dt_exchange *x)
{
    for (size_t b = x->oldest; b < x->started; b++) {
        bool done = !x->row->advance;
        if (!exchange_all(x, DT_FOLDED, x->step * x->buckets + b + 1))
            break;
        if (!done)
            DT_TRY(x->row->advance(x, b, &done));
        if (b != x->oldest || !done)
            continue;
        x->oldest++;
        if (x->row->advance && x->comm->world > 1) /* else nothing, or tensors after all, is sent */
            x->oldest_began = dt_record(DT_LANE_BUCKET, (int)DT_MIN(b, DT_RECORD_KINDS - 1),
                                        x->bucket[b].count * sizeof(float), x->oldest_began);
    }
    return DT_OK;
}

static void exchange_look(void *context)
{
    dt_exchange *x = context;

    if (x->looked == DT_OK)
        x->looked = exchange_poll(x);
}

dt_status dt_exchange_ready(dt_exchange *x, size_t floats_done)
{
    DT_TRY(x->looked);
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
    DT_TRY(exchange_poll(x));
    /* Messages move only while MPI is called: while some are under way, kernels look after them. */
    const bool messages = x->teams > 1 && x->row->advance && x->oldest < x->started;
    dt_poll_set(DT_LOOK_S, messages ? exchange_look : NULL, x);
    return DT_OK;
}

/* ---- Finishing a step ------------------------------------------------------------ */

/* MPI moves this rank's pending messages only when it is called. */
static dt_status exchange_await(dt_exchange *x, dt_exchange_mark which, uint64_t count)
{
    int flag = 0;

    for (unsigned looks = 0; !exchange_all(x, which, count); dt_comm_idle(x->comm, &looks))
        if (x->teams > 1)
            DT_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, x->mpi, &flag, MPI_STATUS_IGNORE));
    return DT_OK;
}

/* Until all buckets are complete. */
static dt_status exchange_drain(dt_exchange *x)
{
    for (unsigned looks = 0; x->oldest < x->started; dt_comm_idle(x->comm, &looks)) {
        const size_t before = x->oldest;
        DT_TRY(exchange_poll(x));
        if (x->oldest != before) {
            looks = 0;
            dt_activity_slice((int64_t)x->oldest);
        }
    }
    x->oldest = x->started = 0;
    for (size_t i = 0; x->row->tensor && i < x->tensors; i++) {
        dt_activity_slice((int64_t)i);
        DT_TRY(x->row->tensor(x, x->tensor[i]));
    }
    return DT_OK;
}

dt_status dt_exchange_finish(dt_exchange *x, dt_exchange_sum *s)
{
    const int64_t began = x->drained_ns = dt_activity_clock();

    dt_poll_set(0, NULL, x);
    DT_TRY(x->looked);
    if (x->writing || x->next != x->end)
        return dt_fail(DT_BUG, "a gradient sum over shards [%d, %d) ended at %d", x->first, x->end,
                       x->next);
    exchange_tell(x, DT_FINISHED, x->step + 1);
    DT_TRY(exchange_drain(x));
    x->step++;
    DT_TRY(exchange_await(x, DT_FINISHED, x->step));
    x->next = x->first;
    x->counter.depth = 0;
    if (x->first == x->end) {
        x->writing = true;
        x->folded = 0;
    }
    for (size_t i = 0; x->compress->quantise && i < x->spans; i++)
        for (size_t at = x->owned[i].first; at < x->owned[i].first + x->owned[i].count; at++)
            x->sum[at] *= x->threshold;
    dt_record(DT_LANE_WAIT, DT_IN_gradients, dt_form_bytes(x->compress->one, x->floats), began);
    *s = (dt_exchange_sum){x->sum, x->owned, x->spans};
    return DT_OK;
}

dt_status dt_exchange_publish(dt_exchange *x)
{
    const int64_t began = dt_activity_clock();

    x->published++;
    exchange_tell(x, DT_PUBLISHED, x->published);
    DT_TRY(exchange_await(x, DT_PUBLISHED, x->published));
    dt_record(DT_LANE_WAIT, DT_IN_weights, x->floats * sizeof(float), began);
    return DT_OK;
}

/* Each rank's slices of it lie where the rank made them. */
void dt_exchange_read(const dt_exchange *x, dt_span span, float *to)
{
    for (size_t b = 0; b < x->buckets; b++)
        for (int r = 0; r < x->team_ranks; r++) {
            const dt_span s = dt_spans_slice(x->bucket[b], r, x->team_ranks);
            const size_t from = DT_MAX(s.first, span.first),
                         end = DT_MIN(s.first + s.count, span.first + span.count);
            if (from < end)
                memcpy(to + (from - span.first), (x->shares ? x->base[r] : x->sum) + from,
                       (end - from) * sizeof *to);
        }
}

/* ---- Messages and statistics ------------------------------------------------------ */

void dt_exchange_count(dt_exchange *x, size_t bytes, int sent, int received)
{
    x->stats.bytes_sent += bytes * (size_t)sent;
    x->stats.bytes_received += bytes * (size_t)received;
    x->stats.messages += (uint64_t)(sent + received);
    dt_activity_sent(bytes * (size_t)sent);
}

dt_status dt_exchange_message(dt_exchange *x, bool sends, const void *data, size_t count,
                              const dt_form *form, int other, int tag, MPI_Request *r)
{
    const size_t bytes = dt_form_bytes(form, count);

    DT_TRY(dt_comm_message(x->mpi, sends, data, form ? bytes : count, form ? MPI_BYTE : MPI_FLOAT,
                           other, tag, r));
    if (count > 0)
        dt_exchange_count(x, bytes, sends, !sends);
    return DT_OK;
}

size_t dt_exchange_buckets(const dt_exchange *x)
{
    return x->buckets;
}

size_t dt_exchange_bucket(const dt_exchange *x, size_t b, double *ahead_s)
{
    *ahead_s = 1e-9 * (double)(x->drained_ns - x->final_ns[b]);
    return x->bucket[b].count;
}

void dt_exchange_stats_get(const dt_exchange *x, dt_exchange_stats *s)
{
    *s = x->stats;
}

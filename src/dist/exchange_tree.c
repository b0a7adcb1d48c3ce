/* exchange_tree.c - the exact exchange over messages that overlaps with backward.
 *
 * Teams exchange partial sums: a team is one rank, or the ranks of a node where they work
 * in one another's memory. Each bucket is cut into one slice per rank of the team, which
 * that rank owns. On it, it
 *   folds   the partial sums of its team's ranks into those of the team, where they lie;
 *   sends   them, cut into one piece per team, to the rank that owns the same floats in
 *           the piece's team;
 *   sums    its own team's piece of all teams, and sends the sum back to all;
 * a reduce-scatter and an allgather whose order of addition depends on S alone. Messages
 * of many buckets are under way at once; they move when ready() or finish() looks.
 *
 * Where teams have unequal ranks, their slices are cut at different floats: a slice is a
 * row of `strips`, on each of which every team has one owner. */
#include "strips.h"

static size_t tree_longest(const dt_exchange *x)
{
    return dt_spans_longest(x->bucket, x->buckets) / (size_t)dt_exchange_teams(x) + 32;
}

static bool tree_shares(const dt_exchange *x)
{
    return x->comm->nodes > 1 && x->comm->nodes < x->comm->world;
}

/* ---- Messages: 0 carries a partial sum, 1 a sum. Those of one bucket between two ranks
 * match by order: strip after strip, part after part. -------------------------------- */

static int tree_tag(size_t b, int kind)
{
    return (int)(2 * b) + kind;
}

static dt_status tree_send(dt_exchange *x, const float *data, size_t floats, bool half, int to,
                           int tag, MPI_Request *r)
{
    int count = 0;

    if (floats == 0)
        return DT_OK;
    DT_TRY(dt_comm_count(floats, &count));
    DT_MPI(MPI_Isend(data, count, half ? MPI_UINT16_T : MPI_FLOAT, to, tag, x->mpi, r));
    dt_exchange_count_sent(x, floats * (half ? sizeof(dt_bf16) : sizeof *data));
    return DT_OK;
}

static dt_status tree_receive(dt_exchange *x, float *data, size_t floats, bool half, int from,
                              int tag, MPI_Request *r)
{
    int count = 0;

    if (floats == 0)
        return DT_OK;
    DT_TRY(dt_comm_count(floats, &count));
    DT_MPI(MPI_Irecv(data, count, half ? MPI_UINT16_T : MPI_FLOAT, from, tag, x->mpi, r));
    dt_exchange_count_received(x, floats * (half ? sizeof(dt_bf16) : sizeof *data));
    return DT_OK;
}

/* Operand i of my piece of a strip, received from another team. */
static float *tree_received(const dt_exchange *x, const tree_strip *s, int i)
{
    const tree_state *t = x->state;
    return s->received + t->place[i] * tree_unit(tree_piece(x, s->span, dt_exchange_team(x)));
}

static dt_status tree_receive_parts(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const tree_bucket *k = &t->bucket[b];
    const int team = dt_exchange_team(x);
    MPI_Request *r = k->in;

    for (const tree_strip *s = k->strip; s < k->strip + k->strips; s++)
        for (int from = 0; from < dt_exchange_teams(x); from++)
            for (int i = x->outer.start[from]; i < x->outer.start[from + 1]; i++)
                if (from != team)
                    DT_TRY(tree_receive(x, tree_received(x, s, i),
                                        tree_piece(x, s->span, team).count, tree_half(x, i),
                                        s->owner[from], tree_tag(b, 0), r++));
    return DT_OK;
}

/* Team after team, beginning behind mine, so that not all send to the first one first. A
 * half is packed where its float lies. */
static dt_status tree_send_parts(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const tree_bucket *k = &t->bucket[b];
    const int team = dt_exchange_team(x), teams = dt_exchange_teams(x);
    MPI_Request *r = k->out;

    for (const tree_strip *s = k->strip; s < k->strip + k->strips; s++)
        for (int step = 1; step < teams; step++) {
            const int to = (team + step) % teams;
            const dt_span piece = tree_piece(x, s->span, to);
            for (int j = 0; j < x->inner.roots; j++) {
                const bool half = tree_half(x, x->outer.start[team] + j);
                float *part = t->part[j] + piece.first;
                if (half)
                    dt_halves_of_f32((void *)part, part, piece.count);
                DT_TRY(tree_send(x, part, piece.count, half, s->owner[to], tree_tag(b, 0), r++));
            }
        }
    return DT_OK;
}

/* Packed halves overwrote the padding between tensors, which is zero for ever. */
static void tree_unpack(dt_exchange *x, const tree_bucket *k)
{
    const tree_state *t = x->state;
    const int team = dt_exchange_team(x), teams = dt_exchange_teams(x);

    for (const tree_strip *s = k->strip; s < k->strip + k->strips; s++)
        for (int to = 0; to < teams; to++)
            for (int j = 0; j < x->inner.roots; j++) {
                const dt_span piece = tree_piece(x, s->span, to);
                if (to != team && tree_half(x, x->outer.start[team] + j))
                    memset(t->part[j] + piece.first, 0, piece.count * sizeof(dt_bf16));
            }
}

/* ---- Progress -------------------------------------------------------------------- */

static dt_status tree_start(dt_exchange *x, size_t b)
{
    tree_state *t = x->state;
    tree_bucket *k = &t->bucket[b];

    k->folded = k->summed = k->sent = k->done = false;
    t->started = b + 1;
    DT_TRY(tree_receive_parts(x, b));
    dt_exchange_tell(x, DT_FOLDED, x->step * x->buckets + b + 1);
    return DT_OK;
}

static void tree_fold(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const dt_span mine = dt_exchange_own_slice(x, b);

    for (int rank = 0; rank < x->team_ranks; rank++)
        for (int i = x->inner.start[rank]; i < x->inner.start[rank + 1]; i++)
            t->operand[i] = (dt_operand){
                dt_exchange_team_partial(x, x->team_first + rank, i - x->inner.start[rank]) +
                    mine.first,
                false};
    for (int j = 0; j < x->inner.roots; j++)
        t->result[j] = t->part[j] + mine.first;
    if (x->inner.additions > 0)
        dt_fold_f32(&x->inner, t->operand, t->result, mine.count, x->scratch);
}

static dt_status tree_sum(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const tree_bucket *k = &t->bucket[b];
    const int team = dt_exchange_team(x), teams = dt_exchange_teams(x), own = x->outer.start[team];
    MPI_Request *r = k->back;

    for (const tree_strip *s = k->strip; s < k->strip + k->strips; s++) {
        const dt_span mine = tree_piece(x, s->span, team);
        float *sum = x->sum + mine.first;
        for (int i = 0; i < x->outer.operands; i++)
            t->operand[i] = i >= own && i < own + x->inner.roots
                                ? (dt_operand){t->part[i - own] + mine.first, false}
                                : (dt_operand){tree_received(x, s, i), tree_half(x, i)};
        dt_fold_f32(&x->outer, t->operand, &sum, mine.count, x->scratch);
        for (int step = 1; step < teams; step++)
            DT_TRY(tree_send(x, sum, mine.count, false, s->owner[(team + step) % teams],
                             tree_tag(b, 1), r++));
    }
    return DT_OK;
}

static dt_status tree_receive_sums(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const tree_bucket *k = &t->bucket[b];
    const int team = dt_exchange_team(x), teams = dt_exchange_teams(x);
    MPI_Request *r = k->back + k->backs / 2;

    tree_unpack(x, k);
    for (const tree_strip *s = k->strip; s < k->strip + k->strips; s++)
        for (int step = 1; step < teams; step++) {
            const int from = (team + step) % teams;
            const dt_span piece = tree_piece(x, s->span, from);
            DT_TRY(tree_receive(x, x->sum + piece.first, piece.count, false, s->owner[from],
                                tree_tag(b, 1), r++));
        }
    return DT_OK;
}

/* A finished group is asked once only: its flag says so. */
static dt_status tree_complete(MPI_Request *r, int count, bool *complete)
{
    int flag = 0;

    DT_MPI(MPI_Testall(count, r, &flag, MPI_STATUSES_IGNORE));
    *complete = flag != 0;
    return DT_OK;
}

static dt_status tree_advance(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    tree_bucket *k = &t->bucket[b];

    if (!k->folded) {
        if (!dt_exchange_all(x, DT_FOLDED, x->step * x->buckets + b + 1))
            return DT_OK;
        k->folded = true;
        tree_fold(x, b);
        DT_TRY(tree_send_parts(x, b));
    }
    if (!k->summed) {
        DT_TRY(tree_complete(k->in, k->ins, &k->summed));
        if (k->summed)
            DT_TRY(tree_sum(x, b));
    }
    if (!k->sent) {
        DT_TRY(tree_complete(k->out, k->outs, &k->sent));
        if (k->sent)
            DT_TRY(tree_receive_sums(x, b));
    }
    if (k->summed && k->sent && !k->done)
        DT_TRY(tree_complete(k->back, k->backs, &k->done));
    return DT_OK;
}

static dt_status tree_poll(dt_exchange *x)
{
    tree_state *t = x->state;

    for (size_t b = t->oldest; b < t->started; b++) {
        DT_TRY(tree_advance(x, b));
        if (b == t->oldest && t->bucket[b].done)
            t->oldest++;
    }
    return DT_OK;
}

static dt_status tree_finish(dt_exchange *x)
{
    tree_state *t = x->state;

    DT_TRY(dt_exchange_drain(x, &t->oldest, tree_poll));
    t->oldest = t->started = 0;
    return DT_OK;
}

const dt_exchange_row dt_exchange_row_tree = {
    .name = "tree",
    .exact = true,
    .shares = tree_shares,
    .extra = dt_strips_extra,
    .longest = tree_longest,
    .open = dt_strips_open,
    .start = tree_start,
    .poll = tree_poll,
    .finish = tree_finish,
    .close = dt_strips_close,
};

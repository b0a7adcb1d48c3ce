/* exchange_tree.c - the exact exchange over messages that overlaps with backward.
 *
 * Teams exchange partial sums: a team is one rank, or the ranks of a node where all nodes have
 * as many and they work in one another's memory. Each bucket is cut into one slice per rank of
 * the team, which that rank owns; its peers own the same slice in the other teams. On it, it
 *   folds   the partial sums of its team's ranks into those of the team, where they lie;
 *   sends   them, cut into one piece per team, to the peer in the piece's team;
 *   sums    its own team's piece of all teams, and sends the sum back to all peers;
 * a reduce-scatter and an allgather whose order of addition depends on S alone. Messages
 * of many buckets are under way at once; they move when ready() or finish() looks. */
#include "exchange_row.h"
#include "spans.h"

#include <stdlib.h>

typedef struct tree_bucket {
    MPI_Request *in, *out, *back; /* partial sums; sums to others, then to me */
    float *received;              /* my team's piece of all other teams' partial sums */
    float *packed;                /* parts on their way to other teams; after `received` */
    float *sums;                  /* packed: my piece's, then those of others; after `packed` */
    bool folded; /* the team's partial sums of my slice are complete and on their way */
    bool summed; /* so is my piece's sum */
    bool sent;   /* others have the partial sums: their place may take sums */
    bool done;   /* all of my slice's sum has arrived */
} tree_bucket;

typedef struct tree_state {
    tree_bucket *bucket;  /* [buckets] */
    float **part;         /* [inner.roots] where the team's partial sums lie. [floats] */
    MPI_Request *request; /* of all buckets */
    int ins, outs, backs; /* of one bucket */
} tree_state;

static bool tree_shares(const dt_exchange *x)
{
    const dt_comm *c = x->comm;

    for (int n = 0; n < c->nodes; n++)
        if (c->own->node_start[n + 1] - c->own->node_start[n] != c->world / c->nodes)
            return false;
    return c->nodes > 1 && c->nodes < c->world;
}

/* ---- Memory ---------------------------------------------------------------------- */

/* A team's piece of a rank's slice of bucket b. */
static dt_span tree_piece_of(const dt_exchange *x, size_t b, int rank, int team)
{
    const dt_span slice = dt_spans_slice(x->bucket[b], rank % x->team_ranks, x->team_ranks);
    return dt_spans_slice(slice, team, x->teams);
}

static dt_span tree_piece(const dt_exchange *x, size_t b, int team)
{
    return tree_piece_of(x, b, x->comm->rank, team);
}

static bool tree_of_team(const dt_exchange *x, int operand, int team)
{
    return operand >= x->outer.start[team] && operand < x->outer.start[team + 1];
}

/* How the sum of so many leaves travels. */
static dt_leaf tree_form(const dt_exchange *x, unsigned leaves)
{
    if (leaves == 1)
        return x->compress->one;
    return leaves <= 127 ? x->compress->some : DT_LEAF_PLAIN;
}

static dt_leaf tree_form_of(const dt_exchange *x, int operand)
{
    return tree_form(x, x->outer.part[operand].tree.leaves);
}

static dt_leaf tree_form_sum(const dt_exchange *x)
{
    return tree_form(x, (unsigned)x->shards);
}

/* Floats that a piece takes as a message; they are multiples of 16. */
static size_t tree_room(dt_leaf form, dt_span piece)
{
    return dt_align(dt_leaf_bytes(form, piece.count), 64) / sizeof(float);
}

/* Floats of bucket b on a rank: all partial sums that it receives, then what it packs to send, then
 * sums if they are packed. */
static size_t tree_bucket_room(const dt_exchange *x, size_t b, int rank)
{
    const int team = rank / x->team_ranks;
    const dt_leaf form = tree_form_sum(x);
    size_t floats = 0;

    for (int other = 0; other < x->teams; other++) {
        for (int i = 0; i < x->outer.operands && other != team; i++)
            if (tree_of_team(x, i, other))
                floats += tree_room(tree_form_of(x, i), tree_piece_of(x, b, rank, team));
            else if (tree_of_team(x, i, team) && tree_form_of(x, i) != DT_LEAF_PLAIN)
                floats += tree_room(tree_form_of(x, i), tree_piece_of(x, b, rank, other));
        if (form != DT_LEAF_PLAIN)
            floats += tree_room(form, tree_piece_of(x, b, rank, other));
    }
    return floats;
}

static size_t tree_extra(const dt_exchange *x, int rank)
{
    size_t floats = 0;

    for (size_t b = 0; b < x->buckets; b++)
        floats += tree_bucket_room(x, b, rank);
    return floats;
}

/* The team's partial sum is made where its first operand lies. */
static void tree_find_parts(const dt_exchange *x, tree_state *t)
{
    int root = 0;

    for (int r = 0; r < x->team_ranks; r++)
        for (int i = x->inner.start[r]; i < x->inner.start[r + 1]; i++)
            if (i == 0 || x->inner.part[i - 1].root >= 0)
                t->part[root++] = dt_exchange_team_partial(x, r, i - x->inner.start[r]);
}

static dt_status tree_take(dt_exchange *x, tree_state *t)
{
    const char *what = "the exchange";
    const int others = x->teams - 1;

    t->ins = x->outer.operands - x->inner.roots;
    t->outs = others * x->inner.roots;
    t->backs = 2 * others;
    const size_t requests = x->buckets * (size_t)(t->ins + t->outs + t->backs);
    DT_TRY(dt_calloc(&t->bucket, x->buckets, sizeof *t->bucket, what));
    DT_TRY(dt_calloc(&t->part, (size_t)x->inner.roots, sizeof *t->part, what));
    DT_TRY(dt_calloc(&t->request, requests, sizeof *t->request, what));
    for (size_t i = 0; i < requests; i++)
        t->request[i] = MPI_REQUEST_NULL;
    return DT_OK;
}

static dt_status tree_open(dt_exchange *x)
{
    float *received = x->extra;
    tree_state *t = NULL;

    DT_TRY(dt_calloc(&t, 1, sizeof *t, "the exchange"));
    x->state = t;
    DT_TRY(tree_take(x, t));
    tree_find_parts(x, t);
    MPI_Request *r = t->request;
    for (size_t b = 0; b < x->buckets; b++) {
        tree_bucket *k = &t->bucket[b];
        k->in = r;
        k->out = k->in + t->ins;
        k->back = k->out + t->outs;
        r = k->back + t->backs;
        k->received = received;
        received += tree_bucket_room(x, b, x->comm->rank);
    }
    return DT_OK;
}

/* After a failure messages may be under way, for which no rank waits any more. */
static void tree_close(dt_exchange *x)
{
    tree_state *t = x->state;
    const size_t requests = x->buckets * (size_t)(t->ins + t->outs + t->backs);

    for (size_t i = 0; t->request && i < requests; i++)
        if (t->request[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&t->request[i]);
            MPI_Request_free(&t->request[i]);
        }
    free(t->request);
    free(t->part);
    free(t->bucket);
}

/* ---- Messages: 0 carries a partial sum, 1 a sum. Those of one bucket between two ranks
 * match by order: part after part. -------------------------------------------------- */

static int tree_tag(size_t b, int kind)
{
    return (int)(2 * b) + kind;
}

/* My peer in that team. */
static int tree_peer(const dt_exchange *x, int team)
{
    return team * x->team_ranks + x->comm->rank - x->team_first;
}

static dt_status tree_receive_parts(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const dt_span mine = tree_piece(x, b, x->team);
    MPI_Request *r = t->bucket[b].in;
    float *received = t->bucket[b].received;

    for (int from = 0; from < x->teams; from++)
        for (int i = x->outer.start[from]; i < x->outer.start[from + 1] && from != x->team; i++) {
            DT_TRY(dt_exchange_receive(x, received, mine.count, tree_form_of(x, i),
                                       tree_peer(x, from), tree_tag(b, 0), r++));
            received += tree_room(tree_form_of(x, i), mine);
        }
    t->bucket[b].packed = received;
    return DT_OK;
}

/* Team after team, beginning with the one after mine, so that not all send to the first one. */
static dt_status tree_send_parts(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    MPI_Request *r = t->bucket[b].out;
    float *packed = t->bucket[b].packed;

    for (int step = 1; step < x->teams; step++) {
        const int to = (x->team + step) % x->teams;
        const dt_span piece = tree_piece(x, b, to);
        for (int j = 0; j < x->inner.roots; j++) {
            const dt_leaf form = tree_form_of(x, x->outer.start[x->team] + j);
            float *part = t->part[j] + piece.first;
            if (form != DT_LEAF_PLAIN) {
                dt_leaf_pack(form, packed, part, piece.count);
                part = packed;
                packed += tree_room(form, piece);
            }
            DT_TRY(dt_exchange_send(x, part, piece.count, form, tree_peer(x, to), tree_tag(b, 0),
                                    r++));
        }
    }
    t->bucket[b].sums = packed;
    return DT_OK;
}

/* ---- Progress -------------------------------------------------------------------- */

static dt_status tree_start(dt_exchange *x, size_t b)
{
    tree_bucket *k = &((tree_state *)x->state)->bucket[b];

    k->folded = k->summed = k->sent = k->done = false;
    DT_TRY(tree_receive_parts(x, b));
    dt_exchange_tell(x, DT_FOLDED, x->step * x->buckets + b + 1);
    return DT_OK;
}

static void tree_fold(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const dt_span mine = dt_exchange_own_slice(x, b);

    if (x->inner.operands == x->inner.roots)
        return;
    dt_exchange_team_operands(x, &x->inner, mine.first);
    for (int j = 0; j < x->inner.roots; j++)
        x->result[j] = t->part[j] + mine.first;
    dt_fold_run(&x->inner, &dt_fold_f32, x->operand, x->result, mine.count, x->scratch, x->threads);
}

static dt_status tree_sum(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    const dt_span mine = tree_piece(x, b, x->team);
    const int own = x->outer.start[x->team];
    const dt_leaf form = tree_form_sum(x);
    MPI_Request *r = t->bucket[b].back;
    const float *received = t->bucket[b].received;
    void *sum = x->sum + mine.first;

    for (int i = 0; i < x->outer.operands; i++) {
        if (tree_of_team(x, i, x->team)) {
            x->operand[i] = (dt_operand){.at = t->part[i - own] + mine.first};
            continue;
        }
        x->operand[i] = (dt_operand){received, tree_form_of(x, i)};
        received += tree_room(tree_form_of(x, i), mine);
    }
    dt_fold_run(&x->outer, &dt_fold_f32, x->operand, &sum, mine.count, x->scratch, 1);
    if (form != DT_LEAF_PLAIN) {
        dt_leaf_pack(form, t->bucket[b].sums, sum, mine.count);
        sum = t->bucket[b].sums;
    }
    for (int step = 1; step < x->teams; step++)
        DT_TRY(dt_exchange_send(x, sum, mine.count, form, tree_peer(x, (x->team + step) % x->teams),
                                tree_tag(b, 1), r++));
    return DT_OK;
}

/* Where the sum of a team's piece arrives. */
static float *tree_sums(const dt_exchange *x, size_t b, int step, dt_span piece)
{
    const dt_leaf form = tree_form_sum(x);
    float *at = ((tree_state *)x->state)->bucket[b].sums;

    if (form == DT_LEAF_PLAIN)
        return x->sum + piece.first;
    for (int i = 0; i < step; i++)
        at += tree_room(form, tree_piece(x, b, (x->team + i) % x->teams));
    return at;
}

static dt_status tree_receive_sums(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;
    MPI_Request *r = t->bucket[b].back + t->backs / 2;

    for (int step = 1; step < x->teams; step++) {
        const int from = (x->team + step) % x->teams;
        const dt_span piece = tree_piece(x, b, from);
        DT_TRY(dt_exchange_receive(x, tree_sums(x, b, step, piece), piece.count, tree_form_sum(x),
                                   tree_peer(x, from), tree_tag(b, 1), r++));
    }
    return DT_OK;
}

static void tree_unpack_sums(dt_exchange *x, size_t b)
{
    const dt_leaf form = tree_form_sum(x);

    for (int step = 1; step < x->teams && form != DT_LEAF_PLAIN; step++) {
        const dt_span piece = tree_piece(x, b, (x->team + step) % x->teams);
        dt_leaf_read(form, x->sum + piece.first, tree_sums(x, b, step, piece), piece.count);
    }
}

static dt_status tree_complete(MPI_Request *r, int count, bool *complete)
{
    int flag = 0;

    DT_MPI(MPI_Testall(count, r, &flag, MPI_STATUSES_IGNORE));
    *complete = flag != 0;
    return DT_OK;
}

static dt_status tree_advance(dt_exchange *x, size_t b, bool *done)
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
        DT_TRY(tree_complete(k->in, t->ins, &k->summed));
        if (k->summed)
            DT_TRY(tree_sum(x, b));
    }
    if (!k->sent) {
        DT_TRY(tree_complete(k->out, t->outs, &k->sent));
        if (k->sent)
            DT_TRY(tree_receive_sums(x, b));
    }
    if (k->summed && k->sent && !k->done) {
        DT_TRY(tree_complete(k->back, t->backs, &k->done));
        if (k->done)
            tree_unpack_sums(x, b);
    }
    *done = k->done;
    return DT_OK;
}

const dt_exchange_row dt_exchange_row_tree = {
    .name = "tree",
    .exact = true,
    .shares = tree_shares,
    .extra = tree_extra,
    .open = tree_open,
    .start = tree_start,
    .advance = tree_advance,
    .close = tree_close,
};

/* exchange_tree.c - the exact exchange over messages that overlaps with backward.
 *
 * Teams exchange partial sums: a team is one rank, or the ranks of a node where all nodes have
 * as many and they work in one another's memory. Each bucket is cut into one slice per rank of
 * the team, which that rank owns; its peers own the same slice in the other teams. On it, it
 *   folds   the partial sums of its team's ranks into those of the team, where they lie;
 *   sends   them, cut into one piece per team, to the peer in the piece's team;
 *   sums    its own team's piece of all teams, and sends the sum back to all peers;
 * a reduce-scatter and an allgather whose order of addition depends on S alone. Many teams do so in
 * two levels: those of a group of neighbours make of their piece the group's partial sums, which
 * the ranks with the same piece in all groups exchange in the same way, so that a rank has some 2
 * sqrt(teams) peers. Messages of many buckets are under way at once; they move when ready() or
 * finish() looks. */
#include "exchange_row.h"

/* A bucket on a level: ranks exchange pieces of a span with each other. Member i is rank first +
 * i * step, whose partial sums are the operands of group base + i of `held`. */
typedef struct tree_pass {
    const dt_fold *held, *fold; /* fold: over the partial sums of all members */
    int base, members, me, first, step;
    dt_span span, mine;  /* my piece of it */
    const dt_form *form; /* how sums travel; NULL: as they are */
    bool last;
    int ins, outs, tag; /* of partial sums; sums have the next tag. Messages between two ranks match
                         * by order: part after part */
    size_t received;    /* floats from x->extra on to my piece of other members' partial sums, */
    size_t packed;      /* to parts on their way to other members, */
    size_t sums;        /* to packed sums: my piece's, then those of others, */
    size_t made;        /* and to partial sums for the next level */
    MPI_Request *in, *out, *back; /* partial sums; sums to others, then to me */
    bool going;                   /* the partial sums are complete and on their way */
    bool folded;                  /* so is my piece of all members' */
    bool sent;                    /* others have the partial sums: their place may take sums */
    bool returned;                /* my piece's sum is on its way to the others */
    bool done;                    /* all of the span's sum has arrived */
} tree_pass;

typedef struct tree_state {
    tree_pass *pass;      /* [buckets][tree_levels()] */
    float **part;         /* [inner.roots] where the team's partial sums lie. [floats] */
    MPI_Request *request; /* of all buckets */
    size_t requests;
} tree_state;

/* ---- Levels ---------------------------------------------------------------------- */

static size_t tree_levels(const dt_exchange *x)
{
    return x->group_teams < x->teams ? 2 : 1;
}

static dt_span tree_piece(const tree_pass *k, int member)
{
    return dt_spans_slice(k->span, member, k->members);
}

/* How many partial sums a member has. */
static int tree_held(const tree_pass *k, int member)
{
    return dt_fold_held(k->held, k->base + member);
}

/* How the sum of so many leaves travels. */
static const dt_form *tree_form(const dt_exchange *x, unsigned leaves)
{
    if (leaves == 1)
        return x->compress->one;
    return leaves <= 127 ? x->compress->some : NULL;
}

static const dt_form *tree_form_of(const dt_exchange *x, const tree_pass *k, int member, int i)
{
    return tree_form(x, k->held->part[k->held->start[k->base + member] + i].tree.leaves);
}

/* Floats that a piece takes as a message; they are multiples of 16. */
static size_t tree_room(const dt_form *form, dt_span piece)
{
    return dt_align(dt_form_bytes(form, piece.count), 64) / sizeof(float);
}

/* Its places in the extra memory, of which *floats are taken. */
static void tree_place(const dt_exchange *x, tree_pass *k, size_t *floats)
{
    k->received = *floats;
    for (int i = 0; i < k->members; i++)
        for (int j = 0; j < tree_held(k, i) && i != k->me; j++, k->ins++)
            *floats += tree_room(tree_form_of(x, k, i, j), k->mine);
    k->packed = *floats;
    for (int i = 0; i < k->members; i++)
        for (int j = 0; j < tree_held(k, k->me) && i != k->me; j++, k->outs++)
            if (tree_form_of(x, k, k->me, j))
                *floats += tree_room(tree_form_of(x, k, k->me, j), tree_piece(k, i));
    k->sums = *floats;
    for (int i = 0; i < k->members && k->form; i++)
        *floats += tree_room(k->form, tree_piece(k, i));
    k->made = *floats;
}

/* Pass i of that rank, a bucket on a level: the slice, divided among the group's teams; then the
 * piece of it, among the groups. */
static tree_pass tree_pass_of(const dt_exchange *x, size_t i, int rank, size_t *floats)
{
    const size_t levels = tree_levels(x), level = i % levels;
    const int each = x->group_teams, ranks = x->team_ranks, team = rank / ranks;
    const int group = team / each, place = rank % ranks;
    tree_pass k = {.held = &x->outer,
                   .fold = &x->within,
                   .base = group * each,
                   .members = each,
                   .me = team % each,
                   .first = group * each * ranks + place,
                   .step = ranks,
                   .form = tree_form(x, (unsigned)x->shards),
                   .last = level + 1 == levels,
                   .tag = (int)i * 2};

    k.span = dt_spans_slice(x->bucket[i / levels], place, ranks);
    if (level > 0) {
        k.span = tree_piece(&k, k.me);
        k.held = k.fold = &x->across;
        k.base = 0;
        k.members = x->teams / each;
        k.first = k.me * ranks + place;
        k.me = group;
        k.step = each * ranks;
    }
    k.mine = tree_piece(&k, k.me);
    tree_place(x, &k, floats);
    if (!k.last)
        *floats += (size_t)dt_fold_held(&x->across, group) * tree_room(NULL, k.mine);
    return k;
}

/* ---- Memory ---------------------------------------------------------------------- */

static size_t tree_extra(const dt_exchange *x, int rank)
{
    size_t floats = 0;

    for (size_t i = 0; i < x->buckets * tree_levels(x); i++)
        tree_pass_of(x, i, rank, &floats);
    return floats;
}

/* The team's partial sum is made where its first operand lies. */
static void tree_find_parts(const dt_exchange *x, tree_state *t)
{
    int root = 0;

    for (int r = 0; r < x->team_ranks; r++)
        for (int i = x->inner.start[r]; i < x->inner.start[r + 1]; i++)
            if (i == 0 || x->inner.part[i - 1].root >= 0)
                t->part[root++] = x->base[r] + (size_t)(i - x->inner.start[r]) * x->floats;
}

static dt_status tree_open(dt_exchange *x)
{
    const char *what = "the exchange";
    const size_t passes = x->buckets * tree_levels(x);
    size_t floats = 0;
    tree_state *t = NULL;

    DT_TRY(dt_calloc(&t, 1, sizeof *t, what));
    x->state = t;
    DT_TRY(dt_calloc(&t->part, (size_t)x->inner.roots, sizeof *t->part, what));
    DT_TRY(dt_calloc(&t->pass, passes, sizeof *t->pass, what));
    tree_find_parts(x, t);
    for (size_t i = 0; i < passes; i++) {
        t->pass[i] = tree_pass_of(x, i, x->comm->rank, &floats);
        t->requests += (size_t)(t->pass[i].ins + t->pass[i].outs + 2 * (t->pass[i].members - 1));
    }
    DT_TRY(dt_calloc(&t->request, t->requests, sizeof *t->request, what));
    for (size_t i = 0; i < t->requests; i++)
        t->request[i] = MPI_REQUEST_NULL;
    MPI_Request *r = t->request;
    for (tree_pass *k = t->pass; k < t->pass + passes; k++) {
        k->in = r;
        k->out = k->in + k->ins;
        k->back = k->out + k->outs;
        r = k->back + 2 * (k->members - 1);
    }
    return DT_OK;
}

/* After a failure messages may be under way, for which no rank waits any more. */
static void tree_close(dt_exchange *x)
{
    tree_state *t = x->state;

    for (size_t i = 0; t->request && i < t->requests; i++)
        if (t->request[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&t->request[i]);
            MPI_Request_free(&t->request[i]);
        }
    DT_FREE(t->request, t->part, t->pass);
}

/* ---- A bucket on a level ---------------------------------------------------------- */

static int tree_peer(const tree_pass *k, int member)
{
    return k->first + member * k->step;
}

/* The member so many after mine: not all send to the first one. */
static int tree_after(const tree_pass *k, int step)
{
    return (k->me + step) % k->members;
}

/* My partial sum j of the span. */
static float *tree_part(const dt_exchange *x, const tree_pass *k, int j)
{
    if (k->held == &x->outer)
        return ((tree_state *)x->state)->part[j] + k->span.first;
    return x->extra + k[-1].made + (size_t)j * tree_room(NULL, k->span);
}

static dt_status tree_receive_parts(dt_exchange *x, tree_pass *k)
{
    MPI_Request *r = k->in;
    float *received = x->extra + k->received;

    for (int from = 0; from < k->members; from++)
        for (int j = 0; j < tree_held(k, from) && from != k->me; j++) {
            const dt_form *form = tree_form_of(x, k, from, j);
            DT_TRY(dt_exchange_message(x, false, received, k->mine.count, form, tree_peer(k, from),
                                       k->tag, r++));
            received += tree_room(form, k->mine);
        }
    return DT_OK;
}

static dt_status tree_send_parts(dt_exchange *x, tree_pass *k)
{
    MPI_Request *r = k->out;
    float *packed = x->extra + k->packed;

    for (int step = 1; step < k->members; step++) {
        const int to = tree_after(k, step);
        const dt_span piece = tree_piece(k, to);
        for (int j = 0; j < tree_held(k, k->me); j++) {
            const dt_form *form = tree_form_of(x, k, k->me, j);
            float *part = tree_part(x, k, j) + (piece.first - k->span.first);
            if (form) {
                form->pack(packed, part, piece.count);
                part = packed;
                packed += tree_room(form, piece);
            }
            DT_TRY(dt_exchange_message(x, true, part, piece.count, form, tree_peer(k, to), k->tag,
                                       r++));
        }
    }
    k->going = true;
    return DT_OK;
}

/* All members' partial sums of my piece: into the sum, or into partial sums for the next level. */
static void tree_fold_parts(dt_exchange *x, tree_pass *k)
{
    const float *received = x->extra + k->received;
    int i = 0;

    for (int from = 0; from < k->members; from++)
        for (int j = 0; j < tree_held(k, from); j++, i++) {
            const dt_form *form = tree_form_of(x, k, from, j);
            if (from == k->me) {
                x->operand[i] =
                    (dt_operand){.at = tree_part(x, k, j) + (k->mine.first - k->span.first)};
                continue;
            }
            x->operand[i] = (dt_operand){received, form};
            received += tree_room(form, k->mine);
        }
    for (int j = 0; j < k->fold->roots; j++)
        x->result[j] = k->last ? x->sum + k->mine.first
                               : x->extra + k->made + (size_t)j * tree_room(NULL, k->mine);
    dt_fold_run(k->fold, &dt_fold_f32, x->operand, x->result, k->mine.count, x->scratch, 1);
}

/* Where the sum of the piece of the member `step` after mine is, as it travels. */
static float *tree_sums(const dt_exchange *x, const tree_pass *k, int step)
{
    float *at = x->extra + k->sums;

    if (!k->form)
        return x->sum + tree_piece(k, tree_after(k, step)).first;
    for (int i = 0; i < step; i++)
        at += tree_room(k->form, tree_piece(k, tree_after(k, i)));
    return at;
}

static dt_status tree_return_sums(dt_exchange *x, tree_pass *k)
{
    MPI_Request *r = k->back;

    if (k->form)
        k->form->pack(tree_sums(x, k, 0), x->sum + k->mine.first, k->mine.count);
    for (int step = 1; step < k->members; step++)
        DT_TRY(dt_exchange_message(x, true, tree_sums(x, k, 0), k->mine.count, k->form,
                                   tree_peer(k, tree_after(k, step)), k->tag + 1, r++));
    k->returned = true;
    return DT_OK;
}

static dt_status tree_receive_sums(dt_exchange *x, tree_pass *k)
{
    MPI_Request *r = k->back + k->members - 1;

    for (int step = 1; step < k->members; step++) {
        const int from = tree_after(k, step);
        DT_TRY(dt_exchange_message(x, false, tree_sums(x, k, step), tree_piece(k, from).count,
                                   k->form, tree_peer(k, from), k->tag + 1, r++));
    }
    return DT_OK;
}

static void tree_unpack_sums(dt_exchange *x, tree_pass *k)
{
    for (int step = 1; step < k->members && k->form; step++) {
        const dt_span piece = tree_piece(k, tree_after(k, step));
        k->form->read(x->sum + piece.first, tree_sums(x, k, step), piece.count);
    }
}

/* ---- Progress -------------------------------------------------------------------- */

static dt_status tree_start(dt_exchange *x, size_t b)
{
    const tree_state *t = x->state;

    for (size_t level = 0; level < tree_levels(x); level++) {
        tree_pass *k = &t->pass[b * tree_levels(x) + level];
        k->going = k->folded = k->sent = k->returned = k->done = false;
        DT_TRY(tree_receive_parts(x, k));
    }
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

/* Partial sums of a level come in, and those of the next go out, or the sum goes back. */
static dt_status tree_gather(dt_exchange *x, tree_pass *k)
{
    if (!k->going || k->folded)
        return DT_OK;
    DT_TRY(dt_comm_test(k->in, k->ins, &k->folded));
    if (!k->folded)
        return DT_OK;
    tree_fold_parts(x, k);
    return k->last ? tree_return_sums(x, k) : tree_send_parts(x, k + 1);
}

/* Sums of a level come in; then my piece of the level before has one. */
static dt_status tree_scatter(dt_exchange *x, tree_pass *k)
{
    if (k->going && !k->sent) {
        DT_TRY(dt_comm_test(k->out, k->outs, &k->sent));
        if (k->sent)
            DT_TRY(tree_receive_sums(x, k));
    }
    if (!k->sent || !k->returned || k->done)
        return DT_OK;
    DT_TRY(dt_comm_test(k->back, 2 * (k->members - 1), &k->done));
    if (!k->done)
        return DT_OK;
    tree_unpack_sums(x, k);
    return k->held == &x->outer ? DT_OK : tree_return_sums(x, k - 1);
}

static dt_status tree_advance(dt_exchange *x, size_t b, bool *done)
{
    const tree_state *t = x->state;
    tree_pass *k = &t->pass[b * tree_levels(x)];

    if (!k->going) {
        tree_fold(x, b);
        DT_TRY(tree_send_parts(x, k));
    }
    for (size_t level = 0; level < tree_levels(x); level++)
        DT_TRY(tree_gather(x, k + level));
    for (size_t level = tree_levels(x); level-- > 0;)
        DT_TRY(tree_scatter(x, k + level));
    *done = k->done;
    return DT_OK;
}

const dt_exchange_row dt_exchange_row_tree = {
    .name = "tree",
    .exact = true,
    .shares = DT_SHARES_NODES,
    .extra = tree_extra,
    .open = tree_open,
    .start = tree_start,
    .advance = tree_advance,
    .close = tree_close,
};

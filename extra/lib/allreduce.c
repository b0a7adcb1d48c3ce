/* allreduce.c - arrays of numbers are summed over ranks, in the order of the tree.
 *
 * Each rank owns a part of the numbers and completes their sums: it receives the other ranks'
 * operands of its part (scatter), folds, and sends the results on (gather), by pieces, so that
 * buffers are small, and some pieces are under way while another is folded. Where the numbers are
 * few, every rank owns all of them, and there is no gather. Operands and results are sent from and
 * received in the caller's arrays wherever they are. */
#include "lib.h"

enum {
    COMBINE_BUFFER = 4 << 20, /* bytes of operands of a piece, about */
    COMBINE_FEW = 8 << 10,    /* bytes of an array of few numbers */
};

void dt_allreduce_release(dt_allreduce *k)
{
    for (int i = 0; i < DT_ALLREDUCE_AHEAD; i++)
        DT_FREE(k->scatter[i].message, k->gather[i].message);
    free(k->memory);
}

/* From now on there is memory of `bytes`: what grows does so on all ranks, which had the same calls
 * before, and after a failure all begin anew. Collective. */
static dt_status keep(dt_allreduce *k, size_t bytes)
{
    if (bytes <= k->bytes)
        return DT_OK;
    free(k->memory);
    k->bytes = 0;
    k->memory = aligned_alloc(64, dt_align(bytes, 64));
    DT_TRY(dt_comm_agree(
        k->comm, k->memory
                     ? DT_OK
                     : dt_fail(DT_NOMEM, "no memory for %zu bytes of a sum's buffers", bytes)));
    k->bytes = bytes;
    return DT_OK;
}

/* ---- Parts and pieces -------------------------------------------------------------- */

static size_t wide_bytes(const dt_allreduce *k)
{
    return k->o.number->wide[k->o.op].bytes;
}

static size_t operand_bytes(const dt_allreduce *k, const dt_held *h)
{
    return h->leaves == 1 ? k->o.number->bytes : wide_bytes(k);
}

/* The numbers that rank r completes. */
static dt_span part_of(const dt_allreduce *k, int r)
{
    size_t first = 0;

    if (k->o.to == DT_TO_PARTS) {
        for (int i = 0; i < r; i++)
            first += k->o.counts[i];
        return (dt_span){first, k->o.counts[r]};
    }
    if (k->few)
        return (dt_span){0, k->o.to == DT_TO_ALL || r == k->o.root ? k->o.count : 0};
    return dt_spans_slice((dt_span){0, k->o.count}, r, k->comm->world);
}

static dt_span piece_of(const dt_allreduce *k, int r, size_t piece)
{
    const dt_span part = part_of(k, r);
    const size_t at = DT_MIN(piece * k->most, part.count);
    return (dt_span){part.first + at, DT_MIN(part.count - at, k->most)};
}

static char *buffer_of(const dt_allreduce *k, size_t piece)
{
    return k->memory + piece % DT_ALLREDUCE_AHEAD * k->room;
}

/* Where this rank's results of a piece go: to the buffer, where it only passes them on. */
static char *results_of(const dt_allreduce *k, size_t piece, dt_span s)
{
    char *out = k->o.out;

    if (k->o.to == DT_TO_PARTS)
        return out + piece * k->most * k->o.number->bytes;
    if (k->o.to == DT_TO_ROOT && k->comm->rank != k->o.root)
        return buffer_of(k, piece);
    return out + s.first * k->o.number->bytes;
}

/* ---- The plan of a call -------------------------------------------------------------- */

static dt_status plan(dt_allreduce *k, const dt_allreduce_opts *o)
{
    const size_t wide = o->number->wide[o->op].bytes;
    size_t largest = 0;

    for (int i = 0; i < DT_ALLREDUCE_AHEAD; i++)
        k->scatter[i].comm = k->gather[i].comm = k->comm;
    k->o = *o;
    k->few = o->count * o->number->bytes <= COMBINE_FEW;
    k->o.operands = o->held ? o->operands : k->comm->world;
    const size_t operands = (size_t)k->o.operands;
    k->most = DT_MAX(COMBINE_BUFFER / wide / operands / 16 * 16, 16);
    for (int r = 0; r < k->comm->world; r++)
        largest = DT_MAX(largest, part_of(k, r).count);
    k->pieces = (largest + k->most - 1) / k->most;
    k->room = dt_align(dt_align(DT_MIN(largest, k->most) * wide, 8) * operands, 64);

    const size_t rooms = k->comm->world > 1 ? DT_MIN(k->pieces, DT_ALLREDUCE_AHEAD) * k->room : 0;
    const size_t scratch = (DT_MIN(operands, DT_COUNTER_DEPTH) + 1) * DT_FOLD_BYTES;
    const size_t each = sizeof(dt_operand) + sizeof(dt_fold_part) + sizeof(dt_held);
    DT_TRY(keep(k, rooms + scratch + operands * each));
    k->scratch = k->memory + rooms;
    k->operand = (void *)(k->scratch + scratch);
    dt_fold_part *part = (void *)(k->operand + operands);
    dt_held *leaf = (void *)(part + operands);
    for (int r = 0; !o->held && r < k->comm->world; r++)
        leaf[r] = (dt_held){(unsigned)r, 1, r, o->mine};
    k->o.held = o->held ? o->held : leaf;
    for (size_t i = 0; i < operands; i++)
        part[i] = (dt_fold_part){.tree = {k->o.held[i].first, k->o.held[i].leaves}};
    k->fold = dt_fold_over(part, (int)operands);
    return DT_OK;
}

/* ---- A piece ------------------------------------------------------------------------ */

/* Begin to receive the operands of this rank's piece, and to send those of the others'. */
static dt_status scatter(dt_allreduce *k, size_t piece)
{
    const int rank = k->comm->rank, world = k->comm->world;
    const dt_span own = piece_of(k, rank, piece);
    dt_post *post = &k->scatter[piece % DT_ALLREDUCE_AHEAD];
    char *to = buffer_of(k, piece);

    for (int i = 0; i < k->o.operands; i++) {
        const dt_held *h = &k->o.held[i];
        const size_t bytes = own.count * operand_bytes(k, h);
        if (h->rank == rank)
            continue;
        DT_TRY(dt_post_message(post, DTD_LANE_SCATTER, false, to, bytes, h->rank));
        to += dt_align(bytes, 8); /* the next may be of a wider type */
    }
    for (int step = 1; step < world; step++) { /* not all to the same rank first */
        const int r = (rank + step) % world;
        const dt_span s = piece_of(k, r, piece);
        for (int i = 0; i < k->o.operands; i++) {
            const dt_held *h = &k->o.held[i];
            const size_t each = operand_bytes(k, h);
            if (h->rank == rank)
                DT_TRY(dt_post_message(post, DTD_LANE_SCATTER, true,
                                       (const char *)h->at + s.first * each, s.count * each, r));
        }
    }
    return DT_OK;
}

/* Block by block: what is rounded at the end is still in the cache. */
static void fold_piece(dt_allreduce *k, size_t piece, dt_span s)
{
    const dt_number *n = k->o.number;
    const size_t block = DT_FOLD_BYTES / wide_bytes(k);
    char *out = results_of(k, piece, s);
    void *wide = k->scratch + (size_t)k->fold.depth * DT_FOLD_BYTES;

    for (size_t at = 0; at < s.count; at += block) {
        const size_t count = DT_MIN(s.count - at, block);
        const char *came = buffer_of(k, piece);
        for (int i = 0; i < k->o.operands; i++) {
            const dt_held *h = &k->o.held[i];
            const size_t each = operand_bytes(k, h);
            const bool own = h->rank == k->comm->rank;
            k->operand[i] =
                (dt_operand){own ? (const char *)h->at + (s.first + at) * each : came + at * each,
                             h->leaves == 1 ? n->form : NULL};
            came += own ? 0 : dt_align(s.count * each, 8);
        }
        void *result = n->form ? wide : out + at * n->bytes;
        dt_fold_run(&k->fold, &n->wide[k->o.op], k->operand, &result, count, k->scratch, 1);
        if (k->o.divide > 0)
            n->divide(result, count, k->o.divide);
        if (n->form)
            n->form->pack(out + at * n->bytes, wide, count);
    }
}

/* Fold this rank's piece, and begin to send the results on, and to receive the others'. */
static dt_status complete(dt_allreduce *k, size_t piece)
{
    const int rank = k->comm->rank, world = k->comm->world;
    const dt_span own = piece_of(k, rank, piece);
    const size_t each = k->o.number->bytes;
    dt_post *post = &k->gather[piece % DT_ALLREDUCE_AHEAD];

    DT_TRY(dt_post_wait(&k->scatter[piece % DT_ALLREDUCE_AHEAD]));
    fold_piece(k, piece, own);
    if (k->few || k->o.to == DT_TO_PARTS)
        return DT_OK;
    for (int step = 1; step < world; step++) {
        const int r = (rank + step) % world;
        const dt_span s = piece_of(k, r, piece);
        if (k->o.to == DT_TO_ALL || rank == k->o.root)
            DT_TRY(dt_post_message(post, DTD_LANE_GATHER, false, (char *)k->o.out + s.first * each,
                                   s.count * each, r));
        if (k->o.to == DT_TO_ALL || r == k->o.root)
            DT_TRY(dt_post_message(post, DTD_LANE_GATHER, true, results_of(k, piece, own),
                                   own.count * each, r));
    }
    return DT_OK;
}

dt_status dt_allreduce_run(dt_allreduce *k, const dt_allreduce_opts *o)
{
    enum { LAG = DT_ALLREDUCE_AHEAD - 1 };

    DT_TRY(plan(k, o));
    for (size_t i = 0; i < k->pieces + DT_ALLREDUCE_AHEAD; i++) {
        if (i >= DT_ALLREDUCE_AHEAD)
            DT_TRY(dt_post_wait(&k->gather[i % DT_ALLREDUCE_AHEAD]));
        if (i < k->pieces)
            DT_TRY(scatter(k, i));
        if (i >= LAG && i - LAG < k->pieces)
            DT_TRY(complete(k, i - LAG));
    }
    return DT_OK;
}

void dt_allreduce_pair(const dt_number *number, dtd_op op, void *to, const void *left,
                       const void *right, bool leaves, size_t count)
{
    _Alignas(64) char scratch[2 * DT_FOLD_BYTES];
    const dt_form *form = leaves ? number->form : NULL;
    dt_fold_part part[2];
    const dt_fold fold = dt_fold_cascade(part, 2);

    dt_fold_run(&fold, &number->wide[op], (dt_operand[]){{left, form}, {right, form}}, &to, count,
                scratch, 1);
}

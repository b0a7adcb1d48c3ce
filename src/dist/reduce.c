/* reduce.c - the summation tree for small values: losses, counts, moments of batch normalisation.
 *
 * A rank folds the leaves of one group of shards after the other, by a counter. A group that
 * lies on one rank is then complete; of the others (at most the rank's first and last) all
 * ranks gather the partial values, and each completes those it needs. Where many ranks have one
 * group, neighbours gather theirs and make larger ones, which ranks with the same place among their
 * neighbours gather: some sqrt(ranks) values come to a rank, and not all. */
#include "comm.h"
#include "fold.h"

#include <assert.h>
#include <stdlib.h>

enum { REDUCE_LINE = 64 }; /* slots begin at cache lines */

typedef struct reduce_group { /* one that this rank has shards of */
    int end;                  /* its last own shard + 1 */
    bool spans;               /* other ranks have shards of it, too */
    int gathered;             /* spans: where its first operand is after gathering */
    dt_fold fold;             /* over the partial values of all ranks */
    void *result;
} reduce_group;

struct dt_reduce {
    dt_comm *comm; /* borrowed */
    const dt_fold_type *type;
    size_t count, most, stride; /* elements now and at most; bytes between slots */
    int shards, group;
    int first, end, next; /* own shards; the next leaf */
    dt_counter counter;
    reduce_group *groups;  /* [own], owned */
    int own, at;           /* groups; that of the next leaf */
    int operands;          /* gathered ones */
    int most_slots, depth; /* of any own group */
    char *slots;           /* [most_slots] for the counter, owned */
    char *results;         /* [own], owned */
    char *gathered;        /* [operands], owned; NULL when nothing is sent */
    char *scratch;         /* for dt_fold_run, owned */
    dt_operand *operand;   /* [shards], owned */
    int *parts, *bytes,
        *displace;          /* [world] gathered from each rank, for MPI; in one block, owned */
    int neighbours;         /* ranks; all of them: there are no levels, and no more members */
    dt_fold within, across; /* over the values of the neighbours; of all groups of these */
    char *larger;           /* [across.operands], owned */
    MPI_Request *request;   /* [2 * ranks of a level], owned */
};

/* ---- Planning -------------------------------------------------------------------- */

/* Groups are counted in ascending order, and so are the gathered operands, rank by rank. */
static dt_status plan_group(dt_reduce *t, int first)
{
    const int end = DT_MIN(first + t->group, t->shards), world = t->comm->world;
    const bool all = t->group == t->shards; /* a rank without shards wants the sum, too */
    int owners = 0;
    reduce_group g = {.end = DT_MIN(end, t->end), .gathered = t->operands};

    DT_TRY(dt_fold_init(&g.fold, (dt_groups){t->shards, world, 0, 1, world},
                        &(dt_subtree){(unsigned)first, (unsigned)(end - first)}, true));
    for (int r = 0; r < world; r++)
        owners += g.fold.start[r] < g.fold.start[r + 1];
    g.spans = owners > 1 || (all && world > t->shards);
    for (int r = 0; r < world && g.spans; r++)
        t->parts[r] += g.fold.start[r + 1] - g.fold.start[r];
    t->operands += g.spans ? g.fold.operands : 0;
    if (!all && (t->first == t->end || first >= t->end || end <= t->first)) {
        dt_fold_release(&g.fold);
        return DT_OK;
    }
    const int slots = dt_counter_slots(DT_MAX(first, t->first) - first, g.end - first);
    t->most_slots = DT_MAX(t->most_slots, slots);
    t->depth = DT_MAX(t->depth, g.fold.depth);
    t->groups[t->own++] = g;
    return DT_OK;
}

static dt_status plan_groups(dt_reduce *t)
{
    const size_t world = (size_t)t->comm->world, own = (size_t)(t->end - t->first);

    DT_TRY(dt_calloc(&t->groups, own, sizeof *t->groups, "sums over shards"));
    DT_TRY(dt_calloc(&t->parts, 3 * world, sizeof *t->parts, "sums over shards"));
    t->bytes = t->parts + world;
    t->displace = t->bytes + world;
    for (int first = 0; first < t->shards; first += t->group)
        DT_TRY(plan_group(t, first));
    return DT_OK;
}

static dt_status plan_levels(dt_reduce *t)
{
    const int world = t->comm->world, each = t->neighbours, rank = t->comm->rank;
    const size_t most = (size_t)DT_MAX(each, world / each);

    DT_TRY(dt_fold_init(&t->within, (dt_groups){t->shards, world, rank / each * each, 1, each},
                        NULL, false));
    DT_TRY(
        dt_fold_init(&t->across, (dt_groups){t->shards, world, 0, each, world / each}, NULL, true));
    t->depth = DT_MAX(t->depth, t->within.depth);
    DT_TRY(dt_calloc(&t->request, 2 * most, sizeof *t->request, "sums over shards"));
    return dt_calloc(&t->larger, (size_t)t->across.operands, t->stride, "sums over shards");
}

static dt_status reduce_memory(dt_reduce *t)
{
    const char *what = "sums over shards";
    int total = 0; /* also bounds every displacement */

    DT_TRY(plan_groups(t));
    DT_TRY(dt_calloc(&t->operand, (size_t)t->shards, sizeof *t->operand, what));
    DT_TRY(dt_calloc(&t->scratch, (size_t)t->depth, DT_FOLD_BYTES, what));
    DT_TRY(dt_calloc(&t->slots, (size_t)t->most_slots, t->stride, what));
    DT_TRY(dt_calloc(&t->results, (size_t)t->own, t->stride, what));
    if (t->operands == 0)
        return DT_OK;
    if (t->neighbours < t->comm->world) {
        DT_TRY(plan_levels(t));
        return dt_calloc(&t->gathered, (size_t)t->within.operands, t->stride, what);
    }
    DT_TRY(dt_comm_count((size_t)t->operands * t->stride, &total));
    return dt_calloc(&t->gathered, (size_t)t->operands, t->stride, what);
}

dt_status dt_reduce_create(dt_reduce **t, dt_comm *c, int shards, size_t count,
                           const dt_fold_type *type, int group)
{
    assert(shards >= 1 && group >= 1);
    DT_TRY(dt_calloc(t, 1, sizeof **t, "sums over shards"));
    **t = (dt_reduce){.comm = c,
                      .type = type,
                      .most = count,
                      .stride = dt_align(count * type->bytes, REDUCE_LINE),
                      .shards = shards,
                      .group = DT_MIN(group, shards)};
    (*t)->neighbours = group < shards ? c->world : dt_fold_group(c->world, c->own->few);
    dt_shards_of(shards, c->world, c->rank, &(*t)->first, &(*t)->end);
    (*t)->next = (*t)->first;
    DT_TRY(reduce_memory(*t));
    dt_reduce_resize(*t, count);
    return DT_OK;
}

void dt_reduce_destroy(dt_reduce *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->own; i++)
        dt_fold_release(&t->groups[i].fold);
    dt_fold_release(&t->within);
    dt_fold_release(&t->across);
    free(t->larger);
    free(t->request);
    free(t->groups);
    free(t->slots);
    free(t->results);
    free(t->gathered);
    free(t->scratch);
    free(t->operand);
    free(t->parts);
    free(t);
}

void dt_reduce_resize(dt_reduce *t, size_t count)
{
    int at = 0;

    assert(count <= t->most && t->next == t->first);
    t->count = count;
    t->stride = dt_align(count * t->type->bytes, REDUCE_LINE);
    for (int r = 0; r < t->comm->world && !t->larger; r++) {
        t->bytes[r] = t->parts[r] * (int)t->stride;
        t->displace[r] = at;
        at += t->bytes[r];
    }
}

/* ---- A round --------------------------------------------------------------------- */

void *dt_reduce_leaf(dt_reduce *t)
{
    assert(t->next < t->end);
    return t->slots + (size_t)t->counter.depth * t->stride;
}

static void fold_level(dt_reduce *t, const dt_fold *f, const char *values, void *const *result)
{
    for (int i = 0; i < f->operands; i++)
        t->operand[i] = (dt_operand){.at = values + (size_t)i * t->stride};
    dt_fold_run(f, t->type, t->operand, result, t->count, t->scratch, 1);
}

/* The tree over a group's partial values, from its first operand on. */
static void group_complete(dt_reduce *t, reduce_group *g, const char *operand)
{
    g->result = t->results + (g - t->groups) * (ptrdiff_t)t->stride;
    fold_level(t, &g->fold, operand, &g->result);
}

/* Complete on this rank, or to be gathered. */
static void group_end(dt_reduce *t, reduce_group *g)
{
    if (g->spans) {
        const int rank = t->comm->rank, operand = t->larger ? t->within.start[rank % t->neighbours]
                                                            : g->gathered + g->fold.start[rank];
        memcpy(t->gathered + (size_t)operand * t->stride, t->slots,
               (size_t)t->counter.depth * t->stride);
    } else {
        group_complete(t, g, t->slots);
    }
    t->counter.depth = 0;
    t->at++;
}

void dt_reduce_push(dt_reduce *t)
{
    reduce_group *g = &t->groups[t->at];
    const int leaf = t->next++ % t->group; /* groups begin at multiples of it */
    char *top = t->slots + (size_t)t->counter.depth * t->stride;

    for (int merges = dt_counter_push(&t->counter, (dt_subtree){(unsigned)leaf, 1}); merges > 0;
         merges--, top -= t->stride)
        t->type->add(top - t->stride, top - t->stride, top, t->count);
    if (t->next == g->end)
        group_end(t, g);
}

/* Values of members 0, 1, ... of a level, rank first + i * step each, to where they lie in turn;
 * those of member `me`, this rank, are there. */
static dt_status gather_level(dt_reduce *t, const dt_fold *f, char *values, int members, int me,
                              int first, int step)
{
    MPI_Comm all = t->comm->own->all;
    int n = 0;

    for (int i = 1; i < members; i++) {
        const int other = (me + i) % members, rank = first + other * step;
        const int bytes = (int)t->stride, held = f->start[other + 1] - f->start[other];
        DT_MPI(MPI_Irecv(values + (size_t)f->start[other] * t->stride, held * bytes, MPI_BYTE, rank,
                         DT_TAG_REDUCE, all, &t->request[n++]));
        DT_MPI(MPI_Isend(values + (size_t)f->start[me] * t->stride,
                         (f->start[me + 1] - f->start[me]) * bytes, MPI_BYTE, rank, DT_TAG_REDUCE,
                         all, &t->request[n++]));
    }
    return dt_comm_wait(t->comm, t->request, n);
}

/* In two levels: the only group's value, on all ranks. */
static dt_status reduce_levels(dt_reduce *t)
{
    const int each = t->neighbours, rank = t->comm->rank, place = rank % each, group = rank / each;
    void *larger[DT_COUNTER_DEPTH];

    DT_TRY(gather_level(t, &t->within, t->gathered, each, place, group * each, 1));
    for (int i = 0; i < t->within.roots; i++)
        larger[i] = t->larger + (size_t)(t->across.start[group] + i) * t->stride;
    fold_level(t, &t->within, t->gathered, larger);
    DT_TRY(gather_level(t, &t->across, t->larger, t->comm->world / each, group, place, each));
    t->groups[0].result = t->results;
    fold_level(t, &t->across, t->larger, &t->groups[0].result);
    return DT_OK;
}

dt_status dt_reduce_finish(dt_reduce *t, const void **result)
{
    const int64_t began = dt_place_clock();
    MPI_Request request;

    if (t->next != t->end)
        return dt_fail(DT_BUG, "a sum over shards [%d, %d) ended at %d", t->first, t->end, t->next);
    if (t->larger) {
        DT_TRY(reduce_levels(t));
    } else if (t->operands > 0) {
        DT_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, t->gathered, t->bytes,
                               t->displace, MPI_BYTE, t->comm->own->all, &request));
        DT_TRY(dt_comm_wait(t->comm, &request, 1));
    }
    if (t->operands > 0)
        dt_record(DT_LANE_WAIT, DT_IN_reduction, (size_t)t->parts[t->comm->rank] * t->stride,
                  began);
    for (int i = 0; i < t->own && !t->larger; i++)
        if (t->groups[i].spans)
            group_complete(t, &t->groups[i],
                           t->gathered + (size_t)t->groups[i].gathered * t->stride);
    t->at = 0;
    t->next = t->first;
    *result = t->own > 0 ? t->groups[0].result : NULL;
    return DT_OK;
}

const void *dt_reduce_result(const dt_reduce *t, int shard)
{
    assert(shard >= t->first && shard < t->end);
    return t->groups[shard / t->group - t->first / t->group].result;
}

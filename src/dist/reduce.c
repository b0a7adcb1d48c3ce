/* reduce.c - the summation tree for small values: losses, counts, moments of batch normalisation.
 *
 * A rank folds the leaves of one group of shards after the other, by a counter. A group that
 * lies on one rank is then complete; of the others (at most the rank's first and last) all
 * ranks gather the partial values, and each completes those it needs. */
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
        *displace; /* [world] gathered from each rank, for MPI; in one block, owned */
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
    DT_TRY(dt_comm_count((size_t)t->operands * t->stride, &total));
    return dt_calloc(&t->gathered, (size_t)t->operands, t->stride, what);
}

dt_status dt_reduce_create(dt_reduce **t, dt_comm *c, int shards, size_t count,
                           const dt_fold_type *type, int group)
{
    DT_TRY(dt_shards_check(shards));
    if (group < 1)
        return dt_fail(DT_BUG, "groups of %d shards", group);
    DT_TRY(dt_calloc(t, 1, sizeof **t, "sums over shards"));
    **t = (dt_reduce){.comm = c,
                      .type = type,
                      .most = count,
                      .stride = dt_align(count * type->bytes, REDUCE_LINE),
                      .shards = shards,
                      .group = DT_MIN(group, shards)};
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
    for (int r = 0; r < t->comm->world; r++) {
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

/* The tree over a group's partial values, from its first operand on. */
static void group_complete(dt_reduce *t, reduce_group *g, const char *operand)
{
    for (int i = 0; i < g->fold.operands; i++)
        t->operand[i] = (dt_operand){.at = operand + (size_t)i * t->stride};
    g->result = t->results + (g - t->groups) * (ptrdiff_t)t->stride;
    dt_fold_run(&g->fold, t->type, t->operand, &g->result, t->count, t->scratch, 1);
}

/* Complete on this rank, or to be gathered. */
static void group_end(dt_reduce *t, reduce_group *g)
{
    if (g->spans) {
        const int operand = g->gathered + g->fold.start[t->comm->rank];
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

dt_status dt_reduce_finish(dt_reduce *t, const void **result)
{
    const int64_t began = dt_place_clock();
    MPI_Request request;

    if (t->next != t->end)
        return dt_fail(DT_BUG, "a sum over shards [%d, %d) ended at %d", t->first, t->end, t->next);
    if (t->operands > 0) {
        DT_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, t->gathered, t->bytes,
                               t->displace, MPI_BYTE, t->comm->own->all, &request));
        DT_TRY(dt_comm_wait(t->comm, &request, 1));
        dt_record(DT_LANE_WAIT, DT_IN_reduction, (size_t)t->bytes[t->comm->rank], began);
    }
    for (int i = 0; i < t->own; i++)
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

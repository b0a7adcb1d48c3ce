/* reduce.c - the summation tree for small values: losses, counts, moments of batch normalisation.
 *
 * A rank folds the leaves of one group of shards after the other, by a counter. The ranks that
 * have shards of a group then pass their partial values to each other, and each completes the sum.
 * Where many ranks have one group there are two levels: neighbours make larger values of theirs,
 * which ranks with the same place among their neighbours pass on: some sqrt(ranks) values come to a
 * rank, and not all. */
#include "comm.h"
#include "fold.h"

#include <assert.h>

enum { REDUCE_LINE = 64 }; /* slots begin at cache lines */

/* Members pass on what they have: member i is the rank of group i that has this rank's place. */
typedef struct reduce_level {
    dt_groups groups;
    dt_fold fold; /* over the values of all members */
    char *values; /* [fold.operands] in its order; owned */
    int me;       /* this rank's member */
    int end;      /* the last own shard + 1 */
} reduce_level;

struct dt_reduce {
    dt_comm *comm; /* borrowed */
    const dt_fold_type *type;
    size_t count, most, stride; /* elements now and at most; bytes between slots */
    int shards, group;
    bool meets, deep;     /* ranks pass values on; in two levels */
    int first, end, next; /* own shards; the next leaf */
    dt_counter counter;
    reduce_level *level;  /* [levels] two, or one of each own group, owned */
    int levels, at;       /* at: that of the next leaf */
    int most_slots;       /* of any own group */
    size_t passed;        /* values that this rank passes on */
    char *slots;          /* [most_slots] for the counter, owned */
    char *results;        /* [own groups], owned */
    char *scratch;        /* for dt_fold_run, owned */
    dt_operand *operand;  /* [shards], owned */
    MPI_Request *request; /* [4 * world]: a rank shares at most two groups with others; owned */
};

/* ---- Planning -------------------------------------------------------------------- */

/* A level over the group of shards that begins with `first`. */
static dt_status plan_level(dt_reduce *t, dt_groups groups, int first, bool whole)
{
    const int end = DT_MIN(first + t->group, t->shards), own_end = DT_MIN(end, t->end);
    const int slots = dt_counter_slots(DT_MAX(first, t->first) - first, own_end - first);
    const bool all = t->group == t->shards && t->meets;
    reduce_level *k = &t->level[t->levels++];

    *k = (reduce_level){
        .groups = groups, .me = (t->comm->rank - groups.first) / groups.step, .end = own_end};
    DT_TRY(dt_fold_init(&k->fold, groups, &(dt_subtree){(unsigned)first, (unsigned)(end - first)},
                        whole));
    if (groups.step == 1 && (all || k->fold.operands > dt_fold_held(&k->fold, k->me)))
        t->passed += (size_t)dt_fold_held(&k->fold, k->me);
    t->most_slots = DT_MAX(t->most_slots, slots);
    return dt_calloc(&k->values, (size_t)k->fold.operands, t->stride, "sums over shards");
}

/* A rank without shards wants the sum of all, too. */
static dt_status plan_levels(dt_reduce *t)
{
    const int world = t->comm->world, rank = t->comm->rank, shards = t->shards;
    const int each = t->group < shards ? world : dt_fold_group(world, t->comm->own->few);

    t->meets = t->group == shards && world > 1;
    for (int r = 0, first, end; r < world && !t->meets; r++) {
        dt_shards_of(shards, world, r, &first, &end);
        t->meets = first < end && first % t->group != 0;
    }
    t->deep = each < world;
    DT_TRY(dt_calloc(&t->level, (size_t)(t->end - t->first) + 2, sizeof *t->level,
                     "sums over shards"));
    if (t->deep) {
        const dt_groups within = {shards, world, rank / each * each, 1, each};
        DT_TRY(plan_level(t, within, 0, false));
        return plan_level(t, (dt_groups){shards, world, 0, each, world / each}, 0, true);
    }
    const int end = t->first < t->end ? t->end : t->group == shards;
    for (int first = t->first / t->group * t->group; first < end; first += t->group)
        DT_TRY(plan_level(t, (dt_groups){shards, world, 0, 1, world}, first, true));
    return DT_OK;
}

static dt_status reduce_memory(dt_reduce *t)
{
    const char *what = "sums over shards";
    int depth = 0;

    DT_TRY(plan_levels(t));
    for (int i = 0; i < t->levels; i++)
        depth = DT_MAX(depth, t->level[i].fold.depth);
    DT_TRY(dt_calloc(&t->request, 4 * (size_t)t->comm->world, sizeof *t->request, what));
    DT_TRY(dt_calloc(&t->operand, (size_t)t->shards, sizeof *t->operand, what));
    DT_TRY(dt_calloc(&t->scratch, (size_t)depth, DT_FOLD_BYTES, what));
    DT_TRY(dt_calloc(&t->slots, (size_t)t->most_slots, t->stride, what));
    return dt_calloc(&t->results, (size_t)t->levels, t->stride, what);
}

dt_status dt_reduce_create(dt_reduce **t, dt_comm *c, int shards, size_t count,
                           const dt_fold_type *type, int group)
{
    assert(shards >= 1 && group >= 1);
    DT_TRY(dt_calloc(t, 1, sizeof **t, "sums over shards"));
    **t = (dt_reduce){.comm = c,
                      .type = type,
                      .count = count,
                      .most = count,
                      .stride = dt_align(count * type->bytes, REDUCE_LINE),
                      .shards = shards,
                      .group = DT_MIN(group, shards)};
    dt_shards_of(shards, c->world, c->rank, &(*t)->first, &(*t)->end);
    (*t)->next = (*t)->first;
    return reduce_memory(*t);
}

void dt_reduce_destroy(dt_reduce *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->levels; i++) {
        dt_fold_release(&t->level[i].fold);
        free(t->level[i].values);
    }
    DT_FREE(t->level, t->request, t->slots, t->results, t->scratch, t->operand, t);
}

void dt_reduce_resize(dt_reduce *t, size_t count)
{
    assert(count <= t->most && t->next == t->first);
    t->count = count;
    t->stride = dt_align(count * t->type->bytes, REDUCE_LINE);
}

/* ---- A round --------------------------------------------------------------------- */

static char *value_of(const dt_reduce *t, const reduce_level *k, int member)
{
    return k->values + (size_t)k->fold.start[member] * t->stride;
}

/* Of own group i, whatever the count is: it is lent until the next leaf. */
static char *result_of(const dt_reduce *t, int i)
{
    return t->results + (size_t)i * dt_align(t->most * t->type->bytes, REDUCE_LINE);
}

void *dt_reduce_leaf(dt_reduce *t)
{
    assert(t->next < t->end);
    return t->slots + (size_t)t->counter.depth * t->stride;
}

void dt_reduce_push(dt_reduce *t)
{
    const reduce_level *k = &t->level[t->at];
    const int leaf = t->next++ % t->group; /* groups begin at multiples of it */
    char *top = t->slots + (size_t)t->counter.depth * t->stride;

    for (int merges = dt_counter_push(&t->counter, (dt_subtree){(unsigned)leaf, 1}); merges > 0;
         merges--, top -= t->stride)
        t->type->add(top - t->stride, top - t->stride, top, t->count);
    if (t->next < k->end)
        return;
    memcpy(value_of(t, k, k->me), t->slots, (size_t)t->counter.depth * t->stride);
    t->counter.depth = 0;
    t->at++;
}

/* Begin to send own values to the other members that have some, or want the sum of all; and to
 * receive theirs. */
static dt_status level_pass(const dt_reduce *t, const reduce_level *k, MPI_Request **r)
{
    const bool all = t->group == t->shards;
    const int step = k->groups.step, place = k->groups.first + t->comm->rank % step;
    MPI_Comm on = t->comm->own->all;

    for (int i = 1; i < k->groups.count; i++) {
        const int other = (k->me + i) % k->groups.count, rank = place + other * step;
        const size_t theirs = (size_t)dt_fold_held(&k->fold, other) * t->stride;
        const size_t mine =
            all || theirs > 0 ? (size_t)dt_fold_held(&k->fold, k->me) * t->stride : 0;
        DT_TRY(dt_comm_message(on, false, value_of(t, k, other), theirs, MPI_BYTE, rank,
                               DT_TAG_REDUCE, *r));
        *r += theirs > 0;
        DT_TRY(dt_comm_message(on, true, value_of(t, k, k->me), mine, MPI_BYTE, rank, DT_TAG_REDUCE,
                               *r));
        *r += mine > 0;
    }
    return DT_OK;
}

/* Into the group's result, or into values for the next level. */
static void level_complete(dt_reduce *t, const reduce_level *k)
{
    const bool passes_on = t->deep && k == t->level;
    char *to =
        passes_on ? value_of(t, k + 1, k[1].me) : result_of(t, t->deep ? 0 : (int)(k - t->level));
    void *result[DT_COUNTER_DEPTH];

    for (int i = 0; i < k->fold.operands; i++)
        t->operand[i] = (dt_operand){.at = k->values + (size_t)i * t->stride};
    for (int i = 0; i < k->fold.roots; i++)
        result[i] = to + (size_t)i * t->stride;
    dt_fold_run(&k->fold, t->type, t->operand, result, t->count, t->scratch, 1);
}

dt_status dt_reduce_finish(dt_reduce *t)
{
    const int64_t began = dt_activity_clock();

    if (t->next != t->end)
        return dt_fail(DT_BUG, "a sum over shards [%d, %d) ended at %d", t->first, t->end, t->next);
    for (int from = 0, to; from < t->levels; from = to) { /* groups all at once */
        MPI_Request *r = t->request;
        to = t->deep ? from + 1 : t->levels;
        for (int i = from; i < to; i++)
            DT_TRY(level_pass(t, &t->level[i], &r));
        DT_TRY(dt_comm_wait(t->comm, t->request, (int)(r - t->request)));
        for (int i = from; i < to; i++)
            level_complete(t, &t->level[i]);
    }
    if (t->meets)
        dt_record(DT_LANE_WAIT, t->group < t->shards ? DT_IN_statistics : DT_IN_reduction,
                  t->passed * t->stride, began);
    t->at = 0;
    t->next = t->first;
    return DT_OK;
}

const void *dt_reduce_result(const dt_reduce *t, int shard)
{
    assert((shard >= t->first && shard < t->end) || t->group == t->shards);
    return result_of(t, shard / t->group - t->first / t->group);
}

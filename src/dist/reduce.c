/* reduce.c - the summation tree for small values: losses, counts, moments of batch normalisation.
 *
 * A rank folds its leaves as they come, each group of shards with a counter of its own. A
 * group that lies on one rank is then complete; of the others (at most the rank's first
 * and last) all ranks gather the partial values, and each completes those it needs. */
#include "comm.h"
#include "sumtree.h"

#include <assert.h>
#include <stdlib.h>

enum { REDUCE_LINE = 64 }; /* slots begin at cache lines */

typedef struct reduce_group {       /* one that this rank has shards of */
    int end;                        /* its last own shard + 1 */
    bool spans;                     /* other ranks have shards of it, too */
    size_t slot;                    /* of its first partial value */
    int first_operand, end_operand; /* spans: where they are after gathering */
    const void *result;
} reduce_group;

struct dt_reduce {
    dt_comm *comm; /* borrowed */
    dt_merge merge;
    size_t count, most, element, stride; /* elements now and at most; bytes of one, between
                                            slots */
    int shards, group;
    int first, end, next; /* own shards; the next leaf */
    dt_counter counter;
    reduce_group *groups;  /* own; [local groups], owned */
    int at;                /* group of the next leaf */
    char *slots;           /* owned; partial values to be sent come first, unmixed */
    char *gathered;        /* [operands], owned; NULL when nothing is sent */
    dt_subtree *operand;   /* [operands] of all ranks, ascending; owned */
    int operands, *start;  /* [world + 1] index of each rank's first; owned */
    int *bytes, *displace; /* [world] for MPI, owned */
};

void dt_merge_f64(void *left, const void *right, size_t count)
{
    double *a = left;
    const double *b = right;

    for (size_t i = 0; i < count; i++)
        a[i] += b[i];
}

void dt_merge_moments(void *left, const void *right, size_t count)
{
    dt_moment *a = left;
    const dt_moment *b = right;

    for (size_t i = 0; i < count; i++)
        a[i] = dt_moment_merge(a[i], b[i]);
}

/* ---- Planning -------------------------------------------------------------------- */

/* The part of shards [first, end) that lies in the group of `first`. */
typedef struct reduce_part {
    int group_first, end;
    bool spans;
} reduce_part;

static reduce_part part_of(const dt_reduce *t, int first, int end)
{
    const int group_first = first / t->group * t->group;
    const int group_end = DT_MIN(t->shards, group_first + t->group);
    return (reduce_part){group_first, DT_MIN(end, group_end),
                         first > group_first || end < group_end};
}

/* Subtrees that a rank's part leaves, on shard indices; *slots that it takes meanwhile. */
static int part_subtrees(const reduce_part *p, int first, dt_subtree *out, size_t *slots)
{
    dt_counter k = {.depth = 0};

    *slots = (size_t)dt_counter_slots(first - p->group_first, p->end - p->group_first);
    for (int leaf = first; leaf < p->end; leaf++)
        dt_counter_push(&k, (dt_subtree){(unsigned)(leaf - p->group_first), 1});
    for (int i = 0; out && i < k.depth; i++)
        out[i] = k.part[i];
    return k.depth;
}

/* The partial values of all groups that lie on several ranks, rank by rank. */
static void plan_operands(dt_reduce *t)
{
    for (int r = 0; r < t->comm->world; r++) {
        int first, end;
        size_t slots;
        dt_shards_of(t->shards, t->comm->world, r, &first, &end);
        t->start[r] = t->operands;
        while (first < end) {
            const reduce_part p = part_of(t, first, end);
            if (p.spans)
                t->operands += part_subtrees(&p, first, t->operand + t->operands, &slots);
            first = p.end;
        }
    }
    t->start[t->comm->world] = t->operands;
}

/* Operands of the group that begins at shard `group_first`: one run of them. */
static void find_operands(const dt_reduce *t, int group_first, reduce_group *g)
{
    int operand = 0;

    for (int r = 0; r < t->comm->world; r++) {
        int first, end;
        size_t slots;
        dt_shards_of(t->shards, t->comm->world, r, &first, &end);
        while (first < end) {
            const reduce_part p = part_of(t, first, end);
            const int parts = p.spans ? part_subtrees(&p, first, NULL, &slots) : 0;
            if (p.spans && p.group_first == group_first) {
                if (g->end_operand == 0)
                    g->first_operand = operand;
                g->end_operand = operand + parts;
            }
            operand += parts;
            first = p.end;
        }
    }
}

/* Slots of the own groups: those to be sent first, then the complete ones; a group's
 * counter may run over what follows it, which is written later. Returns their number. */
static size_t plan_slots(dt_reduce *t)
{
    size_t sent = 0, kept = 0, most_sent = 0, most_kept = 0;
    int n = 0;

    for (int first = t->first; first < t->end; n++) {
        const reduce_part p = part_of(t, first, t->end);
        size_t slots;
        const int parts = part_subtrees(&p, first, NULL, &slots);
        size_t *next = p.spans ? &sent : &kept, *most = p.spans ? &most_sent : &most_kept;
        t->groups[n] = (reduce_group){.end = p.end, .spans = p.spans, .slot = *next};
        if (p.spans)
            find_operands(t, p.group_first, &t->groups[n]);
        if (*next + slots > *most)
            *most = *next + slots;
        *next += p.spans ? (size_t)parts : 1;
        first = p.end;
    }
    for (int i = 0; i < n; i++)
        if (!t->groups[i].spans)
            t->groups[i].slot += most_sent;
    return most_sent + most_kept;
}

static dt_status tree_memory(dt_reduce *t)
{
    const size_t world = (size_t)t->comm->world, own = (size_t)(t->end - t->first);
    int total = 0; /* also bounds every displacement */

    DT_TRY(dt_calloc(&t->groups, own, sizeof *t->groups, "sums over shards"));
    DT_TRY(dt_calloc(&t->start, world + 1, sizeof *t->start, "sums over shards"));
    DT_TRY(dt_calloc(&t->operand, (size_t)t->shards, sizeof *t->operand, "sums over shards"));
    plan_operands(t);
    DT_TRY(dt_calloc(&t->slots, plan_slots(t), t->stride, "sums over shards"));
    if (t->operands == 0)
        return DT_OK;
    DT_TRY(dt_comm_count((size_t)t->operands * t->stride, &total));
    DT_TRY(dt_calloc(&t->gathered, (size_t)t->operands, t->stride, "sums over shards"));
    DT_TRY(dt_calloc(&t->bytes, world, sizeof *t->bytes, "sums over shards"));
    return dt_calloc(&t->displace, world, sizeof *t->displace, "sums over shards");
}

dt_status dt_reduce_create(dt_reduce **t, dt_comm *c, int shards, size_t count,
                           size_t element_bytes, dt_merge merge, int group)
{
    dt_reduce *made = NULL;

    if (shards < c->world)
        return dt_fail(DT_CONFIG,
                       "%d ranks cannot share %d shards: each rank needs one; start "
                       "at most %d ranks or raise --shards",
                       c->world, shards, shards);
    if (group < 1)
        return dt_fail(DT_BUG, "groups of %d shards", group);
    DT_TRY(dt_calloc(&made, 1, sizeof *made, "sums over shards"));
    *made = (dt_reduce){.comm = c,
                        .merge = merge,
                        .most = count,
                        .element = element_bytes,
                        .stride = dt_align(count * element_bytes, REDUCE_LINE),
                        .shards = shards,
                        .group = DT_MIN(group, shards)};
    dt_shards_of(shards, c->world, c->rank, &made->first, &made->end);
    made->next = made->first;
    const dt_status st = tree_memory(made);
    if (st != DT_OK) {
        dt_reduce_destroy(made);
        return st;
    }
    dt_reduce_resize(made, count);
    *t = made;
    return DT_OK;
}

void dt_reduce_destroy(dt_reduce *t)
{
    if (!t)
        return;
    free(t->groups);
    free(t->slots);
    free(t->gathered);
    free(t->operand);
    free(t->start);
    free(t->bytes);
    free(t->displace);
    free(t);
}

void dt_reduce_resize(dt_reduce *t, size_t count)
{
    assert(count <= t->most && t->next == t->first);
    t->count = count;
    t->stride = dt_align(count * t->element, REDUCE_LINE);
    for (int r = 0; t->operands > 0 && r < t->comm->world; r++) {
        t->displace[r] = t->start[r] * (int)t->stride;
        t->bytes[r] = (t->start[r + 1] - t->start[r]) * (int)t->stride;
    }
}

/* ---- A round --------------------------------------------------------------------- */

static char *tree_slot(const dt_reduce *t, size_t i)
{
    return t->slots + i * t->stride;
}

void *dt_reduce_leaf(dt_reduce *t)
{
    assert(t->next < t->end);
    return tree_slot(t, t->groups[t->at].slot + (size_t)t->counter.depth);
}

/* What a counter leaves is folded from the right, which is where the definition halves
 * ranges whose length is no power of two. */
static void group_complete(dt_reduce *t, reduce_group *g)
{
    for (int top = t->counter.depth - 1; top > 0; top--)
        t->merge(tree_slot(t, g->slot + (size_t)top - 1), tree_slot(t, g->slot + (size_t)top),
                 t->count);
    g->result = tree_slot(t, g->slot);
}

void dt_reduce_push(dt_reduce *t)
{
    reduce_group *g = &t->groups[t->at];
    const int leaf = t->next++ % t->group; /* groups begin at multiples of it */
    size_t top = g->slot + (size_t)t->counter.depth;

    for (int merges = dt_counter_push(&t->counter, (dt_subtree){(unsigned)leaf, 1}); merges > 0;
         merges--, top--)
        t->merge(tree_slot(t, top - 1), tree_slot(t, top), t->count);
    if (t->next < g->end)
        return;
    if (!g->spans)
        group_complete(t, g);
    t->counter.depth = 0;
    t->at++;
}

/* The tree over the gathered partial values of a group, on all its ranks alike. */
static void group_gathered(dt_reduce *t, reduce_group *g)
{
    dt_counter k = {.depth = 0};
    char *held[DT_COUNTER_DEPTH]; /* the value of part i */

    for (int i = g->first_operand; i < g->end_operand; i++) {
        int top = k.depth;
        held[top] = t->gathered + (size_t)i * t->stride;
        for (int merges = dt_counter_push(&k, t->operand[i]); merges > 0; merges--, top--)
            t->merge(held[top - 1], held[top], t->count);
    }
    for (int top = k.depth - 1; top > 0; top--)
        t->merge(held[top - 1], held[top], t->count);
    g->result = held[0];
}

dt_status dt_reduce_finish(dt_reduce *t, const void **result)
{
    const double logged = dt_comm_log_begin(t->comm);
    MPI_Request request;

    if (t->next != t->end)
        return dt_fail(DT_BUG, "a sum over shards [%d, %d) ended at %d", t->first, t->end, t->next);
    if (t->operands > 0) {
        DT_MPI(MPI_Iallgatherv(t->slots, t->bytes[t->comm->rank], MPI_BYTE, t->gathered, t->bytes,
                               t->displace, MPI_BYTE, t->comm->all, &request));
        DT_TRY(dt_comm_wait(t->comm, &request, 1));
        dt_comm_log_end(t->comm, logged, "reduction", (size_t)t->bytes[t->comm->rank]);
    }
    for (int i = 0; i < t->at; i++)
        if (t->groups[i].spans)
            group_gathered(t, &t->groups[i]);
    t->at = 0;
    t->next = t->first;
    *result = t->groups[0].result;
    return DT_OK;
}

const void *dt_reduce_result(const dt_reduce *t, int shard)
{
    assert(shard >= t->first && shard < t->end);
    return t->groups[shard / t->group - t->first / t->group].result;
}

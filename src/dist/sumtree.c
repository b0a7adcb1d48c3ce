/* sumtree.c - owned shards, the counter, and the additions that complete a tree. */
#include "sumtree.h"

#include <assert.h>
#include <stdlib.h>

void dt_shards_of(int shards, int world, int rank, int *first, int *end)
{
    *first = (int)((int64_t)rank * shards / world);
    *end = (int)(((int64_t)rank + 1) * shards / world);
}

dt_status dt_shards_check(int shards, int world)
{
    if (world >= 1 && shards >= world)
        return DT_OK;
    return dt_fail(DT_CONFIG,
                   "%d ranks cannot share %d shards: each rank needs one; start at most %d ranks "
                   "or raise --shards",
                   world, shards, shards);
}

/* ---- The counter ----------------------------------------------------------------- */

/* [a, a + z) takes [a + z, a + 2z) only if 2z divides a. */
static bool counter_merges(const dt_counter *k)
{
    if (k->depth < 2)
        return false;
    const dt_subtree *left = &k->part[k->depth - 2], *right = left + 1;
    return left->leaves == right->leaves && left->first % (2 * left->leaves) == 0;
}

int dt_counter_push(dt_counter *k, dt_subtree part)
{
    int merges = 0;

    assert(k->depth < DT_COUNTER_DEPTH);
    k->part[k->depth++] = part;
    for (; counter_merges(k); merges++) {
        k->depth--;
        k->part[k->depth - 1].leaves *= 2;
    }
    return merges;
}

int dt_counter_slots(int first, int end)
{
    dt_counter k = {.depth = 0};
    int slots = 0;

    for (int leaf = first; leaf < end; leaf++) {
        if (k.depth + 1 > slots)
            slots = k.depth + 1;
        dt_counter_push(&k, (dt_subtree){(unsigned)leaf, 1});
    }
    return slots;
}

/* ---- The fold over groups -------------------------------------------------------- */

/* The parts of all groups, in f->start and f->part [leaves]. */
static void fold_operands(dt_fold *f, const int *bound)
{
    for (int g = 0; g < f->groups; g++) {
        dt_counter k = {.depth = 0};
        for (int leaf = bound[g]; leaf < bound[g + 1]; leaf++)
            dt_counter_push(&k, (dt_subtree){(unsigned)leaf, 1});
        f->start[g] = f->operands;
        for (int i = 0; i < k.depth; i++)
            f->part[f->operands++] = k.part[i];
    }
    f->start[f->groups] = f->operands;
}

/* The topmost `count` additions to the operand below, the topmost of which is held[top]. */
static void fold_down(dt_fold *f, const int *held, int top, int count)
{
    for (int i = 0; i < count; i++, top--)
        f->add[f->additions++] = (dt_addition){held[top - 1], held[top], -1};
}

/* The counter over operands; what it leaves of the whole tree is folded from the right,
 * which is where the definition halves ranges whose length is no power of two. */
static void fold_additions(dt_fold *f, bool whole)
{
    dt_counter k = {.depth = 0};
    int held[DT_COUNTER_DEPTH]; /* operand that part i began with */

    for (int i = 0; i < f->operands; i++) {
        const int top = k.depth;
        held[top] = i;
        f->depth = DT_MAX(f->depth, top + 1);
        fold_down(f, held, top, dt_counter_push(&k, f->part[i]));
    }
    if (whole)
        fold_down(f, held, k.depth - 1, k.depth - 1);
    f->roots = whole ? 1 : k.depth;
    assert(f->additions == f->operands - f->roots);
    for (int root = 0; root < f->roots; root++) {
        int last = f->additions - 1;
        while (last >= 0 && f->add[last].left != held[root])
            last--;
        if (last >= 0)
            f->add[last].root = root;
        f->root[root] = held[root];
    }
}

dt_status dt_fold_init(dt_fold *f, const int *bound, int groups, bool whole)
{
    const size_t leaves = (size_t)(bound[groups] - bound[0]);
    dt_status st;

    *f = (dt_fold){.groups = groups};
    DT_GO(st, dt_calloc(&f->start, (size_t)groups + 1, sizeof *f->start, "the tree"), out);
    DT_GO(st, dt_calloc(&f->add, leaves, sizeof *f->add, "the tree"), out);
    DT_GO(st, dt_calloc(&f->root, leaves, sizeof *f->root, "the tree"), out);
    DT_GO(st, dt_calloc(&f->part, leaves, sizeof *f->part, "the tree"), out);
    fold_operands(f, bound);
    fold_additions(f, whole);

out:
    if (st != DT_OK)
        dt_fold_release(f);
    return st;
}

dt_status dt_fold_init_ranks(dt_fold *f, int shards, int world)
{
    int *bound = NULL;

    *f = (dt_fold){.groups = world};
    DT_TRY(dt_shards_check(shards, world));
    DT_TRY(dt_calloc(&bound, (size_t)world + 1, sizeof *bound, "the tree"));
    for (int r = 0; r < world; r++)
        dt_shards_of(shards, world, r, &bound[r], &bound[r + 1]);
    const dt_status st = dt_fold_init(f, bound, world, true);
    free(bound);
    return st;
}

void dt_fold_release(dt_fold *f)
{
    free(f->start);
    free(f->add);
    free(f->root);
    free(f->part);
    *f = (dt_fold){.groups = 0};
}

dt_fold dt_fold_cascade(dt_addition *add, int operands)
{
    for (int i = 0; i < operands - 1; i++)
        add[i] = (dt_addition){operands - i - 2, operands - i - 1, i == operands - 2 ? 0 : -1};
    return (dt_fold){
        .operands = operands, .additions = operands - 1, .roots = 1, .depth = operands, .add = add};
}

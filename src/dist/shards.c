/* shards.c - owned shards, the counter, and the additions that complete a tree. */
#include "shards.h"

#include <assert.h>
#include <stdlib.h>

void dt_shards_of(int shards, int world, int rank, int *first, int *end)
{
    *first = (int)((int64_t)rank * shards / world);
    *end = (int)(((int64_t)rank + 1) * shards / world);
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

/* ---- The fold over all ranks ----------------------------------------------------- */

/* The parts of all ranks, in f->start and part [shards]. */
static void fold_operands(dt_fold *f, int shards, dt_subtree *part)
{
    for (int r = 0; r < f->world; r++) {
        dt_counter k = {.depth = 0};
        int first, end;
        dt_shards_of(shards, f->world, r, &first, &end);
        for (int leaf = first; leaf < end; leaf++)
            dt_counter_push(&k, (dt_subtree){(unsigned)leaf, 1});
        f->start[r] = f->operands;
        for (int i = 0; i < k.depth; i++)
            part[f->operands++] = k.part[i];
    }
    f->start[f->world] = f->operands;
}

/* The counter over operands; what it leaves is folded from the right, which is where
 * the definition halves ranges whose length is no power of two. */
static void fold_additions(dt_fold *f, const dt_subtree *part)
{
    dt_counter k = {.depth = 0};
    int held[DT_COUNTER_DEPTH], n = 0; /* operand that holds part i */

    for (int i = 0; i < f->operands; i++) {
        int top = k.depth;
        held[top] = i;
        for (int merges = dt_counter_push(&k, part[i]); merges > 0; merges--, top--)
            f->add[n++] = (dt_addition){held[top - 1], held[top]};
    }
    for (int top = k.depth - 1; top > 0; top--)
        f->add[n++] = (dt_addition){held[top - 1], held[top]};
    assert(n == f->operands - 1);
}

dt_status dt_fold_init(dt_fold *f, int shards, int world)
{
    dt_subtree *part = NULL;
    dt_status st;

    *f = (dt_fold){.world = world};
    if (world < 1 || shards < world)
        return dt_fail(DT_CONFIG,
                       "%d ranks cannot share %d shards: each rank needs one; start "
                       "at most %d ranks or raise --shards",
                       world, shards, shards);
    DT_GO(st, dt_calloc(&f->start, (size_t)world + 1, sizeof *f->start, "the tree"),
          out);
    DT_GO(st, dt_calloc(&f->add, (size_t)shards, sizeof *f->add, "the tree"), out);
    DT_GO(st, dt_calloc(&part, (size_t)shards, sizeof *part, "the tree"), out);
    fold_operands(f, shards, part);
    fold_additions(f, part);

out:
    free(part);
    if (st != DT_OK)
        dt_fold_release(f);
    return st;
}

void dt_fold_release(dt_fold *f)
{
    free(f->start);
    free(f->add);
    *f = (dt_fold){.world = 0};
}

/* ---- Additions on floats --------------------------------------------------------- */

void dt_add_f32(float *left, const float *right, size_t count)
{
    for (size_t i = 0; i < count; i++)
        left[i] += right[i];
}

/* a + b and b + a are the same float, so the sum may stay where either operand is. */
static void sum_f32(float *result, float *a, float *b, size_t count)
{
    if (result == a) {
        dt_add_f32(a, b, count);
    } else if (result == b) {
        dt_add_f32(b, a, count);
    } else {
        for (size_t i = 0; i < count; i++)
            result[i] = a[i] + b[i];
    }
}

void dt_fold_f32(const dt_fold *f, float *const *operand, float *result, size_t count)
{
    enum {
        BLOCK = 4096
    }; /* floats; a dozen operands of it fit into 256 KiB of cache */
    const int last = f->operands - 2;

    if (last < 0) {
        if (result != operand[0])
            memcpy(result, operand[0], count * sizeof *result);
        return;
    }
    for (size_t at = 0; at < count; at += BLOCK) {
        const size_t n = count - at < BLOCK ? count - at : BLOCK;
        for (int k = 0; k < last; k++)
            dt_add_f32(operand[f->add[k].left] + at, operand[f->add[k].right] + at, n);
        sum_f32(result + at, operand[f->add[last].left] + at,
                operand[f->add[last].right] + at, n);
    }
}

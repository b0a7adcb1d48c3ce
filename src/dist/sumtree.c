/* sumtree.c - owned shards, the counter, and the additions that complete a tree. */
#include "sumtree.h"

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

/* ---- The fold over groups -------------------------------------------------------- */

/* The parts of all groups, in f->start and f->part [leaves]. */
static void fold_operands(dt_fold *f, const int *bound)
{
    for (int g = 0; g < f->world; g++) {
        dt_counter k = {.depth = 0};
        for (int leaf = bound[g]; leaf < bound[g + 1]; leaf++)
            dt_counter_push(&k, (dt_subtree){(unsigned)leaf, 1});
        f->start[g] = f->operands;
        for (int i = 0; i < k.depth; i++)
            f->part[f->operands++] = k.part[i];
    }
    f->start[f->world] = f->operands;
}

/* The counter over operands; what it leaves of the whole tree is folded from the right,
 * which is where the definition halves ranges whose length is no power of two. */
static void fold_additions(dt_fold *f, bool whole)
{
    dt_counter k = {.depth = 0};
    int held[DT_COUNTER_DEPTH], n = 0; /* operand that holds part i */

    for (int i = 0; i < f->operands; i++) {
        int top = k.depth;
        held[top] = i;
        if (top + 1 > f->depth)
            f->depth = top + 1;
        for (int merges = dt_counter_push(&k, f->part[i]); merges > 0; merges--, top--)
            f->add[n++] = (dt_addition){held[top - 1], held[top]};
    }
    f->roots = whole ? 1 : k.depth;
    for (int top = k.depth - 1; whole && top > 0; top--)
        f->add[n++] = (dt_addition){held[top - 1], held[top]};
    f->additions = n;
    assert(n == f->operands - f->roots);
}

dt_status dt_fold_init_groups(dt_fold *f, const int *bound, int groups, bool whole)
{
    const size_t leaves = (size_t)(bound[groups] - bound[0]);
    dt_status st;

    *f = (dt_fold){.world = groups};
    DT_GO(st, dt_calloc(&f->start, (size_t)groups + 1, sizeof *f->start, "the tree"), out);
    DT_GO(st, dt_calloc(&f->add, leaves, sizeof *f->add, "the tree"), out);
    DT_GO(st, dt_calloc(&f->part, leaves, sizeof *f->part, "the tree"), out);
    fold_operands(f, bound);
    fold_additions(f, whole);

out:
    if (st != DT_OK)
        dt_fold_release(f);
    return st;
}

dt_status dt_fold_init(dt_fold *f, int shards, int world)
{
    int *bound = NULL;

    *f = (dt_fold){.world = world};
    if (world < 1 || shards < world)
        return dt_fail(DT_CONFIG,
                       "%d ranks cannot share %d shards: each rank needs one; start "
                       "at most %d ranks or raise --shards",
                       world, shards, shards);
    DT_TRY(dt_calloc(&bound, (size_t)world + 1, sizeof *bound, "the tree"));
    for (int r = 0; r < world; r++)
        dt_shards_of(shards, world, r, &bound[r], &bound[r + 1]);
    const dt_status st = dt_fold_init_groups(f, bound, world, true);
    free(bound);
    return st;
}

void dt_fold_release(dt_fold *f)
{
    free(f->start);
    free(f->add);
    free(f->part);
    *f = (dt_fold){.world = 0};
}

/* ---- Arithmetic on floats -------------------------------------------------------- */

/* Elements do not depend on each other, also where `to` is an operand: without the
 * pragma compilers add one by one there. */
void dt_sum_f32(float *to, const float *a, const float *b, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        to[i] = a[i] + b[i];
}

void dt_add_f32(float *left, const float *right, size_t count)
{
    dt_sum_f32(left, left, right, count);
}

/* dt_f32_to_bf16 without a branch. */
static uint32_t half_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    const uint32_t nan = (bits >> 16) | 0x40u,
                   number = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (bits & 0x7fffffffu) > 0x7f800000u ? nan : number;
}

void dt_round_f32(float *x, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = half_bits(x[i]) << 16;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

void dt_halves_of_f32(dt_bf16 *to, const float *x, size_t count)
{
    enum { N = 64 }; /* at once, so that `to` may overtake nothing that is unread */
    dt_bf16 block[N];

    for (size_t at = 0; at < count; at += N) {
        const size_t n = DT_MIN(count - at, N);
        for (size_t i = 0; i < n; i++)
            block[i] = (dt_bf16)half_bits(x[at + i]);
        memcpy(to + at, block, n * sizeof *block);
    }
}

void dt_f32_of_halves(float *to, const dt_bf16 *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = dt_bf16_to_f32(x[i]);
}

/* ---- Folding --------------------------------------------------------------------- */

/* The counter, at work: partial sums of a block, and the operand that each began with. */
typedef struct fold_stack {
    const float *held[DT_COUNTER_DEPTH];
    int operand[DT_COUNTER_DEPTH], depth, next;
} fold_stack;

static void fold_push(fold_stack *s, const dt_operand *operand, size_t at, size_t n, float *scratch)
{
    const dt_operand *o = &operand[s->next];
    float *own = scratch + (size_t)s->depth * DT_FOLD_BLOCK;

    s->operand[s->depth] = s->next++;
    s->held[s->depth] = own;
    if (o->half)
        dt_f32_of_halves(own, (const dt_bf16 *)o->at + at, n);
    else
        s->held[s->depth] = (const float *)o->at + at;
    s->depth++;
}

static void fold_block(const dt_fold *f, const dt_operand *operand, float *const *result, size_t at,
                       size_t n, float *scratch)
{
    fold_stack s = {.depth = 0};

    for (int k = 0; k < f->additions; k++) {
        while (s.depth == 0 || s.operand[s.depth - 1] != f->add[k].right)
            fold_push(&s, operand, at, n, scratch);
        const int left = --s.depth - 1;
        float *to = f->roots == 1 && k + 1 == f->additions ? result[0] + at
                                                           : scratch + (size_t)left * DT_FOLD_BLOCK;
        dt_sum_f32(to, s.held[left], s.held[left + 1], n);
        s.held[left] = to;
    }
    while (s.next < f->operands)
        fold_push(&s, operand, at, n, scratch);
    for (int root = 0; root < f->roots; root++)
        if (s.held[root] != result[root] + at)
            memcpy(result[root] + at, s.held[root], n * sizeof(float));
}

void dt_fold_f32(const dt_fold *f, const dt_operand *operand, float *const *result, size_t count,
                 float *scratch)
{
    for (size_t at = 0; at < count; at += DT_FOLD_BLOCK)
        fold_block(f, operand, result, at, DT_MIN(count - at, DT_FOLD_BLOCK), scratch);
}

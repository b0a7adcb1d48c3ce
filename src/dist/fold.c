/* fold.c - owned shards, the plan of a tree, types of values, and the one engine that adds. */
#include "fold.h"

#include <assert.h>
#include <omp.h>

void dt_shards_of(int shards, int world, int rank, int *first, int *end)
{
    *first = (int)((int64_t)rank * shards / world);
    *end = (int)(((int64_t)rank + 1) * shards / world);
}

/* ---- The counter ----------------------------------------------------------------- */

/* [a, a + z) takes [a + z, a + 2z) only if 2z divides a; leaves between may lie elsewhere. */
static bool counter_merges(const dt_counter *k)
{
    if (k->depth < 2)
        return false;
    const dt_subtree *left = &k->part[k->depth - 2], *right = left + 1;
    return left->leaves == right->leaves && left->first % (2 * left->leaves) == 0 &&
           right->first == left->first + left->leaves;
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
        slots = DT_MAX(slots, k.depth + 1);
        dt_counter_push(&k, (dt_subtree){(unsigned)leaf, 1});
    }
    return slots;
}

/* ---- The plan over groups -------------------------------------------------------- */

/* The first leaf of a group, as a number among those that take part. */
static int group_start(const dt_groups *groups, const dt_subtree *only, int g)
{
    int start, end;

    dt_shards_of(groups->shards, groups->world, groups->first + g * groups->step, &start, &end);
    if (!only)
        return start;
    return DT_MAX(DT_MIN(start - (int)only->first, (int)only->leaves), 0);
}

static void plan_operands(dt_fold *f, const dt_groups *groups, const dt_subtree *only)
{
    int leaf = group_start(groups, only, 0);

    for (int g = 0; g < groups->count; g++) {
        dt_counter k = {.depth = 0};
        for (; leaf < group_start(groups, only, g + 1); leaf++)
            dt_counter_push(&k, (dt_subtree){(unsigned)leaf, 1});
        f->start[g] = f->operands;
        for (int i = 0; i < k.depth; i++)
            f->part[f->operands++] = (dt_fold_part){.tree = k.part[i], .root = -1};
    }
    f->start[groups->count] = f->operands;
}

/* The counter over operands; what it leaves of the whole tree is folded from the right,
 * which is where the definition halves ranges whose length is no power of two. */
static void plan_merges(dt_fold *f, bool whole)
{
    dt_counter k = {.depth = 0};
    int last[DT_COUNTER_DEPTH]; /* the operand whose additions completed sum i */

    for (int i = 0; i < f->operands; i++) {
        f->depth = DT_MAX(f->depth, k.depth + 1);
        f->part[i].merges = dt_counter_push(&k, f->part[i].tree);
        last[k.depth - 1] = i;
    }
    if (whole) {
        last[0] = f->operands - 1;
        f->part[last[0]].merges += k.depth - 1;
        k.depth = 1;
    }
    f->roots = k.depth;
    for (int root = 0; root < f->roots; root++)
        f->part[last[root]].root = root;
}

dt_status dt_fold_init(dt_fold *f, dt_groups groups, const dt_subtree *only, bool whole)
{
    const int leaves = group_start(&groups, only, groups.count) - group_start(&groups, only, 0);

    *f = (dt_fold){.operands = 0};
    DT_TRY(dt_calloc(&f->start, (size_t)groups.count + 1, sizeof *f->start, "the tree"));
    DT_TRY(dt_calloc(&f->part, (size_t)leaves, sizeof *f->part, "the tree"));
    plan_operands(f, &groups, only);
    plan_merges(f, whole);
    return DT_OK;
}

void dt_fold_release(dt_fold *f)
{
    DT_FREE(f->start, f->part);
}

int dt_fold_group(int count, int few)
{
    int best = count;

    for (int g = 2; g < count && count > few; g++)
        if (count % g == 0 && g + count / g < best + count / best)
            best = g;
    return best;
}

dt_fold dt_fold_over(dt_fold_part *part, int operands)
{
    dt_fold f = {.operands = operands, .part = part};

    for (int i = 0; i < operands; i++)
        part[i].root = -1;
    plan_merges(&f, true);
    return f;
}

dt_fold dt_fold_cascade(dt_fold_part *part, int operands)
{
    for (int i = 0; i < operands; i++)
        part[i] = (dt_fold_part){.root = -1};
    part[operands - 1] = (dt_fold_part){.merges = operands - 1};
    return (dt_fold){.operands = operands, .roots = 1, .depth = operands, .part = part};
}

/* ---- Types ----------------------------------------------------------------------- */

DT_OPERATION(add_f32, float, a + b)
DT_OPERATION(add_f64, double, a + b)
DT_OPERATION(add_moments, dt_moment, dt_moment_merge(a, b))

const dt_fold_type dt_fold_f32 = {sizeof(float), add_f32}, dt_fold_f64 = {sizeof(double), add_f64},
                   dt_fold_moments = {sizeof(dt_moment), add_moments};

/* ---- The engine ------------------------------------------------------------------ */

size_t dt_form_bytes(const dt_form *form, size_t count)
{
    return form ? (count * form->bits + 7) / 8 : count * sizeof(float);
}

/* The block of an operand at elements [at, at + count): where it lies, or read into `room`. */
static const void *read_block(const dt_operand *o, size_t bytes, size_t at, size_t count,
                              void *room)
{
    if (!o->form)
        return (const char *)o->at + at * bytes;
    o->form->read(room, (const char *)o->at + dt_form_bytes(o->form, at), count);
    return room;
}

/* Push operand after operand on a stack of sums; a sum that completes a root goes to its place. */
static void fold_block(const dt_fold *f, const dt_fold_type *type, const dt_operand *operand,
                       void *const *result, size_t at, size_t count, char *scratch)
{
    const void *held[DT_COUNTER_DEPTH];
    int depth = 0;

    for (int i = 0; i < f->operands; i++) {
        const dt_fold_part *p = &f->part[i];
        char *root = p->root >= 0 ? (char *)result[p->root] + at * type->bytes : NULL;
        char *room = root && p->merges == 0 ? root : scratch + (size_t)depth * DT_FOLD_BYTES;
        held[depth++] = read_block(&operand[i], type->bytes, at, count, room);
        for (int merges = p->merges; merges > 0; merges--) {
            const int left = --depth - 1;
            char *sum = root && merges == 1 ? root : scratch + (size_t)left * DT_FOLD_BYTES;
            type->add(sum, held[left], held[left + 1], count);
            held[left] = sum;
        }
        if (root && held[depth - 1] != root)
            memcpy(root, held[depth - 1], count * type->bytes);
    }
}

void dt_fold_run(const dt_fold *f, const dt_fold_type *type, const dt_operand *operand,
                 void *const *result, size_t count, void *scratch, int threads)
{
    const size_t most = DT_FOLD_BYTES / type->bytes, each = (size_t)f->depth * DT_FOLD_BYTES;

#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1 && count > most)
    for (size_t at = 0; at < count; at += most)
        fold_block(f, type, operand, result, at, DT_MIN(count - at, most),
                   (char *)scratch + (size_t)omp_get_thread_num() * each);
}

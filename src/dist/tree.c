/* tree.c - the tree for small values: losses, counts, moments of batch normalisation.
 *
 * A rank folds its leaves as they come; the ranks gather all partial values, and each
 * completes the same tree. */
#include "comm.h"
#include "shards.h"

#include <assert.h>
#include <stdlib.h>

enum { TREE_LINE = 64 }; /* slots begin at cache lines */

struct dt_tree {
    dt_comm *comm; /* borrowed */
    dt_merge merge;
    size_t count, stride; /* elements of a value, bytes between slots */
    int first, end, next; /* own shards; the next leaf */
    dt_counter counter;
    dt_fold fold;
    char *slots;           /* [dt_counter_slots][stride], owned */
    char *gathered;        /* [operands][stride], owned; NULL in a world of one */
    int *bytes, *displace; /* [world] for MPI, owned */
};

void dt_merge_f32(void *left, const void *right, size_t count)
{
    dt_add_f32(left, right, count);
}

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

static dt_status tree_memory(dt_tree *t, int shards)
{
    const int world = t->comm->world;
    const size_t slots = (size_t)dt_counter_slots(t->first, t->end);

    DT_TRY(dt_fold_init(&t->fold, shards, world));
    DT_TRY(dt_calloc(&t->slots, slots, t->stride, "sums over shards"));
    if (world == 1)
        return DT_OK;
    const size_t operands = (size_t)t->fold.operands;
    int total = 0; /* also bounds every displacement */
    DT_TRY(dt_comm_count(operands * t->stride, &total));
    DT_TRY(dt_calloc(&t->gathered, operands, t->stride, "sums over shards"));
    DT_TRY(dt_calloc(&t->bytes, (size_t)world, sizeof *t->bytes, "sums over shards"));
    DT_TRY(dt_calloc(&t->displace, (size_t)world, sizeof *t->displace,
                     "sums over shards"));
    const int each = total / t->fold.operands;
    for (int r = 0; r < world; r++) {
        t->displace[r] = t->fold.start[r] * each;
        t->bytes[r] = (t->fold.start[r + 1] - t->fold.start[r]) * each;
    }
    return DT_OK;
}

dt_status dt_tree_create(dt_tree **t, dt_comm *c, int shards, size_t count,
                         size_t element_bytes, dt_merge merge)
{
    dt_tree *made = NULL;

    DT_TRY(dt_calloc(&made, 1, sizeof *made, "sums over shards"));
    *made = (dt_tree){.comm = c,
                      .merge = merge,
                      .count = count,
                      .stride = dt_align(count * element_bytes, TREE_LINE)};
    dt_shards_of(shards, c->world, c->rank, &made->first, &made->end);
    made->next = made->first;
    const dt_status st = tree_memory(made, shards);
    if (st != DT_OK)
        dt_tree_destroy(made);
    else
        *t = made;
    return st;
}

void dt_tree_destroy(dt_tree *t)
{
    if (!t)
        return;
    dt_fold_release(&t->fold);
    free(t->slots);
    free(t->gathered);
    free(t->bytes);
    free(t->displace);
    free(t);
}

static void *tree_slot(const dt_tree *t, int i)
{
    return t->slots + (size_t)i * t->stride;
}

void *dt_tree_leaf(dt_tree *t)
{
    assert(t->next < t->end);
    return tree_slot(t, t->counter.depth);
}

void dt_tree_push(dt_tree *t)
{
    int top = t->counter.depth;

    for (int merges =
             dt_counter_push(&t->counter, (dt_subtree){(unsigned)t->next++, 1});
         merges > 0; merges--, top--)
        t->merge(tree_slot(t, top - 1), tree_slot(t, top), t->count);
}

dt_status dt_tree_finish(dt_tree *t, const void **result)
{
    char *operand = t->slots;
    MPI_Request request;

    if (t->next != t->end)
        return dt_fail(DT_BUG, "a sum over shards [%d, %d) ended at %d", t->first,
                       t->end, t->next);
    if (t->comm->world > 1) {
        const int rank = t->comm->rank;
        operand = t->gathered;
        DT_MPI(MPI_Iallgatherv(t->slots, t->bytes[rank], MPI_BYTE, operand, t->bytes,
                               t->displace, MPI_BYTE, t->comm->all, &request));
        DT_TRY(dt_comm_wait(t->comm, &request, 1));
    }
    for (int k = 0; k < t->fold.operands - 1; k++)
        t->merge(operand + (size_t)t->fold.add[k].left * t->stride,
                 operand + (size_t)t->fold.add[k].right * t->stride, t->count);
    t->counter.depth = 0;
    t->next = t->first;
    *result = operand;
    return DT_OK;
}

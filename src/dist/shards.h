/* shards.h - the summation tree as a plan: which partial sums a rank keeps and how
 * partial sums of all ranks are combined. Arithmetic on indices, no MPI, all Local;
 * private to src/dist. */
#ifndef DT_SHARDS_H
#define DT_SHARDS_H
#include "dist.h"

/* Leaves [first, first + leaves) of the tree, summed. */
typedef struct dt_subtree {
    unsigned first, leaves;
} dt_subtree;

/* The binary counter of numerics.md section 3, on absolute indices. A caller that keeps
 * the value of part[i] in its slot i has nothing to move:
 *   the next leaf is written to slot k.depth;
 *   n = dt_counter_push(&k, leaf): then n times, the topmost slot is added to the one
 *   below it. */
enum { DT_COUNTER_DEPTH = 64 }; /* 31 parts ascending, 31 descending, a leaf */
typedef struct dt_counter {
    dt_subtree part[DT_COUNTER_DEPTH];
    int depth;
} dt_counter;
int dt_counter_push(dt_counter *k, dt_subtree part);
/* Slots that leaves [first, end) need, the leaf being written included. */
int dt_counter_slots(int first, int end);

/* All ranks' partial sums ("operands": rank by rank, each rank's in ascending order)
 * and the additions that make the whole tree of them. */
typedef struct dt_addition {
    int left, right; /* operand[left] += operand[right] */
} dt_addition;
typedef struct dt_fold {
    int world, operands;
    int *start;       /* [world + 1] index of each rank's first operand; owned */
    dt_addition *add; /* [operands - 1]; the last one completes operand 0; owned */
} dt_fold;
dt_status dt_fold_init(dt_fold *f, int shards, int world) DT_MUST_CHECK;
void dt_fold_release(dt_fold *f);

/* left[i] += right[i] */
void dt_add_f32(float *left, const float *right, size_t count);
/* result [count] = the tree over operand [operands][count]; operands are overwritten.
 * result may be one of them. */
void dt_fold_f32(const dt_fold *f, float *const *operand, float *result, size_t count);
#endif

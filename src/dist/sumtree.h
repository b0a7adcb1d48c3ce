/* sumtree.h - the summation tree as a plan: which partial sums a rank keeps and how
 * partial sums of all ranks are combined. Arithmetic on indices, no MPI, all Local;
 * private to src/dist. */
#ifndef DT_SUMTREE_H
#define DT_SUMTREE_H
#include "dist.h"

/* Leaves [first, first + leaves) of the tree, summed. */
typedef struct dt_subtree {
    unsigned first, leaves;
} dt_subtree;

/* The binary counter of docs/numerics.md section 3, on absolute indices. A caller that keeps
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

/* Partial sums ("operands": group by group, each group's maximal aligned subtrees in
 * ascending order) and the additions that make larger subtrees of them: the whole tree,
 * whose groups are the ranks or the nodes; or what one node keeps of its ranks'. */
typedef struct dt_addition {
    int left, right; /* operand[left] += operand[right] */
} dt_addition;
typedef struct dt_fold {
    int world, operands; /* groups, and partial sums of all of them */
    int additions;       /* operands - roots */
    int roots;           /* subtrees left: 1 for the whole tree */
    int depth;           /* partial sums that are held at once */
    int *start;          /* [world + 1] index of each group's first operand; owned */
    dt_subtree *part;    /* [operands] the leaves in each; owned */
    dt_addition *add;    /* [additions]; owned. The whole tree is completed in operand 0 */
} dt_fold;
/* The groups are ranks, the fold is of the whole tree. */
dt_status dt_fold_init(dt_fold *f, int shards, int world) DT_MUST_CHECK;
/* Group g holds leaves [bound[g], bound[g + 1]).
 *   whole  the groups hold all leaves: combine what is no aligned subtree, too */
dt_status dt_fold_init_groups(dt_fold *f, const int *bound, int groups, bool whole) DT_MUST_CHECK;
void dt_fold_release(dt_fold *f);

/* to[i] = a[i] + b[i]; to may be a or b */
void dt_sum_f32(float *to, const float *a, const float *b, size_t count);
/* left[i] += right[i] */
void dt_add_f32(float *left, const float *right, size_t count);
/* x[i] rounded to bf16 */
void dt_round_f32(float *x, size_t count);
void dt_halves_of_f32(dt_bf16 *to, const float *x, size_t count); /* may begin at x */
void dt_f32_of_halves(float *to, const dt_bf16 *x, size_t count);

typedef struct dt_operand {
    const void *at; /* float; dt_bf16 where half */
    bool half;
} dt_operand;
enum { DT_FOLD_BLOCK = 4096 }; /* floats; a dozen fit into 256 KiB of cache */
/* result[root] [count] = the fold over operand [operands][count], which are only read;
 * but a whole tree's result may be any of them, and another root's the first that it is
 * made of.
 *   scratch  [depth * DT_FOLD_BLOCK] */
void dt_fold_f32(const dt_fold *f, const dt_operand *operand, float *const *result, size_t count,
                 float *scratch);
#endif

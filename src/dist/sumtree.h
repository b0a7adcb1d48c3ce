/* sumtree.h - the summation tree as a plan: which partial values a rank keeps and how
 * partial values of all ranks are combined. Arithmetic on indices, no MPI, all Local;
 * private to src/dist. fold.h carries it out. */
#ifndef DT_SUMTREE_H
#define DT_SUMTREE_H
#include "dist.h"

/* DT_CONFIG unless every rank has a shard. */
dt_status dt_shards_check(int shards, int world) DT_MUST_CHECK;

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

/* operand[left] = operand[left] + operand[right]; root: the one that it completes, or -1. */
typedef struct dt_addition {
    int left, right, root;
} dt_addition;

/* Operands (group by group, each group's maximal aligned subtrees in ascending order) and
 * the additions that make larger subtrees, the roots, of them. A group is what one rank or
 * one node holds, or one leaf. */
typedef struct dt_fold {
    int groups, operands;
    int additions;    /* operands - roots */
    int roots;        /* subtrees left: 1 for the whole tree */
    int depth;        /* operands and sums that are held at once */
    int *start;       /* [groups + 1] index of each group's first operand; owned */
    dt_subtree *part; /* [operands] the leaves in each; owned */
    int *root;        /* [roots] the first operand of each; owned */
    dt_addition *add; /* [additions]; owned */
} dt_fold;
/* Group g holds leaves [bound[g], bound[g + 1]).
 *   whole  the groups hold all leaves of the tree: one root */
dt_status dt_fold_init(dt_fold *f, const int *bound, int groups, bool whole) DT_MUST_CHECK;
/* The whole tree; the groups are ranks. */
dt_status dt_fold_init_ranks(dt_fold *f, int shards, int world) DT_MUST_CHECK;
void dt_fold_release(dt_fold *f);
/* The additions that a counter's push asks for: the topmost of `operands` slots to the one
 * below, and so on. Borrows add [operands - 1]; nothing to release. */
dt_fold dt_fold_cascade(dt_addition *add, int operands);
#endif

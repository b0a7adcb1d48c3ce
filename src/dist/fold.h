/* fold.h - the summation tree of docs/numerics.md section 3: which partial sums a rank keeps, how
 * those of all ranks are combined, and the engine that does it on values of any type; and how the
 * gradient slab is cut. It uses no MPI; every function is Local. Private to src/dist and
 * extra/lib. */
#ifndef DT_FOLD_H
#define DT_FOLD_H
#include "dist.h"

/* The sum of leaves [first, first + leaves). */
typedef struct dt_subtree {
    unsigned first, leaves;
} dt_subtree;

/* The binary counter of section 3, on absolute indices. A caller that keeps the value of part[i]
 * in slot i moves nothing:
 *   the next leaf is written to slot k.depth;
 *   n = dt_counter_push(&k, leaf); then n times, the topmost slot is added to the one
 *   below it. */
enum { DT_COUNTER_DEPTH = 64 }; /* 31 subtrees that grow, 31 that shrink, a leaf */
typedef struct dt_counter {
    dt_subtree part[DT_COUNTER_DEPTH];
    int depth;
} dt_counter;
int dt_counter_push(dt_counter *k, dt_subtree part);
/* How many slots leaves [first, end) need, including the leaf that is being written. */
int dt_counter_slots(int first, int end);

/* `count` groups of leaves: group g holds the shards of ranks [first + g * step, first + (g + 1) *
 * step) of `world`. */
typedef struct dt_groups {
    int shards, world, first, step, count;
} dt_groups;

/* A partial sum that goes into the fold. */
typedef struct dt_fold_part {
    dt_subtree tree;
    int merges; /* additions that follow it: the topmost sum to the one below */
    int root;   /* the result that is complete after these, or -1 */
} dt_fold_part;
/* The operands, group by group (each group's maximal aligned subtrees in ascending order), and
 * the larger subtrees, the roots, that additions make of them. */
typedef struct dt_fold {
    int operands, roots; /* roots: 1 for the whole tree */
    int depth;           /* operands and sums that are held at once */
    int *start;          /* [groups + 1] index of each group's first operand; owned */
    dt_fold_part *part;  /* [operands]; owned */
} dt_fold;
static inline int dt_fold_held(const dt_fold *f, int group) /* operands of the group */
{
    return f->start[group + 1] - f->start[group];
}
/* DT_NOMEM. f is to be released whatever the outcome.
 *   only   leaves that take part, numbered from 0; NULL: all
 *   whole  these are all leaves of the tree, so there is one root */
dt_status dt_fold_init(dt_fold *f, dt_groups groups, const dt_subtree *only,
                       bool whole) DT_MUST_CHECK;
void dt_fold_release(dt_fold *f);
/* The whole tree over part [operands], which is borrowed; all their `tree` are set, ascending. */
dt_fold dt_fold_over(dt_fold_part *part, int operands);
/* Add the topmost of `operands` slots to the one below, and so on down to the first. Borrows part
 * [operands]; nothing to release. */
dt_fold dt_fold_cascade(dt_fold_part *part, int operands);

/* How float32 lie in memory or travel, if not as they are. Where these are fewer bits, they and the
 * float32 must not overlap. */
typedef struct dt_form {
    unsigned bits;                                          /* of a number */
    void (*pack)(void *to, const void *from, size_t count); /* NULL: nothing has to be packed */
    void (*read)(void *to, const void *from, size_t count);
} dt_form;
/* A function for it: each of to = result, which is made of x, one of from. */
#define DT_CONVERSION(name, to_type, from_type, result)                                            \
    static void name(void *to, const void *from, size_t count)                                     \
    {                                                                                              \
        to_type *made = to;                                                                        \
        const from_type *all = from;                                                               \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++)                                     \
        {                                                                                          \
            const from_type x = all[i];                                                            \
            made[i] = result;                                                                      \
        }                                                                                          \
    }
/* Of so many float32 in that form; NULL: as they are. */
size_t dt_form_bytes(const dt_form *form, size_t count);
typedef struct dt_operand {
    const void *at;
    const dt_form *form; /* NULL: values of the fold's type */
} dt_operand;

/* A function for dt_fold_type: to = result, which is made of a and b, elements of left and right.
 * They do not depend on each other: without the pragma compilers take one by one. */
#define DT_OPERATION(name, type, result)                                                           \
    static void name(void *to, const void *left, const void *right, size_t count)                  \
    {                                                                                              \
        type *x = to;                                                                              \
        const type *l = left, *r = right;                                                          \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++)                                     \
        {                                                                                          \
            const type a = l[i], b = r[i];                                                         \
            x[i] = result;                                                                         \
        }                                                                                          \
    }

enum { DT_FOLD_BYTES = 16384 }; /* of an operand at once; a dozen fit into 256 KiB of cache */
/* result[root] [count] = the sum of the root's operands, [count] each. A result may overwrite an
 * operand of the same root, or of an earlier one, but not the only operand of its root if that is
 * packed. Operands are not changed otherwise.
 *   scratch  [threads * depth * DT_FOLD_BYTES], 64-byte aligned
 *   threads  divide the elements; 1 where a result lies on a packed operand */
void dt_fold_run(const dt_fold *f, const dt_fold_type *type, const dt_operand *operand,
                 void *const *result, size_t count, void *scratch, int threads);

/* Buckets of whole tensors partition [0, floats): each begins with a tensor, includes the padding
 * after its last one, and is closed when it reaches its size. The last one is measured from the
 * slab's end, so that it is small: no computation is left to hide its sending.
 *   bucket   [o->tensors]
 *   returns  how many were filled */
size_t dt_spans_buckets(const dt_exchange_opts *o, dt_span *bucket);
/* Part k of `parts` of s, cut at multiples of 16 floats from its start; it may be empty. */
dt_span dt_spans_slice(dt_span s, int k, int parts);

/* A word of DT_COMPRESS_LIST. NULL among the forms: as float32. */
typedef struct dt_compress {
    const char *name;
    const dt_form *leaf; /* how a leaf that lies in a slot is read */
    const dt_form *one;  /* how it travels, */
    const dt_form *some; /* and the sum of up to 127 */
    /* Makes whole numbers of thresholds, which are summed, of x and of the residual that the
     * shard's last leaf has left, and leaves the next one. NULL: there is none. */
    void (*quantise)(float *x, float *residual, float threshold, size_t count, int threads);
} dt_compress;
/* Up to one without a name; extra/compress sets them. NULL: this build has none. */
extern const dt_compress *dt_compress_rows;
#endif

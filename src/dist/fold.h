/* fold.h - carries out the plans of sumtree.h on values of any type; no MPI, all Local;
 * private to src/dist. */
#ifndef DT_FOLD_H
#define DT_FOLD_H
#include "sumtree.h"

/* How an operand lies in memory: as values of the fold's type, as bf16, or as float32 that
 * are rounded to bf16 when they are read. */
typedef enum dt_leaf { DT_LEAF_PLAIN, DT_LEAF_HALF, DT_LEAF_ROUNDED, DT_LEAVES } dt_leaf;
typedef struct dt_operand {
    const void *at;
    dt_leaf leaf;
} dt_operand;

enum { DT_FOLD_BYTES = 16384 }; /* of an operand at once; a dozen fit into 256 KiB of cache */
/* result[root] [count] = the fold over operand [operands][count], which are only read; but
 * the result of a whole tree may be any of them, and that of another root its first operand.
 *   scratch  [depth * DT_FOLD_BYTES], 64-byte aligned */
void dt_fold_run(const dt_fold *f, const dt_fold_type *type, const dt_operand *operand,
                 void *const *result, size_t count, void *scratch);

/* left[i] += right[i] */
void dt_add_f32(float *left, const float *right, size_t count);
void dt_halves_of_f32(dt_bf16 *to, const float *x, size_t count); /* may begin at x */
#endif

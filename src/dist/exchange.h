/* exchange.h - how to be an exchange; private to src/dist.
 *
 * Write one file exchange_<name>.c that defines dt_exchange_row_<name> and add one row
 * to DT_EXCHANGE_LIST (dist.h). exchange.c folds the rank's own shards, bucket by
 * bucket, so that before `start` the rank's partial sums lie in its slots [0, parts);
 * a row only brings the ranks together. It is never asked in a world of one. */
#ifndef DT_EXCHANGE_H
#define DT_EXCHANGE_H
#include "comm.h"
#include "shards.h"

typedef struct dt_exchange_row {
    const char *name;
    bool exact; /* sums in the order of the tree */
    /* Floats that the row's buffers take beside the slots, on this rank. Optional. */
    size_t (*extra)(const dt_exchange *x);
    /* Floats of the longest message or displacement: a row declines what MPI's int
     * cannot count. */
    size_t (*longest)(const dt_exchange *x);
    dt_status (*open)(dt_exchange *x); /* take memory; no communication. Optional */
    /* The partial sums of bucket b are final. Must not wait. Optional. */
    dt_status (*start)(dt_exchange *x, size_t b);
    dt_status (*poll)(dt_exchange *x);   /* let messages progress. Optional */
    dt_status (*finish)(dt_exchange *x); /* complete x->sum */
    void (*close)(dt_exchange *x);       /* also with messages under way. Optional */
} dt_exchange_row;

#define X(name) extern const dt_exchange_row dt_exchange_row_##name;
DT_EXCHANGE_LIST(X)
#undef X

struct dt_exchange {
    const dt_exchange_row *row;
    dt_comm *comm; /* borrowed */
    MPI_Comm mpi;  /* own duplicate: messages of two exchanges never meet */
    void *state;   /* the row's own */
    size_t floats;
    dt_span *tensor; /* [tensors], owned */
    dt_span *bucket; /* [buckets], owned */
    size_t tensors, buckets;

    dt_fold fold;    /* over the partial sums of all ranks */
    int parts;       /* partial sums of this rank */
    int slots;       /* slabs for folding them */
    float *memory;   /* [slots][floats], then the row's extra; borrowed */
    float *extra;    /* [row->extra()] inside memory */
    float *sum;      /* [floats] inside memory; slot 0 unless the row says otherwise */
    float **operand; /* [fold.operands], owned; for the row's calls of dt_fold_f32 */

    int first, end, next; /* own shards; the one that is or will be written */
    bool writing;         /* a leaf was handed out */
    dt_counter counter;
    int leaf, merges; /* the running leaf's slot and the additions that it closes */
    size_t folded;    /* buckets of the running leaf that are folded */
    dt_exchange_stats stats;
};

static inline float *dt_exchange_slot(const dt_exchange *x, int slot)
{
    return x->memory + (size_t)slot * x->floats;
}

/* Partial sums of rank r. */
static inline int dt_exchange_parts(const dt_exchange *x, int r)
{
    return x->fold.start[r + 1] - x->fold.start[r];
}

/* Fold a span of all own partial sums into slot 0, left to right: what the inexact rows
 * send. */
void dt_exchange_fold_parts(dt_exchange *x, dt_span span);

void dt_exchange_count_sent(dt_exchange *x, size_t floats);
void dt_exchange_count_received(dt_exchange *x, size_t floats);
/* MPI does not tell what its allreduce moves; counted is what a ring moves, the least
 * that one message per rank and step can do: 2 (world - 1) / world of the span each
 * way. */
void dt_exchange_count_allreduce(dt_exchange *x, size_t floats);
#endif

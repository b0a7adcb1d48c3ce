/* check.h - checks for wrong bits while a run is on: replicas, guard, packed and replay, which
 * docs/lab/checks.md explains. They are before the update, and what they find is DT_CORRUPT on all
 * ranks. Steps count from 1 over the whole run, so that nothing depends on where a run was
 * resumed. --replay-every with batch norm over more than a shard is DT_CONFIG. */
#ifndef DT_CHECK_H
#define DT_CHECK_H
#include "train/run.h"

void dt_extra_check(void);

enum { DT_CHECK_BLOCK = 1 << 14 }; /* floats that one hash covers */

typedef struct dt_check_block {
    const char *area;      /* "weights", "running mean", ... */
    const dt_param *param; /* the tensor, or NULL */
    const dt_norm *norm;   /* or its batch norm */
    dt_piece piece;        /* of the tensor */
    size_t first, count;   /* floats of the tensor, as it lies in memory */
    const float *at;
} dt_check_block;

typedef struct dt_replicas {
    dt_comm *comm;         /* the ranks that have copies; borrowed */
    bool cut, shares;      /* of own pieces; one copy for the node's ranks */
    dt_check_block *block; /* [blocks], areas in order, tensors in state_dict order; owned */
    size_t blocks;
    size_t mine, end; /* this rank hashes these */
    bool compare;     /* there are other copies */
    bool guard;       /* this copy may be the only one */
    uint64_t *digest; /* [blocks], owned */
    uint64_t *stored; /* [blocks], behind digest: the guard's */
    int64_t *wire;    /* [2 * blocks], owned */
    int64_t *value;   /* [world], behind wire */
} dt_replicas;

typedef struct dt_replay {
    uint64_t *digest; /* [tensors + 1] of the owner, the loss last; owned */
    uint64_t *again;  /* [tensors + 1] of the rank that replays, behind digest */
    size_t tensors;
    int shard;         /* that is replayed in this step; -1: none */
    const float *grad; /* of that shard, while this rank runs it; else NULL */
    size_t hashed;     /* tensors of it, in slab order */
} dt_replay;

typedef struct dt_checks {
    dt_run *run; /* borrowed */
    int64_t epoch, epoch_step;
    int64_t step;            /* under way or last, from 1 */
    int64_t stored;          /* the step after whose update the guard hashed; -1: weights changed
                              * since then, or it never has */
    dt_replicas replicas[2]; /* of home parameters and statistics; of own pieces, whose comm is NULL
                              * if nothing is cut */
    dt_replay replay;
} dt_checks;

/* Replicas and guard. */
dt_status dt_replicas_open(dt_checks *c) DT_MUST_CHECK;
void dt_replicas_store(dt_checks *c, int64_t step);      /* after its update */
dt_status dt_replicas_local(dt_checks *c) DT_MUST_CHECK; /* Local: guard only */
dt_status dt_replicas_check(dt_checks *c) DT_MUST_CHECK; /* Collective, agreed */

/* Pack again each packed copy whose middle lies in that part, and compare all bytes with those in
 * use. Local.
 *   room     [threads][dt_model_largest_pack] bytes, 64-byte aligned; overwritten
 *   step     for the message
 *   returns  DT_CORRUPT naming tensor, layout and byte of the first copy that differs */
dt_status dt_model_check_packed(const dt_model *m, int part, int parts, int threads, void *room,
                                int64_t step) DT_MUST_CHECK;
/* Bytes of the largest packed copy, a multiple of 64. */
size_t dt_model_largest_pack(const dt_model *m);

#define DT_CORRUPT_REMEDY                                                                          \
    "continue from the last checkpoint with --resume auto; if it comes back on the "               \
    "same host, leave that host out and test its memory"
#endif

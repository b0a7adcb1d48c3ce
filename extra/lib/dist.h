/* dist.h - dtrain's exchange for other programs, installed as dtrain/dist.h: sums over processes
 * whose bits depend on the number of summands alone, never on ranks, nodes or order of arrival.
 *
 *     cc -o program *.o $(pkg-config --cflags --libs dtrain-dist) && mpirun -np 8 ./program
 *
 * Every call but those marked Local is Collective: all ranks of the group make it, in the same
 * order; so are frees, which never wait. Arguments marked (same) are equal on all of them. They are
 * compared before any data moves, by one small message: where they differ, all ranks get
 * DTD_MISMATCH at once, with a text that names the argument, two ranks and their values, and the
 * data is as it was. An argument that makes no sense on one rank fails the call on all,
 * except a NULL handle. One thread calls. A function returns 0 or a code below, which is also an
 * exit code of dtrain; dtd_error() then has one text, and nothing is printed; a handle that was to
 * be made is NULL.
 *
 * A rank that dies or stands still while others wait for it ends them after DTD_STALL_SECONDS
 * (an environment variable; 300; 0: never): a line on stderr names it and its call, and the
 * processes exit with DTD_STALLED, because a call of MPI cannot be interrupted. A rank is late only
 * once another has waited for so long; so a test or a checkpoint on one rank must be shorter, or
 * the others must not wait. Calls are counted from 1: "after call 42" is the rank's 42nd. A thread
 * of the library looks twice a second, and calls no MPI. dtd_init is not watched.
 *
 * Order of a sum: a binary tree over the indices of the n summands, as in the trainer: the sum of
 * the first k, the largest power of two below n, plus the sum of the others, each made so. A mean
 * is the sum, then one division. fp16 and bf16 are computed in float32 and rounded once, at the
 * end; integers wrap, and have no mean; a minimum or maximum with NaN is NaN;
 * -0 < +0. */
#ifndef DTRAIN_DIST_H
#define DTRAIN_DIST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define DTD_API __attribute__((visibility("default")))
#else
#define DTD_API
#endif

/* ---- Codes, types, operations: these values never change --------------------------- */

enum {
    DTD_OK = 0,
    DTD_USAGE = 64, /* a call that makes no sense: a pointer is NULL, an index too large */
    DTD_BUG = 70,   /* please report it */
    DTD_NOMEM = 71, /* no memory, or MPI failed: the group is of no use any more */
    DTD_MISMATCH = 76,   /* ranks called with different arguments */
    DTD_STALLED = 77,    /* a rank died or stands still: an exit code alone */
    DTD_UNSUPPORTED = 78 /* valid, but not offered: the mean of integers, say */
};
typedef enum dtd_type { DTD_I8, DTD_I32, DTD_I64, DTD_F16, DTD_BF16, DTD_F32, DTD_F64 } dtd_type;
typedef enum dtd_op { DTD_SUM, DTD_MEAN, DTD_PROD, DTD_MIN, DTD_MAX } dtd_op;

/* Some of a rank's numbers. data [count] is borrowed by the call, or by its object. Where a
 * list is (same), so are its counts, types and names. */
typedef struct dtd_tensor {
    void *data;
    size_t count;
    dtd_type type;
    const char *name; /* for messages; NULL: none */
} dtd_tensor;

/* The text of this thread's last failure, until its next call. Local. */
DTD_API const char *dtd_error(void);
DTD_API size_t dtd_size_of(dtd_type type); /* bytes of a number. Local */

/* ---- Processes ---------------------------------------------------------------------- */

/* First of all. Starts MPI; ranks are numbered node by node then. A process that is alone (no
 * launcher, or one rank) is a world of one without MPI: a program that calls MPI itself calls
 * MPI_Init before. An MPI that was started by the program is used, with the ranks of
 * MPI_COMM_WORLD, and is not finished. Both arguments may be NULL. */
DTD_API int dtd_init(int *argc, char ***argv);
/* The same with the ranks of a communicator of the program's own MPI: a pointer to an MPI_Comm,
 * which is copied. */
DTD_API int dtd_init_mpi(const void *mpi_comm);
/* After all groups and what was made on them is freed, and before the program's MPI_Finalize. */
DTD_API int dtd_finalize(void);

typedef struct dtd_group dtd_group; /* NULL as an argument: all ranks */
/* Local, as the next three are; -1 before dtd_init. */
DTD_API int dtd_rank(const dtd_group *g);
DTD_API int dtd_size(const dtd_group *g);
DTD_API int dtd_local_rank(void); /* among the ranks of its host */
DTD_API int dtd_local_size(void);
/* *g = a group of ranks [count] of the world, in this order (same). Only those ranks call it; one
 * that not all of the others list waits for them until DTD_STALL_SECONDS. A list that makes no
 * sense fails the call on the ranks that it lists, if its own is among them. After a failure *g
 * is NULL, by which other calls would mean all ranks.
 *   name  for messages, at most 127 characters, not NULL; copied (same) */
DTD_API int dtd_group_new(dtd_group **g, const int *ranks, int count, const char *name);
/* Never waits, but all ranks of the group call it. NULL does nothing. */
DTD_API void dtd_group_free(dtd_group *g);

/* ---- Collectives: counts, types, operations and roots (same) -------------------------- */

DTD_API int dtd_barrier(dtd_group *g);
/* All tensors of the list, as they are on root: parameters, optimizer, several models. */
DTD_API int dtd_broadcast(const dtd_tensor *list, size_t count, int root, dtd_group *g);
/* x [count] is replaced on all ranks: equal bits on all, and in each run. */
DTD_API int dtd_all_reduce(void *x, size_t count, dtd_type type, dtd_op op, dtd_group *g);
/* The same on root alone; the other ranks' x is unchanged. */
DTD_API int dtd_reduce(void *x, size_t count, dtd_type type, dtd_op op, int root, dtd_group *g);
/* all is counts[0] numbers for rank 0, then counts[1] for rank 1, ...; mine [counts[rank]] = the
 * result of this rank's part. */
DTD_API int dtd_reduce_scatter(void *mine, const void *all, const size_t *counts, dtd_type type,
                               dtd_op op, dtd_group *g);
/* all = each rank's mine [counts[rank]], one after the other. */
DTD_API int dtd_all_gather(void *all, const void *mine, const size_t *counts, dtd_type type,
                           dtd_group *g);
/* The same on root alone: `all` may be NULL elsewhere. */
DTD_API int dtd_gather(void *all, const void *mine, const size_t *counts, dtd_type type, int root,
                       dtd_group *g);
/* mine [counts[rank]] = this rank's part of root's all, which may be NULL elsewhere. */
DTD_API int dtd_scatter(void *mine, const void *all, const size_t *counts, dtd_type type, int root,
                        dtd_group *g);

/* Messages between two different ranks, of as many numbers on both sides, and at least one; x
 * [count] is left alone until dtd_wait, which frees the request. They meet in order. Local;
 * dtd_wait waits for the other. */
typedef struct dtd_request dtd_request;
DTD_API int dtd_isend(dtd_request **r, const void *x, size_t count, dtd_type type, int to,
                      dtd_group *g);
DTD_API int dtd_irecv(dtd_request **r, void *x, size_t count, dtd_type type, int from,
                      dtd_group *g);
DTD_API int dtd_wait(dtd_request *r);

/* ---- The exact sum ------------------------------------------------------------------- */

/* A sum of `leaves` lists of tensors, which the ranks hold as they like: each leaf on one rank, a
 * rank any number of them. Its bits depend on their number alone: np 1 = np 8. */
typedef struct dtd_sum dtd_sum;
/*   shape  [tensors] counts, types and names; data is not read (same) */
DTD_API int dtd_sum_new(dtd_sum **s, int leaves, const dtd_tensor *shape, size_t tensors,
                        dtd_group *g);
/* Leaf i's data [tensors], which are copied. Local. DTD_USAGE: it was given already. */
DTD_API int dtd_sum_leaf(dtd_sum *s, int leaf, const void *const *data);
/* sum [tensors] = the sums, on all ranks; after it the next round of leaves begins. DTD_USAGE: a
 * leaf is missing, or was given by two ranks; it is named, and the round is void. */
DTD_API int dtd_sum_finish(dtd_sum *s, void *const *sum);
DTD_API void dtd_sum_free(dtd_sum *s);

/* ---- Gradients while backward goes on: DistributedDataParallel ------------------------- */

typedef struct dtd_ddp_opts {
    size_t size;                       /* sizeof(dtd_ddp_opts): more may follow */
    double bucket_mb, first_bucket_mb; /* the latter also of the last one; 0: 25 and 1 (same) */
    int sum;        /* 0: the mean of the leaves; 1: their sum (same) */
    int leaves;     /* of a step, at least one per rank: for equal bits on 1 to 8 ranks, say 8; 0:
                     * one per rank. Rank r of n has leaves [r * leaves / n, (r + 1) * leaves / n),
                     * in this order, a round of dtd_ddp_ready for each (same) */
    int accumulate; /* rounds that are added up on the rank before a leaf is complete; 0: 1. A mean
                     * is not divided by it (same) */
    int threads;    /* that add; 0: one */
} dtd_ddp_opts;
typedef struct dtd_ddp dtd_ddp;
/* Buckets are filled in reverse order of the list: the last tensor is usually ready first. They
 * travel while the program computes, several at once, whenever it calls.
 *   gradients  [count] float32; data is borrowed until free (counts and names: same)
 *   opts       NULL: all zeros */
DTD_API int dtd_ddp_new(dtd_ddp **d, const dtd_tensor *gradients, size_t count,
                        const dtd_ddp_opts *opts, dtd_group *g);
/* Gradient i of this round is final, and may be overwritten as soon as the call returns. Never
 * waits; in any order. Local. */
DTD_API int dtd_ddp_ready(dtd_ddp *d, size_t i);
/* It was not used in this round: zeros. Never waits. Local. */
DTD_API int dtd_ddp_unused(dtd_ddp *d, size_t i);
/* After the rank's last round: gradients = the mean or sum, on all ranks. DTD_USAGE on all ranks
 * names gradients that never became ready: the step is void, and the next one may begin. After
 * DTD_MISMATCH, where another rank is in another call, it is of no use any more. */
DTD_API int dtd_ddp_wait(dtd_ddp *d);
/* In the middle of a step messages may be under way: what they use stays until the process ends. */
DTD_API void dtd_ddp_free(dtd_ddp *d);

/* How a leaf travels; it is to be chosen before the first dtd_ddp_ready.
 *   DTD_HOOK_BF16   rounded to bf16 (nearest, ties to even)
 *   DTD_HOOK_2BIT   -threshold, 0 or +threshold; the rest is added to this leaf of the next
 *                   step, also of a void one. Sums of these are whole numbers: exact in any order.
 *                   What is no finite number makes the sums NaN from then on. Source: Seide et al.,
 *                   1-bit SGD (2014); MXNet's 2bit
 * Between hosts a leaf then takes 16 or 2 bits a number, and with 2BIT a sum of up to 127 leaves a
 * byte. (same) */
typedef enum dtd_hook { DTD_HOOK_NONE, DTD_HOOK_BF16, DTD_HOOK_2BIT } dtd_hook;
DTD_API int dtd_ddp_hook(dtd_ddp *d, dtd_hook hook, double threshold);

/* A wrapped optimizer: dtd_optimizer_step, called after each round or after a step's last one, does
 * nothing before the rank's last round of the step is done; then it waits for the sums and calls
 * step(state) (Horovod's backward_passes_per_step). A code of step other than 0 is returned on this
 * rank. */
typedef struct dtd_optimizer dtd_optimizer;
DTD_API int dtd_optimizer_new(dtd_optimizer **o, dtd_ddp *d, int (*step)(void *state), void *state);
DTD_API int dtd_optimizer_step(dtd_optimizer *o);
DTD_API void dtd_optimizer_free(dtd_optimizer *o); /* not the ddp */

/* ---- Data and learning rate: Local ------------------------------------------------------ */

/* Elements [*first, *first + *count) of total are this rank's; before dtd_init, all. */
DTD_API void dtd_shard(int64_t total, const dtd_group *g, int64_t *first, int64_t *count);
/* The element at `index` of epoch's permutation of [0, n): the trainer's order of images. The last
 * permutation is kept, 4 n bytes. -1: index is not below n, epoch or n do not fit into 32 bits, or
 * there is no memory. The halves of a seed are folded into one. */
DTD_API int64_t dtd_permute(uint64_t seed, int64_t epoch, int64_t n, int64_t index);
DTD_API double dtd_scale_lr(double lr, const dtd_group *g); /* lr x size */

#ifdef __cplusplus
}
#endif
#endif

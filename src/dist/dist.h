/* dist.h - ranks, agreement, the summation tree and gradient exchange; the public header of
 * src/dist, where the core uses MPI. No MPI type appears here.
 *
 * Collective: every rank must call the function, in the same order; arguments marked (same) must
 *             be equal on all ranks.
 * Local:      any rank may call the function alone.
 * A function that returns dt_status records why it failed (dt_fail). DT_COMM: MPI failed. */
#ifndef DT_DIST_H
#define DT_DIST_H
#include "base/base.h"

/* ---- Communicator ---------------------------------------------------------------- */

typedef struct dt_comm { /* read only */
    int rank, world;     /* this rank of so many */
    int nodes;
    int node_rank, node_ranks;       /* this rank among those of its node */
    int machine_rank, machine_ranks; /* the same on its machine, which may count as several nodes */
    struct dt_comm_own *own;         /* private: comm.h */
} dt_comm;

/* mpi (dt_comm_launched knows): start MPI; else open a world of one without it. Ranks are
 * renumbered by (node, rank on the node), so that the ranks of a node are neighbours. Sets the
 * log's rank. A failure is this rank's alone; after it *c is NULL, or the caller may only read its
 * world and call dt_comm_abort (in a world of one also dt_comm_close). Collective. */
dt_status dt_comm_open(dt_comm **c, bool mpi, int *argc, char ***argv) DT_MUST_CHECK;
/* From now on an agreement on c prints nothing: its text is in each rank's record, as a caller
 * of a library wants it. Local. */
void dt_comm_quiet(dt_comm *c);
/* *part = a world of the ranks of c that give this color, in c's order; NULL for a color below 0.
 * The ranks that have it close it before c. Collective over c. */
dt_status dt_comm_split(dt_comm **part, dt_comm *c, int color) DT_MUST_CHECK;
/* Finish MPI. c may be NULL. Collective. */
void dt_comm_close(dt_comm *c);
/* End all ranks at once with this exit code, after a failure that the others cannot know of.
 * Returns only in a world of one without MPI. Local. */
void dt_comm_abort(dt_comm *c, int code);
/* CPUs that this node's ranks together may use, by their affinity masks and their container's
 * quota. Local. */
int dt_comm_node_cpus(const dt_comm *c);
/* Treat the ranks of each node as `nodes` nodes (same) of neighbouring ranks, at most one per rank,
 * to test several nodes on one machine. Call it before anything is made on c. DT_CONFIG: nodes < 1.
 * Collective. */
dt_status dt_comm_split_nodes(dt_comm *c, int nodes) DT_MUST_CHECK;
const char *dt_comm_version(void); /* "Open MPI v4.1.4, ..." Local */

/* ---- asked.c: how many ranks were meant, all Local, at any time ------------------------ */

/* This variable tells a host's ranks how many were asked for; dtrain --np and launch set it. */
#define DT_ASKED_VARIABLE "DTRAIN_NP"
/* Whether a launcher, such as mpirun, has started this process as one rank of several. */
bool dt_comm_launched(void);
/* How many processes the launcher has started, and in *rank which of them this is, from 0. 1: this
 * one alone, or there is no launcher; 0: it does not say. */
int64_t dt_comm_launcher(int64_t *rank);
/* Names of the processes by which mpirun starts ranks, a space before each; NULL: this process is
 * no rank of an mpirun. */
const char *dt_comm_mpirun(void);
/* True if this process must not start ranks: it is one of several, each of which would start a
 * separate run, or it is a rank of mpirun, and Open MPI's mpirun does not start from a rank. */
bool dt_comm_has_peers(void);
/* Whether c has all ranks that were meant: by DT_ASKED_VARIABLE, else by the launcher's variables,
 * else by variables that other programs' launchers hand on (WORLD_SIZE, RANK_SIZE, ...). If a
 * weaker source, or Slurm's job, says otherwise, this only warns. DT_MISMATCH: there are fewer;
 * DT_CONFIG: inherited variables contradict each other, and nothing stronger decides. */
dt_status dt_comm_check_asked(const dt_comm *c) DT_MUST_CHECK;

/* Turn a local outcome into a common one. Call it after each phase in which one rank may fail
 * alone, before the next collective; otherwise the other ranks wait in that for ever. Collective.
 *   local    this rank's outcome, DT_OK if it succeeded
 *   returns  the status of the lowest rank that failed, equal on all ranks. Rank 0 has printed
 *            that rank's recorded text once, with its number and host unless all ranks failed
 *            alike; the record of every rank is cleared. If all records are empty, nothing is
 *            printed, because an inner agreement has done so */
dt_status dt_comm_agree(dt_comm *c, dt_status local) DT_MUST_CHECK;

/* Compare named values across ranks. Collective.
 *   fields   [count] (names and count: same); values are this rank's
 *   returns  DT_OK, or DT_MISMATCH on all ranks after rank 0 has printed the first field that
 *            differs, rank 0's value, and the lowest rank with another value */
dt_status dt_comm_same(dt_comm *c, const dt_field *fields, size_t count) DT_MUST_CHECK;

/* All four are collective; bytes, count and root (same). Sums and maxima replace x. */
dt_status dt_comm_barrier(dt_comm *c) DT_MUST_CHECK;
dt_status dt_comm_bcast(dt_comm *c, void *data, size_t bytes, int root) DT_MUST_CHECK;
dt_status dt_comm_sum_i64(dt_comm *c, int64_t *x, size_t count) DT_MUST_CHECK;
dt_status dt_comm_max_i64(dt_comm *c, int64_t *x, size_t count) DT_MUST_CHECK;

/* all [world][bytes] = mine[bytes] of each rank, on rank 0. bytes (same). Collective. */
dt_status dt_comm_gather(dt_comm *c, const void *mine, void *all, size_t bytes) DT_MUST_CHECK;

/* Events of DT_LANE_WAIT in the record (base.h): all ranks have the same, in the same order. The
 * rank that spent the shortest time in one came last: the others waited for it. In `statistics`
 * only ranks with shards of the same groups wait for each other. */
#define DT_COLLECTIVE_LIST(X)                                                                      \
    X(barrier)                                                                                     \
    X(broadcast) X(agreement) X(gather) X(reduction) X(statistics) X(gradients) X(weights)
#define X(name) DT_IN_##name,
enum { DT_COLLECTIVE_LIST(X) DT_COLLECTIVES };
#undef X

/* ---- Memory of a node ------------------------------------------------------------ */

/* *s = one block per node, which all its ranks map; it is 64-byte aligned, zeroed, and entirely
 * reserved. To fill it, write on the rank where node_rank is 0, then call dt_comm_barrier. Every
 * rank gives it back by dt_slab_destroy. DT_NOMEM, also if the ranks of some node cannot share
 * memory. Agreed. Collective.
 *   bytes  (same)
 *   what   names the block in messages */
dt_status dt_node_slab_create(dt_slab *s, dt_comm *c, size_t bytes, const char *what) DT_MUST_CHECK;

/* ---- Shards and the tree --------------------------------------------------------- */

/* Rank r of np owns shards [r * S / np, (r + 1) * S / np), rounded down. Local. */
void dt_shards_of(int shards, int world, int rank, int *first, int *end);

/* A tree over `count` ranks, or teams, may have two levels: neighbours form groups. Returns a
 * group's size: `count` (one level) if it is at most `few`, or prime; else its divisor with the
 * fewest messages per rank over both levels. Local. */
enum { DT_FEW = 16 };
int dt_fold_group(int count, int few);

/* dt_reduce sums values over groups of neighbouring shards in the order of docs/numerics.md,
 * section 3. Group k is shards [k * group, (k + 1) * group); the last may be smaller. The leaves of
 * a group are combined into one value on all ranks that own one of its shards; the order depends
 * on the group's size alone. One round is dt_reduce_leaf and dt_reduce_push for each of the
 * rank's shards, then dt_reduce_finish. All memory is taken at creation. */
typedef struct dt_fold_type {
    size_t bytes; /* of an element */
    /* to[i] = left[i] + right[i]; `to` may be either */
    void (*add)(void *to, const void *left, const void *right, size_t count);
} dt_fold_type;
extern const dt_fold_type dt_fold_f32, dt_fold_f64, dt_fold_moments;
typedef struct dt_reduce dt_reduce;
/* All arguments but t (same). DT_NOMEM; *t is to be destroyed whatever the outcome. Collective.
 *   count  the most elements of a value
 *   group  shards per group, >= 1; `shards` or more make one group */
dt_status dt_reduce_create(dt_reduce **t, dt_comm *c, int shards, size_t count,
                           const dt_fold_type *type, int group) DT_MUST_CHECK;
void dt_reduce_destroy(dt_reduce *t);
/* From the next round on values have `count` elements (same), at most those of creation. Call it
 * between rounds. Local. */
void dt_reduce_resize(dt_reduce *t, size_t count);
/* Where to write the next leaf: [count] elements, valid until dt_reduce_push. Local. */
void *dt_reduce_leaf(dt_reduce *t);
/* The leaf is complete. Leaves are pushed in ascending order of the rank's shards. Local. */
void dt_reduce_push(dt_reduce *t);
/* After the rank's last leaf. Only partial values of groups that lie on several ranks are sent; if
 * there are none, nothing is. Collective. */
dt_status dt_reduce_finish(dt_reduce *t) DT_MUST_CHECK;
/* After dt_reduce_finish: the value of the group of `shard`, which is one of the rank's, or any
 * where there is one group; borrowed until the next leaf. Local. */
const void *dt_reduce_result(const dt_reduce *t, int shard);

/* ---- Gradient exchange ----------------------------------------------------------- */

/* The exchanges, each in a file exchange_<name>.c, all but two in extra/exchanges; `auto` takes the
 * first that does not decline.
 *   shared     exact, on one node: every rank reduces, updates and publishes its slice of one
 *              copy of the weights, in memory that the node's ranks share
 *   tree       exact: messages between nodes; inside a node like `shared` if memory can be shared
 *   gather, p2p, allreduce, buckets  the four methods of the CS744 tutorial; the first two are
 *              exact (a message per tensor), the last two inexact
 * Inexact sums are equal on all ranks, but have other bits for another number of ranks. */
#define DT_EXCHANGE_LIST(X) X(shared) X(tree) X(gather) X(p2p) X(allreduce) X(buckets)

/* Compression of a leaf before it is summed, by extra/compress:
 *   bf16   it is rounded to bf16
 *   2bit   it becomes -threshold, 0 or +threshold; what is left is added to the shard's next leaf.
 *          Whole numbers of thresholds are summed, so every exchange is exact; a resumed run is
 *          not, since checkpoints lack what is left. NaN and infinity become NaN */
#define DT_COMPRESS_LIST(X) X(none) X(bf16) X(2bit)

typedef struct dt_span {
    size_t first, count; /* floats */
} dt_span;
typedef struct dt_exchange_opts {
    const char *name;      /* "auto" or a row (same) */
    int shards;            /* S, at least 1 (same) */
    size_t floats;         /* in the gradient slab (same) */
    const dt_span *tensor; /* [tensors] ascending, disjoint; copied (same) */
    size_t tensors;
    /* A bucket takes whole tensors until it reaches this size. For the first and the last bucket
     * the size is outer_bytes, if that is less (same). 0: the slab is one bucket. */
    size_t bucket_bytes;
    size_t outer_bytes;   /* 0: 1 MiB (same) */
    const char *compress; /* a word of DT_COMPRESS_LIST; NULL: none (same) */
    double threshold;     /* of 2bit, above 0 as a float, and finite (same) */
    bool lockstep;        /* all leaves of a rank are written before the first is ready (same) */
    bool apart;           /* no rank works in another one's memory (same) */
    int threads;          /* that add up; 0: one */
} dt_exchange_opts;
typedef struct dt_exchange dt_exchange;

typedef struct dt_exchange_needs {
    /* The node's ranks hold one copy of master weights, momentum and packed weights in blocks of
     * dt_node_slab_create, and the memory given to dt_exchange_open is one, too (same). */
    bool shares;
    size_t slabs; /* of opts->floats each: for this rank, or for the whole node if it shares */
} dt_exchange_needs;
/* Choose an exchange: *needs = what it needs. Whatever the outcome, *x is to be closed.
 * DT_CONFIG: unknown name; DT_UNSUPPORTED: the named exchange declines, or this build has none;
 * both alike on all ranks. DT_NOMEM. Local. */
dt_status dt_exchange_create(dt_exchange **x, dt_comm *c, const dt_exchange_opts *opts,
                             dt_exchange_needs *needs) DT_MUST_CHECK;
/* Before the first leaf. DT_NOMEM. Agreed. Collective.
 *   memory  as needed: zeroed, 64-byte aligned; borrowed until close */
dt_status dt_exchange_open(dt_exchange *x, float *memory) DT_MUST_CHECK;
/* Waits for no other rank. Returns whether the memory may be given back: false, only in the
 * middle of a step, if messages may use it until the process ends. NULL: true. */
bool dt_exchange_close(dt_exchange *x);
const char *dt_exchange_name(const dt_exchange *x); /* of the chosen one */
bool dt_exchange_exact(const dt_exchange *x);

/* The slab [floats] to which backward of the rank's next shard writes its gradient, in ascending
 * order of shards. With `lockstep` all of them are taken before the first dt_exchange_ready. Floats
 * between tensors are padding: they must remain zero. Local. */
float *dt_exchange_leaf(dt_exchange *x);
#define DT_LOOK_S 0.002 /* seconds between two polls of messages from kernels */
/* The first `floats_done` floats of that slab (`lockstep`: of all slabs) are final. The call adds
 * complete buckets to the rank's partial sums, starts to send these if the shard is the rank's
 * last, and lets MPI progress; until finish, dt_poll on this thread lets MPI progress, too, while
 * messages are under way. floats_done == floats ends the shard; more calls until the next leaf are
 * harmless. Waits for no other rank, but all ranks must call it in the same order. */
dt_status dt_exchange_ready(dt_exchange *x, size_t floats_done) DT_MUST_CHECK;
typedef struct dt_exchange_sum {
    const float *sum;     /* [floats], valid inside the spans until the next leaf */
    const dt_span *owned; /* [spans], ascending, valid until close */
    size_t spans;
} dt_exchange_sum;
/* Wait until the sum over all shards is complete in the spans that this rank's optimizer updates:
 * all of the slab, or the rank's slices if the exchange shares. Afterwards no rank reads the
 * weights of this step any more. Collective. */
dt_status dt_exchange_finish(dt_exchange *x, dt_exchange_sum *s) DT_MUST_CHECK;
/* Make what this rank wrote to memory that the node shares visible to the node's ranks, and wait
 * for what they wrote. Does nothing if nothing is shared. Collective. */
dt_status dt_exchange_publish(dt_exchange *x) DT_MUST_CHECK;

/* to [span.count] = floats of the sum, also spans that other ranks of the node own. Call it between
 * the first and the second publish after finish: the first makes all spans visible, after the
 * second they may be written again. Local. */
void dt_exchange_read(const dt_exchange *x, dt_span span, float *to);

/* The floats of a bucket, and how long before the last finish they were final. Local. */
size_t dt_exchange_buckets(const dt_exchange *x);
size_t dt_exchange_bucket(const dt_exchange *x, size_t b, double *ahead_s);

typedef struct dt_exchange_stats {
    /* The payload of this rank's messages since open; for MPI's allreduce, which does not say,
     * the least that it can be. */
    uint64_t bytes_sent, bytes_received, messages;
    uint64_t memory; /* bytes of this rank's buffers, or its share of the node's */
} dt_exchange_stats;
void dt_exchange_stats_get(const dt_exchange *x, dt_exchange_stats *s);
#endif

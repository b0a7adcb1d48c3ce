/* dist.h - ranks, agreement, the summation tree and gradient exchange; the public
 * header of src/dist, the only folder with MPI.
 *
 * Collective: every rank must call it, in the same order; arguments marked (same) must
 *             be equal on all ranks.
 * Local:      any rank may call it alone.
 * No MPI type appears here. */
#ifndef DT_DIST_H
#define DT_DIST_H
#include "base/base.h"

/* ---- Communicator ---------------------------------------------------------------- */

typedef struct dt_comm dt_comm;
/* Start MPI (or run as a world of one when not under mpirun: the same program). Ranks
 * are renumbered by (node, rank on the node), so that a node's ranks are neighbours.
 * Sets the log's rank. A failure is this rank's: *c, if it is not NULL, is then for
 * dt_comm_world and dt_comm_abort, or in a world of one dt_comm_close. Collective. */
dt_status dt_comm_open(dt_comm **c, int *argc, char ***argv) DT_MUST_CHECK;
/* A world of the first `ranks` ranks of c (same), 1 <= ranks <= c's; NULL on the others.
 * To be closed before c, by the ranks that have it. Collective over c. */
dt_status dt_comm_first(dt_comm **first, dt_comm *c, int ranks) DT_MUST_CHECK;
/* Finish MPI. Collective. */
void dt_comm_close(dt_comm *c);
/* End all ranks at once with this exit code; for a failure that the others cannot know
 * of. Returns only in a world of one without MPI. Local. */
void dt_comm_abort(dt_comm *c, int code);
int dt_comm_rank(const dt_comm *c);       /* Local */
int dt_comm_world(const dt_comm *c);      /* Local */
int dt_comm_node_rank(const dt_comm *c);  /* rank on this node. Local */
int dt_comm_node_ranks(const dt_comm *c); /* ranks on this node. Local */
/* CPUs that this node's ranks may use, all together, by their affinity masks
 * and their container's quota. Local. */
int dt_comm_node_cpus(const dt_comm *c);
int dt_comm_nodes(const dt_comm *c); /* Local */
/* Treat each node's ranks as `nodes` nodes (at most its ranks) of neighbouring ranks: to test
 * what several nodes do. Call before anything is made on c. Collective. */
dt_status dt_comm_split_nodes(dt_comm *c, int nodes) DT_MUST_CHECK;
const char *dt_comm_version(void); /* "Open MPI v4.1.4, ..." Local */
/* Whether a launcher, mpirun for one, has started this process as a rank. Local, any time. */
bool dt_comm_launched(void);

/* Turn a local outcome into a common one. Collective. Call it after each phase in which
 * one rank may fail alone and before the next collective; else the others wait.
 *   local    this rank's outcome, DT_OK if it succeeded
 *   returns  the status of the lowest rank that failed, equal on all ranks; rank 0 has
 *            then printed that rank's recorded text once (dt_fail), naming the rank and
 *            host unless all ranks failed alike; every rank's record is cleared. Empty
 *            records on all ranks print nothing: an inner agreement has done so */
dt_status dt_comm_agree(dt_comm *c, dt_status local) DT_MUST_CHECK;

/* Compare named values across ranks. Collective.
 *   fields  [count] (same names and count); values are this rank's
 *   returns DT_OK, or DT_MISMATCH on all ranks, printed once: the first field that
 *           differs, rank 0's value, and the first other rank with its value */
dt_status dt_comm_same(dt_comm *c, const dt_field *fields, size_t count) DT_MUST_CHECK;

/* Collective. (same) bytes, count, root; sums and maxima replace x on every rank. */
dt_status dt_comm_barrier(dt_comm *c) DT_MUST_CHECK;
dt_status dt_comm_bcast(dt_comm *c, void *data, size_t bytes, int root) DT_MUST_CHECK;
dt_status dt_comm_sum_i64(dt_comm *c, int64_t *x, size_t count) DT_MUST_CHECK;
dt_status dt_comm_max_i64(dt_comm *c, int64_t *x, size_t count) DT_MUST_CHECK;

/* Seconds that this rank was in collectives since open, where there are others: the rank with
 * the fewest is the one that the others waited for. Local. */
double dt_comm_waited(const dt_comm *c);

typedef struct dt_comm_record {
    const char *name; /* barrier, broadcast, agreement, reduction, gradients, weights, log */
    size_t bytes;     /* that are summed or handed on */
} dt_comm_record;
typedef struct dt_comm_records {
    const dt_comm_record *what; /* [count] */
    const double *seconds;      /* [world][count] that each rank was in it */
    int count, more;            /* more: that there was no room for */
} dt_comm_records;
/* Keep a record of each collective from now on, until close. DT_NOMEM. Collective. */
dt_status dt_comm_records_keep(dt_comm *c) DT_MUST_CHECK;
/* On rank 0, those since the last time, borrowed until the next collective; else none, as where
 * they are not kept. Collective. */
dt_status dt_comm_records_take(dt_comm *c, dt_comm_records *r) DT_MUST_CHECK;

/* ---- Memory of a node ------------------------------------------------------------ */

/* One block per node, mapped by all its ranks, 64-byte aligned, zeroed; all of it is
 * reserved when this returns. Fill it on the rank where dt_comm_node_rank is 0, then
 * dt_comm_barrier. Collective.
 *   bytes    (same)
 *   *memory  NULL (same) where the ranks of some node cannot share memory: there is no
 *            block then, *m is left alone, and
 *   *why     (same) says why, as "X cannot ..." without a full stop; borrowed from c until
 *            the next call. NULL otherwise */
typedef struct dt_node_mem dt_node_mem;
dt_status dt_node_mem_create(dt_node_mem **m, dt_comm *c, size_t bytes, const char *what,
                             void **memory, const char **why) DT_MUST_CHECK;
void dt_node_mem_destroy(dt_node_mem *m); /* Local */

/* ---- Shards and the tree --------------------------------------------------------- */

/* Rank r owns shards [r*S/np, (r+1)*S/np), rounded down: contiguous. Local. */
void dt_shards_of(int shards, int world, int rank, int *first, int *end);

/* The tree of docs/numerics.md section 3 over groups of neighbouring shards: group k is shards
 * [k * group, (k + 1) * group), the last may be smaller. Combines the leaves of each group
 * into one value on all ranks that own one of its shards, in an order that depends on the
 * group's size alone (the tree over indices from the group's first shard). One round is a
 * leaf for each of the rank's shards, then dt_reduce_finish. Memory is taken at creation. */
typedef struct dt_fold_type {
    size_t bytes; /* of an element */
    /* to[i] = left[i] + right[i]; `to` may be either */
    void (*add)(void *to, const void *left, const void *right, size_t count);
} dt_fold_type;
extern const dt_fold_type dt_fold_f32, dt_fold_f64, dt_fold_moments;
typedef struct dt_reduce dt_reduce;
/* (same) all arguments but t; 1 <= world <= shards, else DT_CONFIG.
 *   count  elements of a value, at most
 *   group  shards per group, >= 1; `shards` or more: one group. Collective. */
dt_status dt_reduce_create(dt_reduce **t, dt_comm *c, int shards, size_t count,
                           const dt_fold_type *type, int group) DT_MUST_CHECK;
void dt_reduce_destroy(dt_reduce *t);
/* Values have `count` elements from the next round on, at most those of creation (same).
 * Between rounds. Local. */
void dt_reduce_resize(dt_reduce *t, size_t count);
/* Where the next leaf goes: [count] elements; valid until dt_reduce_push. Local. */
void *dt_reduce_leaf(dt_reduce *t);
/* The leaf is complete; leaves are pushed in ascending order of the rank's shards.
 * Local. */
void dt_reduce_push(dt_reduce *t);
/* After the rank's last leaf: the value of the group of the rank's first shard (of all
 * shards where there is one group), valid until the next leaf. Sends only partial values of
 * groups that lie on several ranks, and nothing when there are none. Collective. */
dt_status dt_reduce_finish(dt_reduce *t, const void **result) DT_MUST_CHECK;
/* After dt_reduce_finish: the value of the group of `shard`, one of the rank's. Local. */
const void *dt_reduce_result(const dt_reduce *t, int shard);

/* ---- Gradient exchange ----------------------------------------------------------- */

/* One file exchange_<name>.c each; `auto` takes the first that does not decline.
 *   shared     exact; one node: every rank reduces, updates and publishes its slice of one
 *              copy of the weights in memory that the node's ranks share
 *   tree       exact; messages between nodes; inside a node as `shared` where there is room
 *   ring       inexact; reduce-scatter and allgather around a ring, bucket by bucket
 *   gather, p2p, allreduce, buckets  the four methods of the CS744 tutorial: the first two
 *              exact (one message per tensor), the last two inexact
 *   none       no exchange: ranks diverge; measures compute alone
 * Inexact: equal on all ranks, but other bits for another number of ranks. */
#define DT_EXCHANGE_LIST(X) DT_EXCHANGE_TRAINS_LIST(X) X(none)
/* Those that a training can take. */
#define DT_EXCHANGE_TRAINS_LIST(X)                                                                 \
    X(shared) X(tree) X(ring) X(gather) X(p2p) X(allreduce) X(buckets)

typedef struct dt_span {
    size_t first, count; /* floats */
} dt_span;
typedef struct dt_exchange_opts {
    const char *name;      /* "auto" or a row (same) */
    int shards;            /* S (same) */
    size_t floats;         /* of the gradient slab (same) */
    const dt_span *tensor; /* [tensors] ascending, disjoint; copied (same) */
    size_t tensors;
    /* Buckets are whole tensors and closed when they reach this size (same).
     * bucket_bytes 0: the slab is one bucket; first or last 0: as bucket_bytes. */
    size_t first_bucket_bytes, bucket_bytes, last_bucket_bytes;
    bool bf16;     /* round each leaf to bf16 before it is summed (same) */
    bool lockstep; /* the rank's leaves are all written before the first is ready (same) */
    /* Why the node's ranks cannot share memory, as dt_node_mem_create says it; NULL: they
     * can, as far as is known (same) */
    const char *apart;
} dt_exchange_opts;
typedef struct dt_exchange dt_exchange;

/* What the chosen exchange needs. */
typedef struct dt_exchange_needs {
    /* The node's ranks must hold one copy of master weights, momentum and packed weights in
     * dt_node_mem, and the memory given to dt_exchange_open is one such block, too (same). */
    bool shares;
    size_t slabs; /* of opts->floats each: this rank's; if it shares, the whole node's */
} dt_exchange_needs;
/* Choose a row and say what it needs. What `apart` changes is said in one line. DT_CONFIG:
 * unknown name, world > shards; DT_UNSUPPORTED: the named row declines; but for DT_NOMEM
 * alike on all ranks. Local. */
dt_status dt_exchange_plan(dt_comm *c, const dt_exchange_opts *opts,
                           dt_exchange_needs *needs) DT_MUST_CHECK;
/* opts as given to dt_exchange_plan; memory: zeroed, 64-byte aligned, borrowed, of the
 * needs planned. Collective. */
dt_status dt_exchange_open(dt_exchange **x, dt_comm *c, const dt_exchange_opts *opts,
                           float *memory) DT_MUST_CHECK;
void dt_exchange_close(dt_exchange *x);
const char *dt_exchange_name(const dt_exchange *x); /* the row taken */
bool dt_exchange_exact(const dt_exchange *x);
bool dt_exchange_shares(const dt_exchange *x);

/* The slab [floats] that backward of the rank's next shard writes; ascending order; with
 * `lockstep` all of them are asked for before the first dt_exchange_ready. Floats between
 * tensors are padding, and stay as zero as they were at open. Local. */
float *dt_exchange_leaf(dt_exchange *x);
/* The first `floats_done` floats of that slab (`lockstep`: of all slabs) are final: fold
 * whole buckets into the rank's partial sums and, for its last shard, start sending them.
 * Never blocks for a remote rank. floats_done == floats ends the shard; more calls until
 * the next leaf do no harm. Also lets MPI progress. Local in waiting, but calls must come in
 * the same order on all ranks. */
dt_status dt_exchange_ready(dt_exchange *x, size_t floats_done) DT_MUST_CHECK;
/* Block until the sum over all shards is there, for the spans that this rank's optimizer
 * updates: all of the slab, or its slice where the exchange shares. *sum [floats] is valid
 * there until the next leaf; *owned [*spans] ascending, until close. No rank reads weights of
 * this step any more when this returns. Collective. */
dt_status dt_exchange_finish(dt_exchange *x, const float **sum, const dt_span **owned,
                             size_t *spans) DT_MUST_CHECK;
/* What this rank wrote to memory that the node shares is visible to its node's ranks, and
 * what they wrote to this one; nothing to do where nothing is shared. Collective. */
dt_status dt_exchange_publish(dt_exchange *x) DT_MUST_CHECK;

typedef struct dt_exchange_stats {
    /* By this rank, since open: payload of its messages; for MPI's allreduce, which
     * does not tell, what a ring moves. */
    uint64_t bytes_sent, bytes_received, messages;
    double wait_s;   /* in finish and publish, since open: communication that is exposed */
    uint64_t memory; /* bytes of this rank's buffers and its share of the node's */
} dt_exchange_stats;
void dt_exchange_stats_get(const dt_exchange *x, dt_exchange_stats *s);
#endif

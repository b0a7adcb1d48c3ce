/* dist.h - ranks, agreement, the summation tree and gradient exchange; the public header of
 * src/dist, the only folder that uses MPI. No MPI type appears here.
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
    int machine_rank, machine_ranks; /* and of its machine, as however many nodes they count */
    struct dt_comm_own *own;         /* private to src/dist */
} dt_comm;

/* Start MPI, or open a world of one if no launcher has started this process. Ranks are renumbered
 * by (node, rank on the node), so that the ranks of a node are neighbours. Sets the log's rank.
 * A failure is this rank's alone. *c is then NULL, or only its world may be read, and
 * dt_comm_abort called (in a world of one dt_comm_close, too). Collective. */
dt_status dt_comm_open(dt_comm **c, int *argc, char ***argv) DT_MUST_CHECK;
/* A world of one, whatever has started this process. Local. */
dt_status dt_comm_open_alone(dt_comm **c) DT_MUST_CHECK;
/* The state of MPI in this process, which may have started it itself. Local. */
typedef enum dt_comm_mpi { DT_COMM_NO_MPI, DT_COMM_MPI_RUNS, DT_COMM_MPI_OVER } dt_comm_mpi;
dt_comm_mpi dt_comm_mpi_now(void);
/* *c = a world of the ranks of an MPI_Comm, which mpi_comm points to; NULL: of MPI_COMM_WORLD. MPI
 * runs, and is not finished by dt_comm_close. The order stays: the nodes are runs of neighbours on
 * one machine. A failure is this rank's alone, as dt_comm_group's is. Collective. */
dt_status dt_comm_adopt(dt_comm **c, const void *mpi_comm) DT_MUST_CHECK;
/* *made = a world of ranks [count] of c, in this order (same). Only these ranks call
 * it, and close it before c. Messages on it and on c never meet. Collective over these ranks. */
dt_status dt_comm_group(dt_comm **made, dt_comm *c, const int *ranks, int count) DT_MUST_CHECK;
/* From now on an agreement on c prints nothing: its text is in each rank's record, as a caller
 * of a library wants it. Groups made of c do the same. Local. */
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
/* Treat the ranks of each node as `nodes` nodes (same) of neighbouring ranks, to test several nodes
 * on one machine. Call it before anything is made on c. DT_CONFIG: a node has fewer ranks.
 * Collective. */
dt_status dt_comm_split_nodes(dt_comm *c, int nodes) DT_MUST_CHECK;
const char *dt_comm_version(void); /* "Open MPI v4.1.4, ..." Local */

/* ---- asked.c: how many ranks were meant, all Local, at any time ------------------------ */

/* Whether a launcher, such as mpirun, has started this process as one rank of several. */
bool dt_comm_launched(void);
/* How many processes the launcher has started, and in *rank which of them this is, from 0. 1: this
 * one alone, or there is no launcher; 0: it does not say. */
int64_t dt_comm_launcher(int64_t *rank);
/* Whether it must not start ranks: it is one of several processes, each of which would start a run
 * of its own, or a rank of Open MPI's mpirun, which does not start from one. */
bool dt_comm_has_peers(void);
/* Whether c has all ranks that were meant: by DT_ASKED_VARIABLE, else by the launcher's variables,
 * else by those that other programs' launchers hand on (WORLD_SIZE, RANK_SIZE, ...). A weaker one
 * that differs is a warning. DT_MISMATCH: there are fewer; DT_CONFIG: inherited variables
 * contradict each other, and nothing stronger decides. */
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

/* Before something is done together: *equal = whether all ranks have this key, *failed = whether
 * any fails. One small message; no rank leaves it before all have come. Collective. */
dt_status dt_comm_meet(dt_comm *c, uint64_t key, bool fails, bool *equal,
                       bool *failed) DT_MUST_CHECK;

/* All four are collective; bytes, count and root (same). Sums and maxima replace x. */
dt_status dt_comm_barrier(dt_comm *c) DT_MUST_CHECK;
dt_status dt_comm_bcast(dt_comm *c, void *data, size_t bytes, int root) DT_MUST_CHECK;
dt_status dt_comm_sum_i64(dt_comm *c, int64_t *x, size_t count) DT_MUST_CHECK;
dt_status dt_comm_max_i64(dt_comm *c, int64_t *x, size_t count) DT_MUST_CHECK;

/* all [world][bytes] = mine[bytes] of each rank, on rank 0. bytes (same). Collective. */
dt_status dt_comm_gather(dt_comm *c, const void *mine, void *all, size_t bytes) DT_MUST_CHECK;

typedef struct dt_comm_clock {
    int64_t ahead, bound; /* rank 0's dt_activity_clock is this rank's + ahead, within bound (ns) */
    char host[DT_HOST_CHARS];
} dt_comm_clock;
/* of [world], on rank 0. Collective. */
dt_status dt_comm_clocks(dt_comm *c, dt_comm_clock *of) DT_MUST_CHECK;

/* What DT_LANE_WAIT of the record (base.h) has: all ranks the same ones, in the same order. The
 * rank that was in one for the shortest time came last: the others waited for it; but in
 * `statistics` only those that have shards of the same groups wait for each other. */
#define DT_COLLECTIVE_LIST(X)                                                                      \
    X(barrier)                                                                                     \
    X(broadcast) X(agreement) X(gather) X(reduction) X(statistics) X(gradients) X(weights)
#define X(name) DT_IN_##name,
enum { DT_COLLECTIVE_LIST(X) DT_COLLECTIVES };
#undef X
extern const char *const dt_collective_name[DT_COLLECTIVES];

/* ---- Memory of a node ------------------------------------------------------------ */

/* Make one block per node, which all its ranks map; it is 64-byte aligned, zeroed, and entirely
 * reserved. To fill it, write on the rank where node_rank is 0, then call dt_comm_barrier.
 * DT_NOMEM, also if the ranks of some node cannot share memory. Agreed. Collective.
 *   bytes    (same)
 *   what     names the block in messages
 *   *memory  the block, owned by *m */
typedef struct dt_node_mem dt_node_mem;
dt_status dt_node_mem_create(dt_node_mem **m, dt_comm *c, size_t bytes, const char *what,
                             void **memory) DT_MUST_CHECK;
void dt_node_mem_destroy(dt_node_mem *m); /* Local */

/* ---- Moves ----------------------------------------------------------------------- */

/* Copies of rectangles between ranks, which are listed once and started again and again. No number
 * is computed. A rectangle is `rows` rows of `bytes` bytes, strides apart (in bytes); all those of
 * a key that go from one rank to another are one message. */
typedef struct dt_rect {
    int key, from, to;  /* ranks */
    const void *source; /* read by rank `from` alone */
    void *target;       /* and by `to`: other ranks may give NULL */
    size_t rows, bytes, from_stride, to_stride;
    int64_t kind, order; /* of src/dist */
} dt_rect;
typedef struct dt_moves dt_moves;
/* Keys are [0, keys) (same). DT_NOMEM; *m is to be destroyed whatever the outcome. Local. */
dt_status dt_moves_create(dt_moves **m, dt_comm *c, int keys) DT_MUST_CHECK;
/* Every rank adds the same rectangles, in the same order, but for addresses that are not its own;
 * those in which it has no part may be left out. Targets of a key overlap neither each other nor
 * its sources. DT_NOMEM. Local. */
dt_status dt_moves_add(dt_moves *m, const dt_rect *r) DT_MUST_CHECK;
/* After the last one. DT_NOMEM, DT_UNSUPPORTED: more than MPI can count. Agreed. Collective. */
dt_status dt_moves_seal(dt_moves *m) DT_MUST_CHECK;
void dt_moves_destroy(dt_moves *m);
/* What the key's rectangles read is final, and their targets are free, until dt_moves_wait has
 * returned. Keys are started in the same order on all ranks. No call waits for another rank. */
dt_status dt_moves_start(dt_moves *m, int key) DT_MUST_CHECK;
/* Until the key's targets are written and its sources may change. Waits for the ranks that have a
 * part in it. */
dt_status dt_moves_wait(dt_moves *m, int key) DT_MUST_CHECK;

/* ---- Shards and the tree --------------------------------------------------------- */

/* Rank r of np owns shards [r * S / np, (r + 1) * S / np), rounded down. Local. */
void dt_shards_of(int shards, int world, int rank, int *first, int *end);

/* How many neighbours of `count` ranks, or teams, make a group of a tree in two levels, so that the
 * messages of both are few; a divisor, and `count` itself where these are few, or where it has no
 * other. Local. */
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
/* After the rank's last leaf: *result = the value of the group of the rank's first shard, borrowed
 * until the next leaf. A rank without shards has that of the one group of all, NULL where there are
 * several. Only partial values of groups that lie on several ranks are sent, and nothing if there
 * are none. Collective. */
dt_status dt_reduce_finish(dt_reduce *t, const void **result) DT_MUST_CHECK;
/* After dt_reduce_finish: the value of the group of `shard`, which is one of the rank's. Local. */
const void *dt_reduce_result(const dt_reduce *t, int shard);

/* ---- Numbers ----------------------------------------------------------------------- */

#define DT_NUMBER_LIST(X) X(int8) X(int32) X(int64) X(fp16) X(bf16) X(fp32) X(fp64)
enum { DT_OP_SUM, DT_OP_PROD, DT_OP_MIN, DT_OP_MAX, DT_OPS };
/* Integers wrap. A minimum or maximum with NaN is NaN; -0 < +0. */
typedef struct dt_number {
    const char *name;
    size_t bytes;
    int leaf;                  /* how a number is read where it lies: dt_leaf in fold.h */
    dt_fold_type wide[DT_OPS]; /* operations, on the type that they compute in */
    /* x[i] /= by, on that type; NULL: it has no mean */
    void (*divide)(void *x, size_t count, double by);
    /* To nearest, ties to even; NULL: it is the type that operations compute in. */
    void (*round)(void *to, const void *x, size_t count);
} dt_number;
enum {
#define X(name) DT_NUMBER_##name,
    DT_NUMBER_LIST(X)
#undef X
        DT_NUMBERS
};
extern const dt_number dt_numbers[DT_NUMBERS];

/* ---- Messages ---------------------------------------------------------------------- */

/* Messages that are under way together, of any length, never to this rank itself. Between two
 * ranks, messages of one lane (0, 1, ...) meet in the order in which they were posted. */
typedef struct dt_post dt_post;
/* DT_NOMEM. Local. */
dt_status dt_post_create(dt_post **p, dt_comm *c) DT_MUST_CHECK;
void dt_post_destroy(dt_post *p); /* nothing is under way. NULL does nothing. Local */
/* Begin to send to rank `other`, or to receive from it, which writes `at`; `at` is left alone until
 * dt_post_wait. 0 bytes: nothing. Local. */
dt_status dt_post_message(dt_post *p, int lane, bool sends, const void *at, size_t bytes,
                          int other) DT_MUST_CHECK;
/* All are over. DT_MISMATCH: one that came has another length. Local; waits for the others. */
dt_status dt_post_wait(dt_post *p) DT_MUST_CHECK;

/* ---- Sums of whole arrays ------------------------------------------------------------ */

/* What one rank has of a tree: the value of leaves [first, first + leaves), a subtree of it. One
 * leaf is numbers as they are; more are of the type that operations compute in. */
typedef struct dt_held {
    unsigned first, leaves;
    int rank;
    const void *at; /* [count] on that rank */
} dt_held;
typedef struct dt_allreduce_opts { /* all but at, mine and out (same) */
    const dt_number *number;
    int op;              /* DT_OP_SUM, ... */
    double divide;       /* the result by this; 0: not */
    const dt_held *held; /* [operands] all leaves, ascending; NULL: `mine` of each rank */
    int operands;
    const void *mine; /* [count] */
    size_t count;
    const size_t *counts; /* DT_TO_PARTS: [world] how many of the numbers each rank gets */
    enum { DT_TO_ALL, DT_TO_ROOT, DT_TO_PARTS } to;
    int root;
    void *out; /* the rank's numbers; may be `mine`, or at of its only operand, but for parts */
} dt_allreduce_opts;
/* The one way in which arrays are summed, in the order of docs/numerics.md, section 3. Buffers of a
 * few MiB are kept from call to call: none is taken for a call of a shape that was there before. */
typedef struct dt_allreduce dt_allreduce;
/* DT_NOMEM; *k is to be destroyed whatever the outcome. Local, like the next. */
dt_status dt_allreduce_create(dt_allreduce **k, dt_comm *c) DT_MUST_CHECK;
void dt_allreduce_destroy(dt_allreduce *k);
/* DT_NOMEM on one rank, which the others do not know of. Collective. */
dt_status dt_allreduce_run(dt_allreduce *k, const dt_allreduce_opts *o) DT_MUST_CHECK;
/* to = left op right, [count] each, of the type that operations compute in; leaves: left and
 * right are numbers as they are. `to` overlaps neither. Local. */
void dt_allreduce_pair(const dt_number *number, int op, void *to, const void *left,
                       const void *right, bool leaves, size_t count);

/* ---- Gradient exchange ----------------------------------------------------------- */

/* The exchanges, each in a file exchange_<name>.c; `auto` takes the first that does not decline.
 *   shared     exact, on one node: every rank reduces, updates and publishes its slice of one
 *              copy of the weights, in memory that the node's ranks share
 *   tree       exact: messages between nodes; inside a node like `shared` if memory can be shared
 *   gather, p2p, allreduce, buckets  the four methods of the CS744 tutorial; the first two are
 *              exact (a message per tensor), the last two inexact
 * Inexact sums are equal on all ranks, but have other bits for another number of ranks. */
#define DT_EXCHANGE_LIST(X) X(shared) X(tree) X(gather) X(p2p) X(allreduce) X(buckets)

/* What becomes of a leaf before it is summed:
 *   bf16   it is rounded to bf16
 *   2bit   it becomes -threshold, 0 or +threshold; what is left is added to the shard's next leaf.
 *          Whole numbers of thresholds are summed, so every exchange is exact. NaN and infinity
 *          become NaN */
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
     * the size is 1 MiB, if that is less (same). 0: the slab is one bucket. */
    size_t bucket_bytes;
    size_t outer_bytes;   /* of the first and the last bucket, in place of 1 MiB; 0: that (same) */
    const char *compress; /* a word of DT_COMPRESS_LIST; NULL: none (same) */
    double threshold;     /* of 2bit, above 0 as a float, and finite (same) */
    bool lockstep;        /* all leaves of a rank are written before the first is ready (same) */
    bool apart;           /* no rank works in another one's memory (same) */
    int threads;          /* that add up; 0: one */
} dt_exchange_opts;
typedef struct dt_exchange dt_exchange;

typedef struct dt_exchange_needs {
    /* The node's ranks hold one copy of master weights, momentum and packed weights in dt_node_mem,
     * and the memory given to dt_exchange_open is such a block, too (same). */
    bool shares;
    size_t slabs; /* of opts->floats each: for this rank, or for the whole node if it shares */
} dt_exchange_needs;
/* Choose an exchange: *needs = what it needs. Whatever the outcome, *x is to be closed.
 * DT_CONFIG: unknown name; DT_UNSUPPORTED: the named exchange declines;
 * both alike on all ranks. DT_NOMEM. Local. */
dt_status dt_exchange_create(dt_exchange **x, dt_comm *c, const dt_exchange_opts *opts,
                             dt_exchange_needs *needs) DT_MUST_CHECK;
/* Before the first leaf. DT_NOMEM. Agreed. Collective.
 *   memory  as needed: zeroed, 64-byte aligned; borrowed until close */
dt_status dt_exchange_open(dt_exchange *x, float *memory) DT_MUST_CHECK;
/* Waits for no other rank. Whether the memory may be given back: in the middle of a step messages
 * may be under way, which read and write it until the process ends. NULL: it may. */
bool dt_exchange_close(dt_exchange *x);
const char *dt_exchange_name(const dt_exchange *x); /* of the chosen one */
bool dt_exchange_exact(const dt_exchange *x);

/* The slab [floats] to which backward of the rank's next shard writes its gradient, in ascending
 * order of shards. With `lockstep` all of them are taken before the first dt_exchange_ready. Floats
 * between tensors are padding: they must remain zero. Local. */
float *dt_exchange_leaf(dt_exchange *x);
#define DT_LOOK_S 0.002 /* between two looks of kernels after messages */
/* The first `floats_done` floats of that slab (`lockstep`: of all slabs) are final. The call adds
 * complete buckets to the rank's partial sums, starts to send these if the shard is the rank's
 * last, and lets MPI progress; until finish, dt_poll on this thread does that, too, while messages
 * are under way. floats_done == floats ends the shard; more calls until the next leaf are harmless.
 * No call waits for another rank, but all ranks must call it in the same order. */
dt_status dt_exchange_ready(dt_exchange *x, size_t floats_done) DT_MUST_CHECK;
/* Wait until the sum over all shards is complete in the spans that this rank's optimizer updates:
 * all of the slab, or the rank's slices if the exchange shares. Afterwards no rank reads the
 * weights of this step any more. Collective.
 *   *sum    [floats], valid inside the spans until the next leaf
 *   *owned  [*spans], ascending, valid until close */
dt_status dt_exchange_finish(dt_exchange *x, const float **sum, const dt_span **owned,
                             size_t *spans) DT_MUST_CHECK;
/* Make what this rank wrote to memory that the node shares visible to the node's ranks, and wait
 * for what they wrote. Does nothing if nothing is shared. Collective. */
dt_status dt_exchange_publish(dt_exchange *x) DT_MUST_CHECK;

/* to [span.count] = floats of the sum, also those that other ranks of the node own. Call it after
 * finish and a publish, which makes all of them visible, and before another publish, after which
 * they may be written again. Local. */
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

/* exchange_row.h - how to add an exchange; private to src/dist and extra/exchanges.
 *
 * Write one file exchange_<name>.c that defines dt_exchange_row_<name>, and add its name to
 * DT_EXCHANGE_LIST (dist.h), and the row to those in extra/exchanges/extra.c. exchange.c folds the
 * rank's own shards, bucket by bucket: when it calls `start`, the rank's partial sums of the bucket
 * are complete, and the row only combines those of different ranks. */
#ifndef DT_EXCHANGE_ROW_H
#define DT_EXCHANGE_ROW_H
#include "comm.h"
#include "fold.h"

typedef struct dt_exchange_row {
    const char *name;
    bool exact; /* it adds in the order of the tree */
    /* Where the ranks of a node work in one another's memory: never; on one node, and it declines
     * where there are more; on several nodes that have the same number of ranks. */
    enum { DT_SHARES_NEVER, DT_SHARES_NODE, DT_SHARES_NODES } shares;
    /* The sum is made in memory beside the slots, which takes `floats` more. Not with `shares`
     * or `extra`. */
    bool beside;
    /* Floats that the row's buffers on that rank take, besides the slots. Optional. */
    size_t (*extra)(const dt_exchange *x, int rank);
    dt_status (*open)(dt_exchange *x); /* takes memory and does not communicate. Optional */
    /* The partial sums of bucket b are final. It must not wait. Optional. */
    dt_status (*start)(dt_exchange *x, size_t b);
    /* Whether the sum of bucket b, whose partial sums are final in the whole team, is complete in
     * x->owned. It is called again and again, for all buckets in turn, and must not wait. Optional:
     * a started bucket is complete. */
    dt_status (*advance)(dt_exchange *x, size_t b, bool *done);
    /* For each tensor in turn, after all buckets are complete; it may wait. Optional. */
    dt_status (*tensor)(dt_exchange *x, dt_span tensor);
    /* Releases what the state holds. Messages may still be under way; a collective among them
     * cannot be cancelled. Optional. */
    void (*close)(dt_exchange *x);
} dt_exchange_row;

extern const dt_exchange_row dt_exchange_row_shared, dt_exchange_row_tree;
/* Up to NULL: these, which are the core's, and then what extra/exchanges sets. */
#define DT_EXCHANGE_COUNT(name) +1
enum { DT_EXCHANGES_CORE = 2, DT_EXCHANGES = 0 DT_EXCHANGE_LIST(DT_EXCHANGE_COUNT) };
extern const dt_exchange_row *dt_exchange_rows[DT_EXCHANGES + 1];

/* A rank's progress since open, which the ranks of its team read: in shared memory, a cache line
 * each. */
typedef enum dt_exchange_mark {
    DT_FOLDED,    /* buckets with final partial sums */
    DT_FINISHED,  /* calls of finish */
    DT_PUBLISHED, /* calls of publish */
    DT_MARKS
} dt_exchange_mark;
typedef struct dt_exchange_line {
    _Alignas(64) _Atomic uint64_t count[DT_MARKS];
} dt_exchange_line;

struct dt_exchange {
    const dt_exchange_row *named; /* the chosen one */
    const dt_exchange_row *row;   /* the same; in a world of one `shared`, which needs no MPI */
    dt_comm *comm;                /* borrowed */
    MPI_Comm mpi; /* a duplicate, so that messages of two exchanges never meet; owned */
    void *state;  /* the row's own; freed after its close */
    size_t floats;
    dt_span *tensor; /* [tensors], owned */
    dt_span *bucket; /* [buckets], owned */
    size_t tensors, buckets;
    int64_t *final_ns;  /* [buckets] when each was, in the last step; owned */
    int64_t drained_ns; /* when the last step began to wait for all */
    int shards;
    const dt_compress *compress;
    float threshold;
    bool lockstep, apart;

    /* A team is the ranks that work in one another's memory: those of a node if the exchange
     * shares (all nodes then have the same number of ranks), else one rank. */
    bool shares;
    int teams, team_ranks;  /* in all; ranks in each */
    int team_first;         /* the first rank of this rank's */
    dt_slab lines;          /* owned; empty, and `line` NULL, if nothing is shared */
    dt_exchange_line *line; /* [team_ranks] inside it */
    float **base;           /* [team_ranks] the slots of each; owned */
    uint64_t step;          /* steps finished */
    uint64_t published;     /* calls of publish: a step may have several */
    dt_fold outer;          /* over the partial sums of all teams */
    int group_teams;        /* neighbours among the teams; all of them: there is one level */
    dt_fold within, across; /* over the partial sums of the group's teams; of all groups */
    dt_fold inner;          /* makes the team's partial sums of those of its ranks */

    dt_fold fold;         /* over the partial sums of all ranks */
    int partials;         /* partial sums of this rank, in its first slots */
    int slots;            /* slabs in which they are folded */
    float *memory;        /* [slots][floats], residuals, then the row's extra; borrowed */
    float *residual;      /* [own shards][floats] what compression left; NULL: it leaves nothing */
    float *extra;         /* [row->extra()] inside memory */
    float *sum;           /* [floats] inside memory: slot 0, or what a row has beside it */
    dt_operand *operand;  /* [shards + 1] for calls of dt_fold_run, like the next two; owned */
    void **result;        /* [shards + 1], owned */
    MPI_Request *request; /* for buckets, or for a tensor's partial sums, or for ranks; owned */
    float *scratch;       /* for each thread, deep enough for any of the folds; owned */
    int threads;
    dt_span *owned; /* [spans], owned; what this rank's optimizer updates */
    size_t spans;

    int first, end, next; /* own shards; the next leaf */
    bool writing;         /* leaves were handed out and are not yet folded */
    dt_counter counter;
    int leaf, merges;       /* slot of the current leaf, and the additions that it completes */
    dt_fold leaves;         /* lockstep: makes partial sums of the rank's leaves */
    size_t folded;          /* buckets of the current leaf that are folded */
    size_t oldest, started; /* buckets [oldest, started) are under way */
    int64_t oldest_began;   /* since when the oldest is */
    dt_status looked;       /* of looks inside kernels; it is returned by the next call */
    dt_exchange_stats stats;
};

static inline float *dt_exchange_slot(const dt_exchange *x, int slot)
{
    return x->memory + (size_t)slot * x->floats;
}

/* x->operand = the partial sums of the team's ranks, which are f's operands, from float `at` on. */
void dt_exchange_team_operands(dt_exchange *x, const dt_fold *f, size_t at);
/* The rank's slice of a bucket: 1/team_ranks of it, cut at multiples of 16 floats. It owns these
 * slices if the exchange shares, else the whole slab. */
dt_span dt_exchange_own_slice(const dt_exchange *x, size_t bucket);

/* dt_comm_message on x->mpi, with statistics.
 *   form  of the numbers in data */
dt_status dt_exchange_message(dt_exchange *x, bool sends, const void *data, size_t count,
                              const dt_form *form, int other, int tag,
                              MPI_Request *r) DT_MUST_CHECK;
/* Add messages of `bytes` bytes each to the statistics. */
void dt_exchange_count(dt_exchange *x, size_t bytes, int sent, int received);
#endif

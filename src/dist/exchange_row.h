/* exchange_row.h - how to be an exchange; private to src/dist.
 *
 * Write one file exchange_<name>.c that defines dt_exchange_row_<name> and add one row
 * to DT_EXCHANGE_LIST (dist.h). exchange_fold.c folds the rank's own shards, bucket by
 * bucket, so that before `start` the rank's partial sums are complete; a row only brings
 * the ranks together. It is never asked in a world of one. */
#ifndef DT_EXCHANGE_ROW_H
#define DT_EXCHANGE_ROW_H
#include "comm.h"
#include "fold.h"

#include <stdatomic.h>

typedef struct dt_exchange_row {
    const char *name;
    bool exact; /* sums in the order of the tree */
    /* Whether a node's ranks would work in one another's memory, if there is room; all nodes
     * have as many ranks then. Optional: no. */
    bool (*shares)(const dt_exchange *x);
    bool only_shared; /* declines where they cannot */
    /* Floats that the row's buffers take beside the slots, on that rank. Optional. */
    size_t (*extra)(const dt_exchange *x, int rank);
    dt_status (*open)(dt_exchange *x); /* take memory; no communication. Optional */
    /* The partial sums of bucket b are final. Must not wait. Optional. */
    dt_status (*start)(dt_exchange *x, size_t b);
    /* Whether the sum of bucket b, which has been started, is complete in x->owned; asked again
     * until it is, all buckets in turn. Must not wait. Optional: started is complete. */
    dt_status (*advance)(dt_exchange *x, size_t b, bool *done);
    dt_status (*finish)(dt_exchange *x); /* what is left when all are done; may wait. Optional */
    /* Release what the state holds, also with messages under way (a collective among them
     * cannot be taken back). Optional. */
    void (*close)(dt_exchange *x);
} dt_exchange_row;

#define X(name) extern const dt_exchange_row dt_exchange_row_##name;
DT_EXCHANGE_LIST(X)
#undef X

/* One rank's progress since open, which its team's ranks watch; in memory they share, a
 * cache line each. */
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
    const dt_exchange_row *row;
    dt_comm *comm; /* borrowed */
    MPI_Comm mpi;  /* own duplicate: messages of two exchanges never meet */
    void *state;   /* the row's own; freed behind its close */
    size_t floats;
    dt_span *tensor; /* [tensors], owned */
    dt_span *bucket; /* [buckets], owned */
    size_t tensors, buckets;
    int shards;
    bool bf16, lockstep;

    /* A team: ranks that work in one another's memory; a node's if the exchange shares, which
     * wants as many ranks on all nodes, else one rank. */
    bool shares;
    int teams, team_ranks;  /* of all ranks; in each */
    int team, team_first;   /* mine, and its first rank */
    dt_node_mem *lines;     /* owned; NULL where nothing is shared, as is: */
    dt_exchange_line *line; /* [team_ranks] inside it */
    float **base;           /* [team_ranks] slots of each; owned */
    uint64_t step;          /* steps finished */
    uint64_t published;     /* calls of publish: a step may have several */
    dt_fold outer;          /* over the partial sums of all teams */
    dt_fold inner;          /* what makes the team's of those of its ranks */

    dt_fold fold;        /* over the partial sums of all ranks */
    int partials;        /* partial sums of this rank */
    int slots;           /* slabs for folding them */
    float *memory;       /* [slots][floats], then the row's extra; borrowed */
    float *extra;        /* [row->extra()] inside memory */
    float *sum;          /* [floats] inside memory; slot 0 unless the row says otherwise */
    dt_operand *operand; /* [shards + 1]: for calls of dt_fold_run, as are; owned */
    void **result;       /* [shards + 1], owned */
    float *scratch;      /* deep enough for all folds, owned */
    dt_span *owned;      /* [spans], owned; what this rank's optimizer updates */
    size_t spans;

    int first, end, next; /* own shards; the next to be asked for */
    bool writing;         /* leaves were handed out and are not yet folded */
    dt_counter counter;
    int leaf, merges;       /* the running leaf's slot and the additions that it closes */
    dt_fold leaves;         /* lockstep: what makes partial sums of the rank's leaves */
    size_t folded;          /* buckets of the running leaf that are folded */
    size_t oldest, started; /* buckets [oldest, started) are under way */
    dt_exchange_stats stats;
};

static inline float *dt_exchange_slot(const dt_exchange *x, int slot)
{
    return x->memory + (size_t)slot * x->floats;
}

/* Partial sums of rank r. */
static inline int dt_exchange_partials(const dt_exchange *x, int r)
{
    return x->fold.start[r + 1] - x->fold.start[r];
}

/* Slots of rank r; its partial sums lie in the first of them. */
int dt_exchange_slots_of(const dt_exchange *x, int r);
/* A partial sum of rank r of the team. [floats] */
static inline float *dt_exchange_team_partial(const dt_exchange *x, int r, int part)
{
    return x->base[r] + (size_t)part * x->floats;
}

/* Fold a span of all own partial sums into slot 0, left to right: what the inexact rows
 * send. */
void dt_exchange_fold_partials(dt_exchange *x, dt_span span);

/* The teams, x->outer and x->inner. */
dt_status dt_exchange_form_teams(dt_exchange *x, bool shares) DT_MUST_CHECK;
/* x->operand: the partial sums of the team's ranks, which are f's operands, from float `at` */
void dt_exchange_team_operands(dt_exchange *x, const dt_fold *f, size_t at);
/* Floats of the block that is planned for. */
size_t dt_exchange_block(const dt_exchange *x);
/* Find all parts of the block. */
dt_status dt_exchange_bind(dt_exchange *x, float *memory) DT_MUST_CHECK;
/* Collective. */
dt_status dt_exchange_open_lines(dt_exchange *x) DT_MUST_CHECK;
/* The rank's slice of a bucket: 1/team_ranks of it, cut at multiples of 16 floats. It owns these
 * slices if the exchange shares, else the whole slab. */
dt_span dt_exchange_own_slice(const dt_exchange *x, size_t bucket);

/* Of the rows around rank 0, which receives the others' partial sums of one tensor in the order
 * of the fold's operands: floats of x->extra, and the sum of its own and those into x->sum. */
size_t dt_exchange_star_extra(const dt_exchange *x, int rank);
void dt_exchange_star_sum(dt_exchange *x, dt_span tensor);

/* Say how far this rank is; ask whether all of the team are as far. What they wrote
 * before they said so is then visible. */
void dt_exchange_tell(dt_exchange *x, dt_exchange_mark which, uint64_t count);
bool dt_exchange_all(const dt_exchange *x, dt_exchange_mark which, uint64_t count);
/* Advance all buckets that are under way. */
dt_status dt_exchange_poll(dt_exchange *x) DT_MUST_CHECK;

/* MPI_Isend and MPI_Irecv on x->mpi, counted; of nothing, nothing is sent. type: MPI_FLOAT or
 * MPI_UINT16_T */
dt_status dt_exchange_send(dt_exchange *x, const void *data, size_t count, MPI_Datatype type,
                           int to, int tag, MPI_Request *r) DT_MUST_CHECK;
dt_status dt_exchange_receive(dt_exchange *x, void *data, size_t count, MPI_Datatype type, int from,
                              int tag, MPI_Request *r) DT_MUST_CHECK;
/* Of messages that nothing waits for any more, after a failure. */
void dt_exchange_cancel(MPI_Request *r, size_t count);
/* Messages of `bytes` bytes each, for the statistics. */
void dt_exchange_count(dt_exchange *x, size_t bytes, int sent, int received);
/* MPI does not tell what its allreduce moves; counted is what a ring moves, the least
 * that one message per rank and step can do: 2 (world - 1) / world of the span each
 * way. */
void dt_exchange_count_allreduce(dt_exchange *x, size_t floats);
#endif

/* lib.h - shared by the files of extra/lib: groups, how a call begins and ends; types of numbers,
 * messages and sums of whole arrays; private to it.
 *
 * A public function begins with dtd_enter, goes on with dtd_compare if it is collective, tries by
 * DTD_TRY, and ends with dtd_leave. */
#ifndef DTD_LIB_H
#define DTD_LIB_H
#include "dist.h"
#include "dist/dist.h"
#include "dist/fold.h"

/* ---- Numbers ----------------------------------------------------------------------- */

enum { DTD_OPS = DTD_MAX + 1 };
typedef struct dt_number {
    const char *name;
    size_t bytes;
    /* By which numbers are made, to nearest, ties to even, and are read where they lie. NULL: it is
     * the type that operations compute in. */
    const dt_form *form;
    dt_fold_type wide[DTD_OPS]; /* by dtd_op, on the type that it computes in; a mean: the sum */
    /* x[i] /= by, on that type; NULL: it has no mean */
    void (*divide)(void *x, size_t count, double by);
} dt_number;
enum { DTD_TYPES = DTD_F64 + 1 };
extern const dt_number dt_numbers[DTD_TYPES]; /* by dtd_type */

/* ---- Messages ---------------------------------------------------------------------- */

/* Messages that are under way together, of any length, never to this rank itself. Between two
 * ranks, messages of one lane meet in the order in which they were posted, others never. */
enum { DTD_LANE_USER, DTD_LANE_SCATTER, DTD_LANE_GATHER, DTD_LANE_PARTS, DTD_LANE_GROUP };
typedef struct dt_post { /* with comm alone set: no messages */
    dt_comm *comm;             /* borrowed */
    struct dt_posted *message; /* [room], owned; freed by free() when nothing is under way */
    int count, room;
} dt_post;
/* Begin to send to rank `other`, or to receive from it, which writes `at`; `at` is left alone until
 * dt_post_wait. 0 bytes: nothing. Local. */
dt_status dt_post_message(dt_post *p, int lane, bool sends, const void *at, size_t bytes,
                          int other) DT_MUST_CHECK;
/* All are over. DT_MISMATCH: one that came has another length. Local; waits for the others. */
dt_status dt_post_wait(dt_post *p) DT_MUST_CHECK;

/* ---- Sums of whole arrays ------------------------------------------------------------ */

/* A rank's part of a tree: the value of leaves [first, first + leaves), a subtree of it. One
 * leaf is numbers as they are; more are of the type that operations compute in. */
typedef struct dt_held {
    unsigned first, leaves;
    int rank;
    const void *at; /* [count] on that rank */
} dt_held;
typedef struct dt_allreduce_opts { /* all but at, mine and out (same) */
    const dt_number *number;
    dtd_op op;
    double divide;       /* the result by this; 0: not */
    const dt_held *held; /* [operands] all leaves, ascending; NULL: `mine` of each rank */
    int operands;
    const void *mine; /* [count] */
    size_t count;
    const size_t *counts; /* DT_TO_PARTS: [world] how many of the numbers each rank gets */
    enum { DT_TO_ALL, DT_TO_ROOT, DT_TO_PARTS } to;
    int root;
    void *out; /* the rank's numbers; may be `mine`, or at of its only operand, without parts */
} dt_allreduce_opts;
/* The one way in which arrays are summed, in the order of docs/numerics.md, section 3. Buffers of a
 * few MiB are kept from call to call: none is taken for a call of a shape that was there before. */
enum { DT_ALLREDUCE_AHEAD = 3 }; /* pieces under way */
typedef struct dt_allreduce {    /* with comm alone set: no buffers */
    dt_comm *comm;               /* borrowed */
    dt_post scatter[DT_ALLREDUCE_AHEAD], gather[DT_ALLREDUCE_AHEAD];
    char *memory; /* grows as it must; owned */
    size_t bytes; /* of it */

    /* The call under way. */
    dt_allreduce_opts o;
    dt_fold fold;
    bool few;
    size_t most, pieces; /* numbers of a piece; pieces of the largest part */
    size_t room;         /* bytes of a piece's buffer; those of some pieces begin the memory */
    char *scratch;       /* for dt_fold_run, and a block of results; in the memory, like the next */
    dt_operand *operand; /* [o.operands] */
} dt_allreduce;
void dt_allreduce_release(dt_allreduce *k); /* Local */
/* DT_NOMEM on one rank, which the others do not know of. Collective. */
dt_status dt_allreduce_run(dt_allreduce *k, const dt_allreduce_opts *o) DT_MUST_CHECK;
/* to = left op right, [count] each, of the type that operations compute in; leaves: left and
 * right are numbers as they are. `to` overlaps neither. Local. */
void dt_allreduce_pair(const dt_number *number, dtd_op op, void *to, const void *left,
                       const void *right, bool leaves, size_t count);

/* ---- Calls ------------------------------------------------------------------------- */

struct dtd_group {
    dt_comm *comm; /* owned */
    char name[128];
    int64_t made;         /* sums and ddps, counted: their numbers are equal on all ranks */
    dt_allreduce combine; /* it keeps its buffers from call to call, as the next does */
    dt_post post;
};

/* The calls, as the watch and messages name them. */
#define DTD_CALL_LIST(X)                                                                           \
    X(init)                                                                                        \
    X(finalize)                                                                                    \
    X(group_new)                                                                                   \
    X(barrier)                                                                                     \
    X(broadcast)                                                                                   \
    X(all_reduce) X(reduce) X(reduce_scatter) X(all_gather) X(gather) X(scatter) X(isend) X(irecv) \
        X(wait) X(sum_new) X(sum_leaf) X(sum_finish) X(ddp_new) X(ddp_hook) X(ddp_ready)           \
            X(ddp_unused) X(ddp_wait) X(optimizer_new) X(optimizer_step)
typedef enum dtd_call {
#define X(name) DTD_IN_##name,
    DTD_CALL_LIST(X)
#undef X
        DTD_CALLS
} dtd_call;
extern const char *const dtd_call_name[DTD_CALLS]; /* "dtd_barrier" */

/* The rank is in this call from now on. *g = all ranks, if it is NULL; g NULL: it takes no group.
 * DT_USAGE: before dtd_init. Local. */
dt_status dtd_enter(dtd_call call, dtd_group **g) DT_MUST_CHECK;
/* Its first half, of dtd_init. Local. */
void dtd_call_begin(dtd_call call);
/* The call is over: its code; the rank is in the program again. Local. */
int dtd_leave(dt_status st);

/* In a function that returns a code: a failure ends the call. */
#define DTD_TRY(call)                                                                              \
    do {                                                                                           \
        const dt_status try_ = (call);                                                             \
        if (try_ != DT_OK)                                                                         \
            return dtd_leave(try_);                                                                \
    } while (0)

/* What ranks compare: a call's arguments that must be equal. All of it is borrowed. */
typedef struct dtd_arg {
    const char *name;
    int64_t value;
    const char *text; /* shown, and compared, in its place; NULL: none */
} dtd_arg;
typedef struct dtd_args {
    const dtd_arg *arg; /* [args] */
    size_t args;
    const dtd_tensor *list; /* [tensors] */
    size_t tensors;
    const size_t *counts; /* [the group's ranks], or NULL */
} dtd_args;
/* Make this rank's outcome so far common, after a comparison of calls and arguments: whatever the
 * ranks do differ in, no data has moved yet. One small message, and no rank leaves it before all
 * have come. DT_MISMATCH names the first difference. Collective over g. */
dt_status dtd_compare(dtd_group *g, dt_status local, const dtd_args *a) DT_MUST_CHECK;

enum { DTD_MOST_LEAVES = INT_MAX / 2 }; /* two numbers of each are one sum of MPI's */
/* Checks of arguments. DT_USAGE. Local. */
dt_status dtd_check_type(dtd_type type) DT_MUST_CHECK;
dt_status dtd_check_rank(const dtd_group *g, const char *what, int rank) DT_MUST_CHECK;
dt_status dtd_check_data(const void *data, size_t count, const char *what) DT_MUST_CHECK;
/* *total = the sum of all ranks' counts. */
dt_status dtd_check_counts(const size_t *counts, const dtd_group *g, size_t *total) DT_MUST_CHECK;
dt_status dtd_check_list(const dtd_tensor *list, size_t count, bool data) DT_MUST_CHECK;
const char *dtd_type_name(dtd_type type); /* "fp32" */
#endif

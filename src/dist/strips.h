/* strips.h - the tree's buckets, cut for teams of any size: what its messages and
 * its memory agree on; private to src/dist. */
#ifndef DT_STRIPS_H
#define DT_STRIPS_H
#include "exchange_row.h"
#include "spans.h"

/* Floats of one bucket that have one owner in every team. */
typedef struct tree_strip {
    dt_span span;
    const int *owner; /* [teams] ranks */
    float *received;  /* my team's piece of all other teams' partial sums; tree_operand */
} tree_strip;

typedef struct tree_bucket {
    const tree_strip *strip;      /* [strips] */
    size_t strips;                /* of my slice; 0 where it is empty */
    MPI_Request *in, *out, *back; /* partial sums; sums to others, then to me */
    int ins, outs, backs;
    bool folded; /* the team's partial sums of my slice are complete and on their way */
    bool summed; /* so are my pieces' sums */
    bool sent;   /* others have the partial sums: their place may take sums */
    bool done;
} tree_bucket;

typedef struct tree_state {
    tree_bucket *bucket; /* [buckets] */
    tree_strip *strip;   /* of all buckets */
    int *owner;          /* [strips][teams] */
    float **part;        /* [inner.roots] where the team's partial sums lie. [floats] */
    float **result;      /* [inner.roots] for dt_fold_f32 */
    size_t *place;       /* [outer.operands] in `received`, in halves of a piece */
    dt_operand *operand; /* [inner.operands] or [outer.operands], the longer one */
    MPI_Request *request;
    size_t requests;
    size_t oldest, started; /* buckets [oldest, started) are under way */
} tree_state;

/* The team's piece of a strip, which that team sums. */
static inline dt_span tree_piece(const dt_exchange *x, dt_span strip, int team)
{
    return dt_spans_slice(strip, team, dt_exchange_teams(x));
}

/* A leaf travels as bf16 if it was rounded to it. */
static inline bool tree_half(const dt_exchange *x, int operand)
{
    return x->bf16 && x->outer.part[operand].leaves == 1;
}

/* Received operands begin at multiples of 16 floats: a half takes one such unit of a
 * piece, a float two. */
static inline size_t tree_unit(dt_span piece)
{
    return dt_align(piece.count, 32) / 2;
}

/* Floats of what a rank receives. */
size_t dt_strips_extra(const dt_exchange *x, int rank);
/* x->state: strips, places and requests of all buckets. */
dt_status dt_strips_open(dt_exchange *x) DT_MUST_CHECK;
/* Also with messages under way, for which nothing waits any more. */
void dt_strips_close(dt_exchange *x);
#endif

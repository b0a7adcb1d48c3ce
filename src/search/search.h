/* search.h - which layers several ranks compute together; the public header of src/search.
 *
 * Given what everything costs, the strategy whose step takes least time. Pure arithmetic: no clock,
 * no ranks, no model. Where values lie and which moves a cut causes is as src/model/plan_cut.c has
 * it. Everything is Local. */
#ifndef DT_SEARCH_H
#define DT_SEARCH_H
#include "base/base.h"

enum { DT_SEARCH_NODES = 320 };
typedef enum dt_search_kind {
    DT_SEARCH_FOLLOWS, /* as its first input lies: batch norm, pooling, addition */
    DT_SEARCH_HOME,    /* never cut: the images, the loss */
    DT_SEARCH_FREE,    /* a convolution or linear layer, */
    DT_SEARCH_WHOLE,   /* one that is not to be cut, */
    DT_SEARCH_CUT      /* or that is to be */
} dt_search_kind;

/* An operation; all inputs stand before it. Bytes and seconds are those of one shard. */
typedef struct dt_search_node {
    dt_search_kind kind;
    int in[2];            /* nodes whose values it reads, -1: none */
    int readers;          /* of its value */
    bool flat;            /* a linear layer over pixels: its own features are no channels */
    double bytes[2];      /* of what it makes, and of its gradient; of the images' 0 */
    double floats;        /* of its parameters */
    double seconds[2][2]; /* [whole, cut][forward, backward] */
} dt_search_node;

static inline bool dt_search_layer(const dt_search_node *n)
{
    return n->kind >= DT_SEARCH_FREE;
}

/* What one size of group costs. A group's messages take `latency` each, and `per_byte` for each
 * byte that a rank sends. */
typedef struct dt_search_costs {
    const dt_search_node *node;
    int nodes;
    int parts;                     /* ranks of a group; 1: nothing can be cut */
    int homes, shards;             /* at most, of a rank and of a group */
    int waves;                     /* of a rank; gradients are sent in the last one */
    double latency, per_byte;      /* seconds */
    double exchange[2], update[2]; /* seconds for a float: of all ranks' parameters, own pieces */
    double hides;                  /* of computing, the part behind which messages are under way */
} dt_search_costs;

typedef struct dt_search_time {
    double seconds;                                /* of a step: the sum of the next */
    double compute, moves, exchange, turn, update; /* of messages, what computing does not hide */
    double sent;                                   /* bytes of moves that a rank sends */
} dt_search_time;

/* What a step takes if the layers of cut [nodes] are cut; other nodes' are not read. */
dt_search_time dt_search_time_of(const dt_search_costs *c, const bool *cut);
/* cut [nodes] = the strategy of least time, what it takes is returned. From nothing cut and from
 * all cut, some of a few neighbouring layers change sides as long as that is sooner. */
dt_search_time dt_search_best(const dt_search_costs *c, bool *cut);

#endif

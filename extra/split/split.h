/* split.h - layers that several ranks compute together (tensor parallel), and which layers these
 * are to be; the public header of extra/split. The model has its part in dt_plan_split, the run in
 * dt_run_split. All is Local unless marked Collective. */
#ifndef DT_SPLIT_H
#define DT_SPLIT_H
#include "model/plan.h"
#include "train/run.h"

void dt_extra_split(void);
extern const struct dt_plan_split dt_plan_cuts;    /* plan_cut.c */
dt_status dt_auto_choose(dt_run *r) DT_MUST_CHECK; /* dt_run_split.choose */

/* MindSpore's parallel modes and shorter words for them, which --strategy and its files take. */
#define DT_MODES_WHOLE " standalone stand_alone data data_parallel"
#define DT_MODES_CUT " hybrid hybrid_parallel semi_auto semi_auto_parallel"
#define DT_MODES_SEARCH " auto auto_parallel"
#define DT_MODES DT_MODES_WHOLE DT_MODES_CUT DT_MODES_SEARCH
dt_status dt_mode_take(dt_options *o, int world) DT_MUST_CHECK; /* dt_options_mode */

/* ---- Which layers: strategies ---------------------------------------------------------- */

/* Which of the net's operations (net->own->node) a strategy cuts, and which follow a cut layer.
 *   strategy  as in dt_model_opts
 *   cut       [net->ops]
 *   returns   DT_CONFIG: it cannot be read, or names an operation that the network has not */
dt_status dt_strategy_cuts(const dt_net *net, const char *strategy, bool *cut) DT_MUST_CHECK;
/* Which convolutions and linear layers a pattern names: fits[net->ops]. DT_CONFIG: none. */
dt_status dt_strategy_find(const dt_net *net, const char *pattern, bool *fits) DT_MUST_CHECK;
/* The file that --strategy @FILE names, in YAML, or in MindSpore's JSON: o->strategy becomes its
 * line of words, which is kept in `line`, and other options that it names are set. DT_CONFIG names
 * line and column, also of an option that contradicts a given one. */
dt_status dt_strategy_read(dt_options *o, char line[DT_OPTION_CHARS]) DT_MUST_CHECK;
/* The same of a text that is in memory; path: what messages call it. */
dt_status dt_strategy_parse(dt_options *o, const char *path, const char *text, size_t length,
                            char line[DT_OPTION_CHARS]) DT_MUST_CHECK;

/* A linear layer over more than one pixel. */
static inline bool dt_split_flat(const dt_node *n, const dt_shape *in)
{
    return n->op == &dt_op_linear && in->h * in->w > 1;
}

/* ---- Whose channels, and where they go ----------------------------------------------------- */

typedef struct dt_move {
    dt_layout from, to;
    int64_t rows, channels; /* of the whole value */
    size_t each;            /* bytes of a number */
    const void *source;     /* this context's, in the layout `from`; NULL: has none of it */
    void *target;           /* in the layout `to`; NULL: needs none, or has it where it lies */
} dt_move;
/* The move that step i makes in that direction; source and target are not set. */
dt_move dt_plan_move(const dt_plan *p, int i, dt_way way);

/* Bytes that a rank of a run on `world` ranks sends in a step where layers are cut. The plan may be
 * any part's. dt_options_check has resolved the options. */
typedef struct dt_traffic {
    uint64_t values;  /* bytes: activations, their gradients and moments */
    uint64_t weights; /* bytes of own pieces that other ranks copy by input */
    /* Bytes of gradients, if each rank is a node, and each gradient goes to the rank that sums it
     * up and back; and if nothing were cut. */
    double gradients, gradients_uncut;
    double spared; /* bytes of weights and momentum that the rank has not, less its copy by input */
    size_t cut;    /* weights of layers that are cut */
} dt_traffic;
dt_traffic dt_traffic_of(const dt_plan *plan, const dt_options *o, int world, int rank);
/* The values of step i alone. */
uint64_t dt_traffic_row(const dt_plan *plan, int i, const dt_options *o, int world, int rank);
/* Step i as a plan describes it: */
typedef struct dt_split_row {
    char layout[2][20]; /* "cut"; of a move "home -> whole"; then the same of gradients */
    /* Cutting a layer saves bytes up to so many images of a group; above, its moves take more
     * than the gradient that is not sent. */
    double pays_below;
} dt_split_row;
dt_split_row dt_split_row_get(const dt_plan *p, int i);

/* ---- Which strategy takes least time ----------------------------------------------------- */

/* Given what everything costs: pure arithmetic. Where values lie and which moves a cut causes is as
 * plan_cut.c has it. */
enum { DT_SEARCH_NODES = DT_MAX_NODES + 1 };
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
    double bytes[2];      /* of its value, and of the value's gradient (images: 0) */
    double floats;        /* of its parameters */
    double seconds[2][2]; /* [whole, cut][forward, backward] */
} dt_search_node;

static inline bool dt_search_layer(const dt_search_node *n)
{
    return n->kind >= DT_SEARCH_FREE;
}

/* Costs of one group size. A group's messages take `latency` each, and `per_byte` for each
 * byte that a rank sends. */
typedef struct dt_search_costs {
    dt_search_node node[DT_SEARCH_NODES];
    int nodes;
    int parts;                     /* ranks of a group; 1: nothing can be cut */
    int homes, shards;             /* the most shards of a rank, of a group */
    int waves;                     /* of a rank; gradients are sent in the last one */
    double latency, per_byte;      /* seconds */
    double exchange[2], update[2]; /* seconds per float: [0] whole parameters, [1] own pieces */
    double hides;                  /* the part of computing during which messages move */
    double bytes;                  /* of memory that a rank takes, about */
} dt_search_costs;

typedef struct dt_search_time {
    double seconds;                                /* of a step: the sum of the next */
    double compute, moves, exchange, turn, update; /* of messages, what computing does not hide */
    double sent;                                   /* bytes of moves that a rank sends */
} dt_search_time;

/* The time of a step if layers with cut[i] are cut; cut [nodes], read for layers only. */
dt_search_time dt_search_time_of(const dt_search_costs *c, const bool *cut);
/* Set cut [nodes] to the quickest strategy found, and return its time. Beginning with nothing cut,
 * then with all cut, any of six neighbouring layers are flipped as long as a step gets quicker. */
dt_search_time dt_search_best(const dt_search_costs *c, bool *cut);

/* The nodes of c become the images, the network's operations and the loss, without seconds, for a
 * shard of so many images. Local. */
void dt_costs_graph(dt_search_costs *c, const dt_net *net, double images, dt_dtype type);
/* Measure a step of this rank where groups of `parts` ranks cut layers. Call it for 1 part first,
 * which makes the graph, then with the same c for more. r has its options, network and data, and
 * nothing else. The first rank of a node must measure, others may. Agreed. Collective. */
dt_status dt_costs_measure(dt_run *r, int parts, dt_search_costs *c) DT_MUST_CHECK;

/* ---- Moves ------------------------------------------------------------------------------- */

/* Copies of rectangles between ranks, which are listed once and started again and again. No number
 * is computed. A rectangle is `rows` rows of `bytes` bytes, strides apart (in bytes); all those of
 * a key that go from one rank to another are one message. */
typedef struct dt_rect {
    int key, from, to;  /* ranks */
    const void *source; /* read by rank `from` alone */
    void *target;       /* and by `to`: other ranks may give NULL */
    size_t rows, bytes, from_stride, to_stride;
} dt_rect;
typedef struct dt_moves dt_moves;
/* Keys are [0, keys) (same). DT_NOMEM; *m is to be destroyed whatever the outcome. Local. */
dt_status dt_moves_create(dt_moves **m, dt_comm *c, int keys) DT_MUST_CHECK;
/* Every rank adds the same rectangles, in the same order; only its own addresses count, and
 * rectangles in which it has no part may be left out. Targets of a key overlap neither each other
 * nor its sources. DT_NOMEM. Local. */
dt_status dt_moves_add(dt_moves *m, const dt_rect *r) DT_MUST_CHECK;
/* After the last one. DT_NOMEM, DT_UNSUPPORTED: more than MPI can count. Agreed. Collective. */
dt_status dt_moves_seal(dt_moves *m) DT_MUST_CHECK;
void dt_moves_destroy(dt_moves *m); /* NULL: nothing. Collective */
/* Start the key's copies. Until dt_moves_wait has returned, the caller must not change their
 * sources or touch their targets. All ranks start keys in the same order. Waits for no rank. */
dt_status dt_moves_start(dt_moves *m, int key) DT_MUST_CHECK;
/* Wait until the key's targets are written and its sources may change: for the ranks that have a
 * part in it. */
dt_status dt_moves_wait(dt_moves *m, int key) DT_MUST_CHECK;
#endif

/* plan.h - the compiled network and the memory it asks for; private to src/model and to extras. */
#ifndef DT_PLAN_H
#define DT_PLAN_H
#include "net.h"

enum { DT_MAX_PACKS = 1024 };
typedef struct dt_pack {
    int param;         /* index in the net */
    dt_slab_kind kind; /* the slab that it is made of */
    char layout[96];
    size_t bytes, offset; /* among those of its kind */
    dt_pack_func pack;
    const void *context; /* borrowed from the plan that came first */
} dt_pack;

struct dt_model {
    const dt_net *net; /* borrowed */
    dt_model_opts opts;
    dt_weights weights; /* borrowed */
    char *packed;       /* [packed_bytes[DT_SLAB_HOME]], borrowed */
    dt_pack pack[DT_MAX_PACKS];
    int packs;
    size_t packed_bytes[DT_SLAB_KINDS];
    /* Of layers that are cut: */
    bool cut[DT_MAX_NODES]; /* of the net's nodes */
    dt_cut norm_cut[DT_MAX_NODES];
    dt_piece piece[DT_MAX_PARAMS]; /* of the net's parameters */
    size_t floats[DT_SLAB_KINDS];
    float *cut_master, *by_input; /* borrowed, like the next */
    char *cut_packed;             /* the copies of the other kinds, one after the other */
};

static inline bool dt_model_is_cut(const dt_model *m)
{
    return m->opts.parts > 1;
}

typedef struct dt_block {
    size_t bytes;
    int first, last; /* steps of the timeline in which it lives, both included */
    size_t offset;   /* found by dt_arena_place; a multiple of 64 */
} dt_block;
/* Blocks that live at the same time get disjoint memory; the largest is placed first, in
 * the lowest gap (greedy by size, Pisarchyk & Lee 2020). *total: bytes of the arena.
 * Deterministic. */
dt_status dt_arena_place(dt_block *block, size_t count, size_t *total) DT_MUST_CHECK;

enum { DT_NO_BLOCK = -1 };
typedef struct dt_value {
    dt_shape shape;
    dt_dtype type;
    int producer; /* step; -1: the images */
    int root;     /* the value whose memory it uses: itself, or what a fork aliases */
    bool wants_grad;
    int block, grad_block; /* index of dt_block, or DT_NO_BLOCK */
} dt_value;

/* A fork adds output values. */
enum { DT_MAX_VALUES = 2 * DT_MAX_NODES };

struct dt_plan {
    dt_model *model; /* borrowed */
    int64_t batch;
    dt_mode mode;
    bool remote;                /* of a shard that is another rank's */
    dt_node node[DT_MAX_NODES]; /* execution order, after forks */
    dt_step step[DT_MAX_NODES];
    /* Floats of the gradient slabs final after its backward: home parameters', own pieces' */
    size_t final[DT_MAX_NODES][2];
    dt_layout layout[DT_MAX_VALUES][DT_WAYS]; /* of a value, of its gradient */
    int steps;
    dt_value value[DT_MAX_VALUES];
    int values;
    int logits;
    dt_block *block; /* owned */
    size_t blocks;
    int saved_block[DT_MAX_NODES], sums_block[DT_MAX_NODES][DT_WAYS];
    int labels_block;
    size_t arena_bytes, scratch_bytes;
    dt_digest digest;
};

/* Takes a parameter's numbers as files have them, and writes the model's part to its place. */
void dt_model_place(dt_model *m, size_t param, const float *file);

/* The memory of a value that is no alias, else NULL. */
static inline const dt_block *dt_plan_own_block(const dt_plan *p, int value)
{
    const dt_value *v = &p->value[value];
    return v->root == value && v->block != DT_NO_BLOCK ? &p->block[v->block] : NULL;
}
/* Step `at` becomes n, those from there on move back by one. The caller has looked for room. */
void dt_plan_insert(dt_plan *p, int at, const dt_node *n);
char *dt_pack_at(const dt_model *m, const dt_pack *p); /* where the copy lies */
/* Bytes [first, end) of the copy, to a copy that begins at `to`; see dt_pack_func. */
void dt_pack_bytes(const dt_model *m, const dt_pack *p, char *to, size_t first, size_t end);
/* Where the value, or its gradient, lies; NULL: the context has none of it. */
void *dt_exec_memory(const dt_exec *e, int value, dt_way way);

struct dt_plan_split {
    /* What the strategy cuts, and the pieces of parameters, which are whole. */
    dt_status (*model)(dt_model *m);
    /* Of a model that is cut: a layout for each value, and moves where they differ, which know what
     * they move. Shapes are known. */
    dt_status (*plan)(dt_plan *p);
};

#endif

/* plan.h - the compiled form of a network and the memory it asks for; private to src/model. */
#ifndef DT_PLAN_H
#define DT_PLAN_H
#include "net.h"

/* ---- Model: packed copies shared by all plans ---------------------------------------- */

enum { DT_MAX_PACKS = 1024 };
typedef struct dt_pack {
    int param; /* index in the net */
    char layout[96];
    size_t bytes, offset; /* in the packed slab */
    dt_pack_func pack;
    const void *context; /* borrowed from the plan that came first */
} dt_pack;

struct dt_model {
    const dt_net *net; /* borrowed */
    dt_model_opts opts;
    dt_weights weights; /* borrowed */
    char *packed;       /* [packed_bytes], borrowed */
    dt_pack pack[DT_MAX_PACKS];
    int packs;
    size_t packed_bytes;
};

/* ---- Placement: offsets for things with lifetimes ------------------------------------- */

typedef struct dt_block {
    size_t bytes;
    int first, last; /* steps of the timeline in which it lives, both included */
    size_t offset;   /* found by dt_arena_place; a multiple of 64 */
} dt_block;
/* Blocks that live at the same time get disjoint memory; the largest is placed first, in
 * the lowest gap (greedy by size, Pisarchyk & Lee 2020). *total: bytes of the arena.
 * Deterministic. */
dt_status dt_arena_place(dt_block *block, size_t count, size_t *total) DT_MUST_CHECK;

/* ---- Plan ------------------------------------------------------------------------------- */

enum { DT_NO_BLOCK = -1 };
typedef struct dt_value {
    dt_shape shape;
    dt_dtype type;
    int producer; /* step; -1: the images */
    int root; /* the value whose memory it uses: itself, or what a fork aliases */
    bool wants_grad;
    int block, grad_block; /* index of dt_block, or DT_NO_BLOCK */
} dt_value;

/* A fork adds output values. */
enum { DT_MAX_VALUES = 2 * DT_MAX_NODES };

struct dt_plan {
    dt_model *model; /* borrowed */
    int64_t batch;
    dt_mode mode;
    dt_node node[DT_MAX_NODES];   /* execution order, after forks */
    int second_out[DT_MAX_NODES]; /* its output once more, for a second reader; or -1 */
    dt_step step[DT_MAX_NODES];
    size_t final[DT_MAX_NODES]; /* floats of the gradient slab final after its backward */
    int steps;
    dt_value value[DT_MAX_VALUES];
    int values;
    int logits;
    dt_block *block; /* owned */
    size_t blocks;
    int saved_block[DT_MAX_NODES];
    int labels_block;
    size_t arena_bytes, scratch_bytes;
    dt_digest digest;
};

#endif

/* check.h - checks for wrong bits while a run is on (docs/lab/checks.md); the public header of
 * src/check.
 *
 * Every --check-every steps, before the update:
 *   replicas  every copy of weights, momentum and running statistics is compared across ranks
 *             (across nodes where a node shares one copy; pieces of layers that are cut across
 *             the ranks that have the same): finds a wrong bit of any age
 *   guard     a lone rank's copy, or one that a node shares, is compared with its hash after the
 *             update of the step before: finds bits that went wrong since
 *   packed    the packed copies are compared with the master weights packed anew: finds a wrong bit
 *             of any age in the copies
 * Every --replay-every steps, before the update, the next rank (alone: the same) reruns a shard:
 *   replay    the bits of its loss and of every tensor of its gradient
 * Steps count from 1 over the whole run, so that nothing depends on where a run was resumed.
 * What a check finds is DT_CORRUPT on all ranks. */
#ifndef DT_CHECK_H
#define DT_CHECK_H
#include "options/options.h"

/* What is checked, all borrowed. */
typedef struct dt_check_subject {
    dt_comm *comm;
    const dt_options *o; /* resolved */
    const dt_net *net;
    dt_model *model;
    const dt_loader *loader;
    int threads, first_shard; /* this rank's */
    int bn_group;             /* shards that share statistics; 0: none */
    /* Layers are cut over `parts` ranks: those that have the same pieces, NULL: nothing is cut */
    dt_comm *along;
    int parts;
    bool shares; /* one copy of the weights for the node's ranks */
    int64_t steps_per_epoch;
    /* dt_checks_bytes needs none of these: */
    dt_weights weights, average; /* average.net is NULL without --ema */
    float *momentum; /* [net->slab_floats], of home parameters alone where some are cut */
    float *piece[3]; /* own pieces of weights, momentum, average; NULL: there is none */
    void *room;      /* [dt_checks_bytes] */
    /* Run one shard alone once more: its gradient [net->slab_floats] and loss. Local. */
    dt_status (*run_again)(void *context, int64_t epoch, int64_t step, int shard, float *grad,
                           dt_result *result);
    void *context;
} dt_check_subject;

typedef struct dt_checks dt_checks; /* NULL: none are on, and nothing is done */

/* Memory for packing again and for a replayed gradient, of one rank, once plans are made.
 * Local. */
size_t dt_checks_bytes(const dt_check_subject *s);
/* Once memory is bound and the exchange open; s is copied. DT_CONFIG: --replay-every
 * with batch norm over more than a shard; DT_NOMEM. Whatever the outcome, *c is to be closed.
 * Local, not agreed. */
dt_status dt_checks_open(dt_checks **c, const dt_check_subject *s) DT_MUST_CHECK;
void dt_checks_close(dt_checks *c);

/* The calls of a step. They do nothing if no check is due, and are Local unless they say
 * otherwise. Before the first shard: */
void dt_checks_begin(dt_checks *c, int64_t epoch, int64_t step);
/* The shard's images are in place, its gradient will be written to grad [slab]; not called for a
 * shard without images. */
void dt_checks_shard(dt_checks *c, int shard, const float *grad);
/* The first `floats_done` floats of the gradient of the running shard (in lockstep: of each) are
 * final, and not yet folded. */
void dt_checks_gradient(dt_checks *c, size_t floats_done);
void dt_checks_loss(dt_checks *c, int shard, const dt_result *result); /* after backward */
/* Between the end of the exchange and the update: no rank reads weights of the step any
 * more, and none writes them before this returns. Agreed. Collective. */
dt_status dt_checks_before_update(dt_checks *c) DT_MUST_CHECK;
void dt_checks_after_update(dt_checks *c); /* weights and packed copies are visible. Local */

/* Checks at once, due or not. dt_checks_replicas (replicas and guard) before a checkpoint is saved;
 * dt_checks_now (packed copies, too) before a loss that is not finite is blamed on the recipe, and
 * at the end. Agreed. Collective. */
dt_status dt_checks_replicas(dt_checks *c) DT_MUST_CHECK;
dt_status dt_checks_now(dt_checks *c) DT_MUST_CHECK;

#endif

/* checks.h - checks that run always (docs/checks.md); private to src/train.
 *
 * Every --check-every steps, before the update:
 *   replicas  every copy of weights, momentum and running statistics, over ranks or, where
 *             a node shares one copy, over nodes: found whenever the bit went wrong before
 *   guard    a copy that has no other (one rank, or one node that shares): hashed when the
 *             update before has written it; found when the bit went wrong since
 *   packed    the packed copies against the master weights, packed again; as guard
 * Every --replay-every steps, before the update, another rank runs one shard again:
 *   replay    the bits of its loss and of every tensor of its gradient
 * --flip makes what they look for. Steps count from 1 over the whole run, so that nothing
 * depends on where a run was resumed. What a check finds is DT_CORRUPT on all ranks. */
#ifndef DT_CHECKS_H
#define DT_CHECKS_H
#include "run.h"

/* Memory for packing again and for a replayed gradient, of one rank: the slab r->check_room.
 * After the plans are made. Local. */
size_t dt_checks_bytes(const dt_run *r);
/* Take what checks need besides, when memory is bound and the exchange open: sets r->checks,
 * NULL when all are off. DT_CONFIG: --flip that names nothing, --replay-every with batch
 * norm over more than a shard; DT_NOMEM. Local, not agreed. */
dt_status dt_checks_open(dt_run *r) DT_MUST_CHECK;
void dt_checks_close(dt_run *r);

/* The places of a step; all of them do nothing where no check is due, and are Local but where
 * they say otherwise. Before the first shard; Collective in the step of --flip. */
dt_status dt_checks_begin(dt_run *r, int64_t epoch, int64_t step) DT_MUST_CHECK;
/* The shard's images are in e's input, its gradient will be written to grad [slab]; not
 * called for a shard without images. */
void dt_checks_shard(dt_run *r, int shard, dt_exec *e, float *grad);
/* The first `floats_done` floats of the running shard's gradient are final, and not yet
 * folded. With one call for several shards: of each of their gradients. */
void dt_checks_gradient(dt_run *r, size_t floats_done);
void dt_checks_loss(dt_run *r, int shard, const dt_result *result); /* after backward */
/* Between the end of the exchange and the update: no rank reads weights of the step any
 * more, and none writes them before this returns. Agreed. Collective. */
dt_status dt_checks_before_update(dt_run *r) DT_MUST_CHECK;
void dt_checks_after_update(dt_run *r); /* weights and packed copies are visible. Local */

/* Due or not: replicas and guard, before a checkpoint is saved; packed copies, too, before a
 * loss that is not finite is called the recipe's fault, and at the end. Agreed. Collective. */
dt_status dt_checks_replicas(dt_run *r) DT_MUST_CHECK;
dt_status dt_checks_now(dt_run *r) DT_MUST_CHECK;

#endif

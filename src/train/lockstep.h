/* lockstep.h - the rank's shards run step by step together, because groups of shards share
 * their batch-norm statistics; private to src/train. */
#ifndef DT_LOCKSTEP_H
#define DT_LOCKSTEP_H
#include "run.h"

/* Sets r->bn_group; `node` becomes group:N in r->o, N the shards of each node. DT_CONFIG,
 * agreed, when nodes hold different numbers of shards. Collective. */
dt_status dt_lockstep_resolve(dt_run *r) DT_MUST_CHECK;

/* The trees of groups of shards, for layers of at most `channels`; all arguments (same). *t is NULL
 * for a group of 0, where every shard has its own statistics; close it after a failure, too.
 * Collective. */
dt_status dt_lockstep_open(dt_lockstep **t, dt_comm *c, int shards, int group,
                           size_t channels) DT_MUST_CHECK;
void dt_lockstep_close(dt_lockstep *t);
/* For dt_wave; NULL for NULL. Local. */
const dt_norm_sync *dt_lockstep_sync(const dt_lockstep *t);
#endif

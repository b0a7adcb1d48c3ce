/* lockstep.h - the rank's shards run step by step together, because groups of shards share
 * their batch-norm statistics; private to src/train. */
#ifndef DT_LOCKSTEP_H
#define DT_LOCKSTEP_H
#include "run.h"

/* Sets r->bn_group; `node` becomes group:N in r->o, N the shards of each node. DT_CONFIG,
 * agreed, when nodes hold different numbers of shards. Collective. */
dt_status dt_lockstep_resolve(dt_run *r) DT_MUST_CHECK;

/* Contexts that this rank needs at the same time, and bytes of each for a plan's arena: its
 * shards' where they run together, else one. Local. */
size_t dt_lockstep_contexts(const dt_run *r);
size_t dt_lockstep_bytes(const dt_run *r, size_t arena);
/* Contexts in r->arena, and trees. Collective. */
dt_status dt_lockstep_open(dt_run *r) DT_MUST_CHECK;
void dt_lockstep_close(dt_lockstep *t);
#endif

/* checks.c - opening the checks, and what is due at which place of a step. */
#include "checks_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Packed again side by side, as packing is; more threads would need more room. */
enum { PACK_THREADS = 4 };

static int pack_threads(const dt_run *r)
{
    return r->threads < PACK_THREADS ? r->threads : PACK_THREADS;
}

static bool checks_wanted(const dt_run *r)
{
    return r->o.check_every > 0 || r->o.replay_every > 0 || r->o.flip[0];
}

size_t dt_checks_bytes(const dt_run *r)
{
    const size_t pack = (size_t)pack_threads(r) * dt_model_largest_pack(r->model);
    const size_t replay =
        r->o.replay_every > 0 ? dt_net_slab_floats(r->net) * sizeof(float) : 0;

    if (!checks_wanted(r))
        return 0;
    return pack > replay ? pack : replay; /* one is over when the other begins */
}

dt_status dt_checks_open(dt_run *r)
{
    if (!checks_wanted(r))
        return DT_OK;
    DT_TRY(dt_calloc(&r->checks, 1, sizeof *r->checks, "the checks"));
    r->checks->every = r->o.check_every;
    DT_TRY(dt_replicas_open(r, &r->checks->replicas));
    DT_TRY(dt_replay_open(r, &r->checks->replay));
    return dt_flip_open(r, &r->checks->flip);
}

void dt_checks_close(dt_run *r)
{
    if (!r->checks)
        return;
    dt_replicas_close(&r->checks->replicas);
    dt_replay_close(&r->checks->replay);
    free(r->checks);
    r->checks = NULL;
}

/* ---- The places of a step ---------------------------------------------------------------- */

static bool due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

/* The first step of a process has no update before it that could have stored hashes. */
dt_status dt_checks_begin(dt_run *r, int64_t epoch, int64_t step)
{
    dt_checks *c = r->checks;

    if (!c)
        return DT_OK;
    c->epoch = epoch;
    c->epoch_step = step;
    c->step = epoch * r->steps_per_epoch + step + 1;
    c->updated = c->step - 1;
    if (due(c->step, c->every) && c->replicas.stored_step != c->updated)
        dt_replicas_store(r);
    dt_replay_begin(r);
    return dt_flip_begin(r);
}

void dt_checks_shard(dt_run *r, int shard, dt_exec *e, float *grad)
{
    if (!r->checks)
        return;
    dt_flip_shard(r, shard, e, grad);
    dt_replay_shard(r, shard, grad);
}

/* The flip comes first: it stands for a gradient that was computed wrongly. */
void dt_checks_gradient(dt_run *r, size_t floats_done)
{
    if (!r->checks)
        return;
    dt_flip_gradient(r, floats_done);
    dt_replay_gradient(r, floats_done);
}

void dt_checks_loss(dt_run *r, int shard, const dt_result *result)
{
    if (r->checks)
        dt_replay_loss(r, shard, result);
}

/* Replicas and guard first: wrong master weights make packed copies look wrong. */
static dt_status check_weights(dt_run *r)
{
    const int part = r->shares ? dt_comm_node_rank(r->comm) : 0;
    const int parts = r->shares ? dt_comm_node_ranks(r->comm) : 1;

    DT_TRY(dt_replicas_check(r));
    const dt_status st = dt_model_check_packed(r->model, part, parts, pack_threads(r),
                                               r->check_room.mem, r->checks->step);
    return dt_comm_agree(r->comm, st);
}

dt_status dt_checks_before_update(dt_run *r)
{
    if (!r->checks)
        return DT_OK;
    if (due(r->checks->step, r->checks->every))
        DT_TRY(check_weights(r));
    return dt_replay_check(r);
}

void dt_checks_after_update(dt_run *r)
{
    dt_checks *c = r->checks;

    if (!c)
        return;
    c->updated = c->step;
    if (due(c->step + 1, c->every))
        dt_replicas_store(r);
}

dt_status dt_checks_replicas(dt_run *r)
{
    return r->checks && r->checks->every > 0 ? dt_replicas_check(r) : DT_OK;
}

dt_status dt_checks_now(dt_run *r)
{
    return r->checks && r->checks->every > 0 ? check_weights(r) : DT_OK;
}

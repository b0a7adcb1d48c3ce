/* checks.c - opening the checks, and what is due at which place of a step. */
#include "check_internal.h"

#include <stdlib.h>

/* Packed again side by side, as packing is; more threads would need more room. */
enum { PACK_THREADS = 4 };

static int pack_threads(const dt_check_subject *s)
{
    return s->threads < PACK_THREADS ? s->threads : PACK_THREADS;
}

static bool checks_wanted(const dt_check_subject *s)
{
    return s->o->check_every > 0 || s->o->replay_every > 0;
}

size_t dt_checks_bytes(const dt_check_subject *s)
{
    const size_t pack = (size_t)pack_threads(s) * dt_model_largest_pack(s->model);
    const size_t replay = s->o->replay_every > 0 ? s->net->slab_floats * sizeof(float) : 0;

    if (!checks_wanted(s))
        return 0;
    return pack > replay ? pack : replay; /* one is over when the other begins */
}

dt_status dt_checks_open(dt_checks **out, const dt_check_subject *s)
{
    *out = NULL;
    if (!checks_wanted(s))
        return DT_OK;
    DT_TRY(dt_calloc(out, 1, sizeof **out, "the checks"));
    dt_checks *c = *out;
    c->s = *s;
    c->every = s->o->check_every;
    DT_TRY(dt_replicas_open(c));
    return dt_replay_open(c, &c->replay);
}

void dt_checks_close(dt_checks *c)
{
    if (!c)
        return;
    for (int i = 0; i < 2; i++)
        dt_replicas_close(&c->replicas[i]);
    dt_replay_close(&c->replay);
    free(c);
}

/* ---- The places of a step ---------------------------------------------------------------- */

static bool due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

/* The first step of a process has no update before it that could have stored hashes. */
void dt_checks_begin(dt_checks *c, int64_t epoch, int64_t step)
{
    if (!c)
        return;
    c->epoch = epoch;
    c->epoch_step = step;
    c->step = epoch * c->s.steps_per_epoch + step + 1;
    c->updated = c->step - 1;
    if (due(c->step, c->every) && c->replicas[0].stored_step != c->updated)
        dt_replicas_store(c);
    dt_replay_begin(c);
}

/* Replicas and guard first: wrong master weights make packed copies look wrong. */
static dt_status check_weights(dt_checks *c)
{
    const int part = c->s.shares ? c->s.comm->node_rank : 0;
    const int parts = c->s.shares ? c->s.comm->node_ranks : 1;

    DT_TRY(dt_replicas_check(c));
    const dt_status st =
        dt_model_check_packed(c->s.model, part, parts, pack_threads(&c->s), c->s.room, c->step);
    return dt_comm_agree(c->s.comm, st);
}

dt_status dt_checks_before_update(dt_checks *c)
{
    if (!c)
        return DT_OK;
    if (due(c->step, c->every))
        DT_TRY(check_weights(c));
    return dt_replay_check(c);
}

void dt_checks_after_update(dt_checks *c)
{
    if (!c)
        return;
    c->updated = c->step;
    if (due(c->step + 1, c->every))
        dt_replicas_store(c);
}

dt_status dt_checks_replicas(dt_checks *c)
{
    return c && c->every > 0 ? dt_replicas_check(c) : DT_OK;
}

dt_status dt_checks_now(dt_checks *c)
{
    return c && c->every > 0 ? check_weights(c) : DT_OK;
}

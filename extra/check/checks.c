/* checks.c - what is due at which place of a step; and the replay of a shard. */
#include "check.h"

/* Packed again side by side, as packing is; more threads would need more room. */
enum { PACK_THREADS = 4 };

static bool due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

static bool checks_wanted(const dt_run *r)
{
    return r->o.check_every > 0 || r->o.replay_every > 0;
}

static size_t bytes(const dt_run *r)
{
    const size_t pack = (size_t)DT_MIN(r->threads, PACK_THREADS) * dt_model_largest_pack(r->model);
    const size_t replay = r->o.replay_every > 0 ? r->net->slab_floats * sizeof(float) : 0;

    return checks_wanted(r) ? DT_MAX(pack, replay) : 0; /* one is over when the other begins */
}

static dt_status replay_open(dt_checks *c)
{
    const dt_run *r = c->run;
    dt_replay *p = &c->replay;

    *p = (dt_replay){.shard = -1, .tensors = r->net->params};
    if (r->o.replay_every == 0)
        return DT_OK;
    if (r->bn_group > 0)
        return dt_fail(DT_CONFIG,
                       "--replay-every runs one shard alone, but with --bn %s its "
                       "batch norm needs other shards; use --bn local, or --replay-every 0",
                       r->o.bn);
    if (c->replicas[1].comm)
        return dt_fail(DT_CONFIG,
                       "--replay-every runs one shard alone, but with --strategy %s ranks "
                       "compute it together; use --replay-every 0",
                       r->o.strategy);
    DT_TRY(dt_calloc(&p->digest, 2 * (p->tensors + 1), sizeof *p->digest, "the checks"));
    p->again = p->digest + p->tensors + 1;
    return DT_OK;
}

static dt_status open_checks(void **state, dt_run *r)
{
    dt_checks *c = NULL;

    if (!checks_wanted(r))
        return DT_OK;
    DT_TRY(dt_calloc(&c, 1, sizeof *c, "the checks"));
    *state = c;
    c->run = r;
    DT_TRY(dt_replicas_open(c));
    return replay_open(c);
}

static void close_checks(void *state, int code)
{
    dt_checks *c = state;

    (void)code;
    for (dt_replicas *k = c->replicas; k < c->replicas + 2; k++)
        DT_FREE(k->block, k->digest, k->wire);
    DT_FREE(c->replay.digest, c);
}

/* ---- Replay ------------------------------------------------------------------------------
 * Runs are exact: one shard again on another rank has the same loss and the same gradient, or one
 * of the two ranks computed wrongly. The owner hashes each tensor when backward has made it final,
 * before it is folded and sent: the exchange still overlaps. */

/* Another shard each time, so that all shards, and with them all ranks, have their turn. */
static int shard_due(const dt_checks *c)
{
    const int64_t every = c->run->o.replay_every, shards = c->run->o.shards;

    if (!due(c->step, every))
        return -1;
    const int shard = (int)(c->step / every % shards);
    const int64_t n = dt_loader_batch(c->run->loader, c->epoch_step);
    return dt_shard_size(n, (int)shards, shard, NULL) > 0 ? shard : -1;
}

static void replay_shard(void *state, int shard, const float *grad)
{
    dt_replay *p = &((dt_checks *)state)->replay;

    p->grad = shard == p->shard ? grad : NULL;
    p->hashed = 0;
}

/* Hash the tensors of grad that are final; returns how many. */
static size_t hash_tensors(const dt_checks *c, const float *grad, size_t hashed, size_t floats_done,
                           uint64_t *digest)
{
    const dt_replay *p = &c->replay;

    for (; hashed < p->tensors; hashed++) {
        const dt_param *t = &c->run->net->param[c->run->net->params - 1 - hashed];
        if (t->offset + t->count > floats_done)
            break;
        digest[hashed] = dt_hash_bytes(grad + t->offset, t->count * sizeof *grad).low;
    }
    return hashed;
}

static void replay_gradient(void *state, size_t floats_done)
{
    dt_checks *c = state;
    dt_replay *p = &c->replay;

    if (p->grad)
        p->hashed = hash_tensors(c, p->grad, p->hashed, floats_done, p->digest);
}

static void replay_loss(void *state, int shard, const dt_result *result)
{
    const dt_replay *p = &((dt_checks *)state)->replay;

    if (shard == p->shard)
        memcpy(&p->digest[p->tensors], &result->loss_sum, sizeof(uint64_t));
}

/* ---- The rank that replays --------------------------------------------------------------- */

/* The shard alone. Local. */
static dt_status run_again(dt_checks *c)
{
    const dt_replay *p = &c->replay;
    dt_run *r = c->run;
    const int64_t n = dt_loader_batch(r->loader, c->epoch_step);
    dt_exec *const *now = r->contexts.now;
    const dt_wave alone = {.exec = now, .count = 1};
    float *grad = r->check_room.mem;
    dt_result result;

    DT_TRY(dt_contexts_find(&r->contexts, 0, dt_shard_size(n, (int)r->o.shards, p->shard, NULL)));
    dt_exec *e = now[0];
    dt_loader_train(r->loader, c->epoch, c->epoch_step, p->shard, e->input, e->labels);
    DT_TRY(dt_exec_forward(&alone, NULL, &result));
    DT_TRY(dt_exec_backward(&alone, (double)n / r->sample_weight, &grad, NULL));
    hash_tensors(c, grad, 0, r->net->slab_floats, p->again);
    memcpy(&p->again[p->tensors], &result.loss_sum, sizeof p->again[0]);
    return DT_OK;
}

static dt_status compare(const dt_checks *c, int owner, const char *owner_host)
{
    const dt_replay *p = &c->replay;
    const dt_param *first = NULL;
    size_t differ = 0;
    char host[DT_HOST_CHARS] = "", where[200];

    dt_host_name(host);
    for (size_t i = p->tensors; i-- > 0;)
        if (p->digest[i] != p->again[i]) {
            first = &c->run->net->param[c->run->net->params - 1 - i];
            differ++;
        }
    const bool loss = p->digest[p->tensors] != p->again[p->tensors];
    if (!first && !loss)
        return DT_OK;
    snprintf(where, sizeof where, "%s%s%s%s", loss ? "loss" : "", loss && first ? ", and " : "",
             first ? "gradient of " : "", first ? first->name : "");
    return dt_fail(
        DT_CORRUPT,
        "step %lld: shard %d has other bits when it is run again: %s (%zu of "
        "%zu tensors differ; the named one is the first that backward makes): rank %d on "
        "%s ran it, rank %d on %s ran it again, and one of them computed "
        "wrongly: " DT_CORRUPT_REMEDY,
        (long long)c->step, p->shard, where, differ, p->tensors, owner, owner_host,
        c->run->comm->rank, host);
}

static dt_status replay_check(dt_checks *c)
{
    dt_replay *p = &c->replay;
    dt_comm *comm = c->run->comm;
    /* whose shards, by dt_shards_of, have this one among them */
    const int owner = (int)(((p->shard + INT64_C(1)) * comm->world - 1) / c->run->o.shards);
    char host[DT_HOST_CHARS] = "";
    dt_status st = DT_OK;

    if (p->shard < 0)
        return DT_OK;
    dt_host_name(host);
    DT_TRY(dt_comm_bcast(comm, host, sizeof host, owner));
    DT_TRY(dt_comm_bcast(comm, p->digest, (p->tensors + 1) * sizeof *p->digest, owner));
    if (comm->rank == (owner + 1) % comm->world) {
        st = run_again(c);
        if (st == DT_OK)
            st = compare(c, owner, host);
    }
    return dt_comm_agree(comm, st);
}

/* ---- The places of a step ---------------------------------------------------------------- */

/* The first step of a process has no update before it that could have stored hashes. */
static void begin(void *state, int64_t epoch, int64_t step)
{
    dt_checks *c = state;

    c->epoch = epoch;
    c->epoch_step = step;
    c->step = epoch * c->run->steps_per_epoch + step + 1;
    if (due(c->step, c->run->o.check_every) && c->stored < 0)
        dt_replicas_store(c, c->step - 1);
    c->replay.grad = NULL;
    c->replay.shard = shard_due(c);
}

/* Replicas and guard first: wrong master weights make packed copies look wrong. */
static dt_status check_weights(dt_checks *c)
{
    const dt_run *r = c->run;
    const int part = r->shares ? r->comm->node_rank : 0;
    const int parts = r->shares ? r->comm->node_ranks : 1;

    DT_TRY(dt_replicas_check(c));
    const dt_status st = dt_model_check_packed(
        r->model, part, parts, DT_MIN(r->threads, PACK_THREADS), r->check_room.mem, c->step);
    return dt_comm_agree(r->comm, st);
}

static dt_status check(void *state, dt_check_when when)
{
    dt_checks *c = state;
    const int64_t every = c->run->o.check_every;

    if (when == DT_CHECK_SAVE)
        return every > 0 ? dt_replicas_check(c) : DT_OK;
    if (when == DT_CHECK_END ? every > 0 : due(c->step, every))
        DT_TRY(check_weights(c));
    return when == DT_CHECK_STEP ? replay_check(c) : DT_OK;
}

static void updated(void *state, int64_t step)
{
    dt_checks *c = state;

    c->stored = -1;
    if (due(step + 1, c->run->o.check_every))
        dt_replicas_store(c, step);
}

void dt_extra_check(void)
{
    static const dt_run_observer checks = {.options = " check_every replay_every",
                                           .bytes = bytes,
                                           .open = open_checks,
                                           .begin = begin,
                                           .shard = replay_shard,
                                           .gradient = replay_gradient,
                                           .loss = replay_loss,
                                           .check = check,
                                           .updated = updated,
                                           .close = close_checks};

    dt_observer_add(&checks);
}

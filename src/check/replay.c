/* replay.c - one shard again on another rank: runs are exact, so its loss and its gradient
 * have the same bits, or one of the two ranks computed wrongly. The owner hashes each tensor
 * when backward has made it final, before it is folded and sent: the exchange still overlaps. */
#include "check_internal.h"

#include <stdio.h>
#include <stdlib.h>

dt_status dt_replay_open(dt_checks *c, dt_replay *p)
{
    const size_t n = c->s.net->params;

    *p = (dt_replay){.every = c->s.o->replay_every, .shard = -1, .tensors = n};
    if (p->every == 0)
        return DT_OK;
    if (c->s.bn_group > 0)
        return dt_fail(DT_CONFIG,
                       "--replay-every runs one shard alone, but with --bn %s its "
                       "batch norm needs other shards; use --bn local, or --replay-every 0",
                       c->s.o->bn);
    if (c->s.along)
        return dt_fail(DT_CONFIG,
                       "--replay-every runs one shard alone, but with --strategy %s ranks "
                       "compute it together; use --replay-every 0",
                       c->s.o->strategy);
    DT_TRY(dt_calloc(&p->digest, n + 1, sizeof *p->digest, "the checks"));
    DT_TRY(dt_calloc(&p->again, n + 1, sizeof *p->again, "the checks"));
    return DT_OK;
}

void dt_replay_close(dt_replay *p)
{
    free(p->digest);
    free(p->again);
}

/* ---- The owner ------------------------------------------------------------------------- */

/* Another shard each time, so that all shards, and with them all ranks, have their turn. */
void dt_replay_begin(dt_checks *c)
{
    dt_replay *p = &c->replay;
    const int64_t step = c->step;

    p->grad = NULL;
    p->shard = -1;
    if (p->every == 0 || step % p->every != 0)
        return;
    const int shard = (int)(step / p->every % c->s.o->shards);
    const int64_t n = dt_loader_batch(c->s.loader, c->epoch_step);
    if (dt_shard_size(n, (int)c->s.o->shards, shard, NULL) > 0)
        p->shard = shard;
}

void dt_checks_shard(dt_checks *c, int shard, const float *grad)
{
    if (!c)
        return;
    c->replay.grad = shard == c->replay.shard ? grad : NULL;
    c->replay.hashed = 0;
}

/* Hash the tensors of grad that are final; returns how many. */
static size_t hash_tensors(const dt_checks *c, const float *grad, size_t hashed, size_t floats_done,
                           uint64_t *digest)
{
    const dt_replay *p = &c->replay;

    for (; hashed < p->tensors; hashed++) {
        const dt_param *t = dt_net_slab_param(c->s.net, hashed);
        if (t->offset + t->count > floats_done)
            break;
        digest[hashed] = dt_hash_bytes(grad + t->offset, t->count * sizeof *grad).low;
    }
    return hashed;
}

void dt_checks_gradient(dt_checks *c, size_t floats_done)
{
    if (c && c->replay.grad)
        c->replay.hashed =
            hash_tensors(c, c->replay.grad, c->replay.hashed, floats_done, c->replay.digest);
}

void dt_checks_loss(dt_checks *c, int shard, const dt_result *result)
{
    if (c && shard == c->replay.shard)
        memcpy(&c->replay.digest[c->replay.tensors], &result->loss_sum, sizeof(uint64_t));
}

/* ---- The rank that replays --------------------------------------------------------------- */

static dt_status run_again(dt_checks *c)
{
    const dt_replay *p = &c->replay;
    float *grad = c->s.room;
    dt_result result;

    DT_TRY(c->s.run_again(c->s.context, c->epoch, c->epoch_step, p->shard, grad, &result));
    hash_tensors(c, grad, 0, c->s.net->slab_floats, p->again);
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
            first = dt_net_slab_param(c->s.net, i);
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
        (long long)c->step, p->shard, where, differ, p->tensors, owner, owner_host, c->s.comm->rank,
        host);
}

dt_status dt_replay_check(dt_checks *c)
{
    dt_replay *p = &c->replay;
    const int world = c->s.comm->world, rank = c->s.comm->rank;
    char host[DT_HOST_CHARS] = "";
    int owner = 0, first, end;
    dt_status st = DT_OK;

    if (p->shard < 0)
        return DT_OK;
    for (dt_shards_of((int)c->s.o->shards, world, owner, &first, &end); p->shard >= end;)
        dt_shards_of((int)c->s.o->shards, world, ++owner, &first, &end);
    dt_host_name(host);
    DT_TRY(dt_comm_bcast(c->s.comm, host, sizeof host, owner));
    DT_TRY(dt_comm_bcast(c->s.comm, p->digest, (p->tensors + 1) * sizeof *p->digest, owner));
    if (rank == (owner + 1) % world) {
        st = run_again(c);
        if (st == DT_OK)
            st = compare(c, owner, host);
    }
    return dt_comm_agree(c->s.comm, st);
}

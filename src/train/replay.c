/* replay.c - one shard again on another rank: runs are exact, so its loss and its gradient
 * have the same bits, or one of the two ranks computed wrongly. The owner hashes each tensor
 * when backward has made it final, before it is folded and sent: the exchange still overlaps. */
#include "checks_internal.h"

#include <stdio.h>
#include <stdlib.h>

dt_status dt_replay_open(dt_run *r, dt_replay *p)
{
    const size_t n = dt_net_param_count(r->net);

    *p = (dt_replay){.every = r->o.replay_every, .shard = -1, .tensors = n};
    if (p->every == 0)
        return DT_OK;
    if (r->bn_group > 0)
        return dt_fail(DT_CONFIG, "--replay-every runs one shard alone, but with --bn %s its "
                       "batch norm needs other shards; use --bn local, or --replay-every 0",
                       r->o.bn);
    DT_TRY(dt_calloc(&p->digest, n + 1, sizeof *p->digest, "the checks"));
    DT_TRY(dt_calloc(&p->again, n + 1, sizeof *p->again, "the checks"));
    return DT_OK;
}

void dt_replay_close(dt_replay *p)
{
    free(p->digest);
    free(p->again);
    *p = (dt_replay){0};
}

/* ---- The owner ------------------------------------------------------------------------- */

/* Another shard each time, so that all shards, and with them all ranks, have their turn. */
void dt_replay_begin(dt_run *r)
{
    dt_replay *p = &r->checks->replay;
    const int64_t step = r->checks->step;

    p->grad = NULL;
    p->shard = -1;
    if (p->every == 0 || step % p->every != 0)
        return;
    const int shard = (int)(step / p->every % r->o.shards);
    const int64_t n = dt_loader_batch(r->loader, r->checks->epoch_step);
    if (dt_shard_size(n, (int)r->o.shards, shard, NULL) > 0)
        p->shard = shard;
}

void dt_replay_shard(dt_run *r, int shard, const float *grad)
{
    dt_replay *p = &r->checks->replay;

    p->grad = shard == p->shard ? grad : NULL;
    p->hashed = 0;
}

/* Hash the tensors of grad that are final; returns how many. */
static size_t hash_tensors(const dt_run *r, const float *grad, size_t hashed,
                           size_t floats_done, uint64_t *digest)
{
    const dt_replay *p = &r->checks->replay;

    for (; hashed < p->tensors; hashed++) {
        const dt_param *t = dt_net_slab_param(r->net, hashed);
        if (t->offset + t->count > floats_done)
            break;
        digest[hashed] = dt_hash_bytes(grad + t->offset, t->count * sizeof *grad).low;
    }
    return hashed;
}

void dt_replay_gradient(dt_run *r, size_t floats_done)
{
    dt_replay *p = &r->checks->replay;

    if (p->grad)
        p->hashed = hash_tensors(r, p->grad, p->hashed, floats_done, p->digest);
}

void dt_replay_loss(dt_run *r, int shard, const dt_result *result)
{
    dt_replay *p = &r->checks->replay;

    if (shard == p->shard)
        memcpy(&p->digest[p->tensors], &result->loss_sum, sizeof p->digest[0]);
}

/* ---- The rank that replays --------------------------------------------------------------- */

static dt_status run_again(dt_run *r)
{
    const dt_checks *c = r->checks;
    const dt_replay *p = &c->replay;
    const int64_t n = dt_loader_batch(r->loader, c->epoch_step);
    const int64_t size = dt_shard_size(n, (int)r->o.shards, p->shard, NULL);
    float *grad = r->check_room.mem;
    dt_exec *e = NULL;
    const dt_wave alone = {.exec = &e, .count = 1};
    dt_result result;

    DT_TRY(dt_contexts_find(&r->contexts, 0, size, &e));
    dt_loader_train(r->loader, c->epoch, c->epoch_step, p->shard, dt_exec_input(e),
                    dt_exec_labels(e));
    DT_TRY(dt_exec_forward(&alone, NULL, &result));
    DT_TRY(dt_exec_backward(&alone, (double)n / r->sample_weight, &grad, NULL));
    hash_tensors(r, grad, 0, dt_net_slab_floats(r->net), p->again);
    memcpy(&p->again[p->tensors], &result.loss_sum, sizeof p->again[0]);
    return DT_OK;
}

static dt_status compare(const dt_run *r, int owner, const char *owner_host)
{
    const dt_replay *p = &r->checks->replay;
    const dt_param *first = NULL;
    size_t differ = 0;
    char host[DT_HOST_CHARS] = "", where[200], who[300];
    const int rank = dt_comm_rank(r->comm);

    dt_host_name(host);
    for (size_t i = p->tensors; i-- > 0;)
        if (p->digest[i] != p->again[i]) {
            first = dt_net_slab_param(r->net, i);
            differ++;
        }
    const bool loss = p->digest[p->tensors] != p->again[p->tensors];
    if (!first && !loss)
        return DT_OK;
    snprintf(where, sizeof where, "%s%s%s%s", loss ? "loss" : "", loss && first ? ", and " : "",
             first ? "gradient of " : "", first ? first->name : "");
    if (rank == owner)
        snprintf(who, sizeof who, "rank %d on %s ran it both times, and once", rank, host);
    else
        snprintf(who, sizeof who, "rank %d on %s ran it, rank %d on %s ran it again, and one of "
                 "them", owner, owner_host, rank, host);
    return dt_fail(DT_CORRUPT, "step %lld: shard %d has other bits when it is run again: %s (%zu of "
                   "%zu tensors differ; the named one is the first that backward makes): %s "
                   "computed wrongly: " DT_CORRUPT_REMEDY, (long long)r->checks->step, p->shard,
                   where, differ, p->tensors, who);
}

dt_status dt_replay_check(dt_run *r)
{
    dt_replay *p = &r->checks->replay;
    const int world = dt_comm_world(r->comm), rank = dt_comm_rank(r->comm);
    char host[DT_HOST_CHARS] = "";
    int owner = 0, first, end;
    dt_status st = DT_OK;

    if (p->shard < 0)
        return DT_OK;
    for (dt_shards_of((int)r->o.shards, world, owner, &first, &end); p->shard >= end;)
        dt_shards_of((int)r->o.shards, world, ++owner, &first, &end);
    dt_host_name(host);
    DT_TRY(dt_comm_bcast(r->comm, host, sizeof host, owner));
    DT_TRY(dt_comm_bcast(r->comm, p->digest, (p->tensors + 1) * sizeof *p->digest, owner));
    if (rank == (owner + 1) % world) {
        st = run_again(r);
        if (st == DT_OK)
            st = compare(r, owner, host);
    }
    return dt_comm_agree(r->comm, st);
}

/* step.c - one training step: the way of the data, as the design tells it. */
#include "run.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "lockstep.h"

#define X(name) #name,
const char *const dt_phase_name[DT_PHASE_COUNT] = {DT_PHASE_LIST(X)};
#undef X

void dt_phase_charge(dt_run *r, dt_phase phase, double *mark)
{
    const double now = dt_seconds();
    r->phase_s[phase] += now - *mark;
    *mark = now;
}

static dt_status gradient_ready(void *context, size_t floats_done)
{
    dt_run *r = context;
    dt_checks_gradient(r->checks, floats_done);
    return dt_exchange_ready(r->exchange, floats_done);
}

/* What a signal asks for after the rank's last look still counts for this step. */
static dt_status push_shard(dt_run *r, const dt_result *result, bool save, bool last)
{
    double *loss = dt_reduce_leaf(r->loss_tree);

    if (last) {
        const dt_status st = dt_stop_listen(r);
        if (st != DT_OK && st != DT_PREEMPTED)
            return st;
    }
    loss[DT_LEAF_loss] = result->loss_sum;
    loss[DT_LEAF_correct] = (double)result->correct;
    loss[DT_LEAF_save] = save;
    loss[DT_LEAF_hails] = last ? r->stop.hails : 0;
    loss[DT_LEAF_left] = last && r->stop.left;
    dt_reduce_push(r->moment_tree);
    dt_reduce_push(r->loss_tree);
    return DT_OK;
}

/* The images of the wave's shards, from `first` on. An uneven last batch may leave a shard
 * without images: its leaves are +0.0. */
static dt_status load_wave(dt_run *r, int64_t epoch, int64_t step, int first)
{
    const int64_t n = dt_loader_batch(r->loader, step);
    dt_contexts *c = &r->contexts;

    for (int k = 0; k < c->width; k++) {
        const int64_t size = dt_shard_size(n, (int)r->o.shards, first + k, NULL);
        DT_TRY(dt_contexts_find(c, k, size, &c->now[k]));
        if (!c->now[k]) {
            memset(c->grad[k], 0, dt_net_slab_floats(r->net) * sizeof(float));
            memset(c->moments[k], 0, dt_net_norm_channels(r->net) * sizeof(dt_moment));
            continue;
        }
        dt_loader_train(r->loader, epoch, step, first + k, dt_exec_input(c->now[k]),
                        dt_exec_labels(c->now[k]));
        dt_checks_shard(r->checks, first + k, c->now[k], c->grad[k]);
    }
    return DT_OK;
}

/* Their way through the network, there and back. */
static dt_status run_images(dt_run *r, int64_t epoch, int64_t step, int first)
{
    const double n = (double)dt_loader_batch(r->loader, step);
    const dt_observer observer = {gradient_ready, r};
    dt_contexts *c = &r->contexts;
    /* Plans of all batch sizes have the same steps. */
    const dt_wave wave = {.plan = c->plan[0],
                          .exec = c->now,
                          .count = c->width,
                          .sync = dt_lockstep_sync(r->lockstep),
                          .profile = r->profile};
    double mark = dt_seconds();

    DT_TRY(dt_stop_listen(r));
    dt_place_phase(DT_AT_data);
    DT_TRY(load_wave(r, epoch, step, first));
    dt_phase_charge(r, DT_PHASE_data, &mark);
    dt_place_phase(DT_AT_forward);
    DT_TRY(dt_exec_forward(&wave, c->moments, c->result));
    dt_phase_charge(r, DT_PHASE_forward, &mark);
    dt_place_phase(DT_AT_backward);
    DT_TRY(dt_exec_backward(&wave, n / r->sample_weight, c->grad, &observer));
    dt_phase_charge(r, DT_PHASE_backward, &mark);
    for (int k = 0; k < c->width; k++)
        dt_checks_loss(r->checks, first + k, &c->result[k]);
    return DT_OK;
}

/* Shards that were left off still take their place in the sums, with what lies there: the
 * others wait for them, and all will discard them. */
static dt_status run_wave(dt_run *r, int64_t epoch, int64_t step, int first, bool save)
{
    dt_contexts *c = &r->contexts;

    for (int k = 0; k < c->width; k++) {
        c->grad[k] = dt_exchange_leaf(r->exchange);
        c->result[k] = (dt_result){0, 0};
    }
    dt_status st = run_images(r, epoch, step, first);
    if (st == DT_PREEMPTED) {
        r->stop.left = true;
        st = dt_exchange_ready(r->exchange, dt_net_slab_floats(r->net));
    }
    DT_TRY(st);
    for (int k = 0; k < c->width; k++) {
        memcpy(dt_reduce_leaf(r->moment_tree), c->moments[k],
               dt_net_norm_channels(r->net) * sizeof(dt_moment));
        DT_TRY(push_shard(r, &c->result[k], save, first + k == r->end_shard - 1));
    }
    return DT_OK;
}

static dt_status run_waves(dt_run *r, int64_t epoch, int64_t step, bool save)
{
    r->stop.listens = !r->lockstep;
    for (int first = r->first_shard; first < r->end_shard; first += r->contexts.width)
        DT_TRY(run_wave(r, epoch, step, first, save));
    r->stop.listens = false;
    return DT_OK;
}

/* Until what the ranks of a node share is visible to all of them. */
static dt_status publish(dt_run *r, double *mark)
{
    dt_phase_charge(r, DT_PHASE_update, mark);
    DT_TRY(dt_exchange_publish(r->exchange));
    dt_phase_charge(r, DT_PHASE_exchange, mark);
    return DT_OK;
}

/* Every rank updates what it owns; where the node shares its weights, all of them become
 * visible before they are packed, and all packed copies before the next step. */
static dt_status update(dt_run *r, const float *sum, const dt_span *owned, size_t spans,
                        const dt_moment *moments, double lr, double *mark)
{
    for (size_t i = 0; i < spans; i++)
        dt_optim_step(&r->optim, owned[i], sum, lr);
    DT_TRY(publish(r, mark));
    if (r->writes)
        dt_model_update_running(r->model, moments);
    if (r->shares)
        dt_model_pack_part(r->model, dt_comm_node_rank(r->comm), dt_comm_node_ranks(r->comm));
    else
        dt_model_pack(r->model, 0, dt_net_slab_floats(r->net));
    return publish(r, mark);
}

/* Before the first update no rate is to blame. */
static dt_status loss_failed(const dt_run *r, int64_t epoch, int64_t step,
                             const dt_step_result *result)
{
    char remedy[PATH_MAX + 64];

    if (epoch + step > 0)
        snprintf(remedy, sizeof remedy, "lower --lr (now %g) or use --warmup", result->lr);
    else if (r->o.init[0])
        snprintf(remedy, sizeof remedy, "no weight has changed yet: the model %s gives it",
                 r->o.init);
    else
        snprintf(remedy, sizeof remedy, "no weight has changed yet: the images give it");
    return dt_fail(DT_NUMERIC, "epoch %lld step %lld: the loss of the global batch is %g; %s",
                   (long long)epoch + 1, (long long)step + 1, result->loss, remedy);
}

dt_status dt_run_step(dt_run *r, int64_t epoch, int64_t step, bool save, dt_step_result *result)
{
    const int64_t n = dt_loader_batch(r->loader, step);
    const int64_t global_step = epoch * r->steps_per_epoch + step;
    const double lr = dt_schedule_lr(&r->schedule, global_step);
    const float *sum = NULL;
    const void *loss_leaf = NULL, *moments = NULL;
    const dt_span *owned = NULL;
    size_t spans = 0;
    double mark;

    dt_place_step(global_step + 1);
    DT_TRY(dt_checks_begin(r->checks, epoch, step));
    DT_TRY(run_waves(r, epoch, step, save));

    mark = dt_seconds();
    dt_place_phase(DT_AT_exchange);
    DT_TRY(dt_exchange_finish(r->exchange, &sum, &owned, &spans));
    DT_TRY(dt_reduce_finish(r->loss_tree, &loss_leaf));
    DT_TRY(dt_reduce_finish(r->moment_tree, &moments));
    dt_phase_charge(r, DT_PHASE_exchange, &mark);

    const double *loss = loss_leaf, mean = dt_nan_unsigned(loss[DT_LEAF_loss] / (double)n);
    *result = (dt_step_result){.undone = loss[DT_LEAF_left] > 0,
                               .loss = mean,
                               .lr = lr,
                               .images = n,
                               .accuracy = loss[DT_LEAF_correct] / (double)n,
                               .save = loss[DT_LEAF_save] > 0,
                               .stop = loss[DT_LEAF_left] + loss[DT_LEAF_hails] > 0};
    DT_TRY(dt_stop_settle(r, (int64_t)loss[DT_LEAF_hails]));
    if (result->undone)
        return DT_OK;
    if (!isfinite(mean)) {
        DT_TRY(dt_checks_now(r->checks));
        return dt_comm_agree(r->comm, loss_failed(r, epoch, step, result));
    }
    dt_place_phase(DT_AT_checks);
    DT_TRY(dt_checks_before_update(r->checks));
    dt_phase_charge(r, DT_PHASE_checks, &mark);
    dt_place_phase(DT_AT_update);
    DT_TRY(update(r, sum, owned, spans, moments, lr, &mark));
    dt_place_phase(DT_AT_checks);
    dt_checks_after_update(r->checks);
    dt_phase_charge(r, DT_PHASE_checks, &mark);
    return DT_OK;
}

/* One training step: the way of the data, as the design tells it. */
#include "run.h"

#include <math.h>

#include "checks.h"

#define X(name) #name,
const char *const dt_phase_name[DT_PHASE_COUNT] = {DT_PHASE_LIST(X)};
#undef X

void dt_phase_charge(dt_run *r, dt_phase phase, double *mark)
{
    const double now = dt_seconds();
    r->phase_s[phase] += now - *mark;
    *mark = now;
}

dt_exec *dt_run_exec(const dt_run *r, int64_t batch)
{
    for (int i = 0; i < DT_MAX_COMPILED; i++)
        if (r->train[i].plan && dt_plan_batch(r->train[i].plan) == batch)
            return r->train[i].exec;
    return NULL;
}

static dt_status gradient_ready(void *context, size_t floats_done)
{
    dt_run *r = context;
    dt_checks_gradient(r, floats_done);
    return dt_exchange_ready(r->exchange, floats_done);
}

/* An uneven last batch may leave a shard without images: its leaf is +0.0. */
static dt_status empty_shard(dt_run *r, float *grad, dt_moment *moments)
{
    memset(grad, 0, dt_net_slab_floats(r->net) * sizeof *grad);
    memset(moments, 0, dt_net_norm_channels(r->net) * sizeof *moments);
    return dt_exchange_ready(r->exchange, dt_net_slab_floats(r->net));
}

/* What a signal asks for after the rank's last look still counts for this step. */
dt_status dt_run_push(dt_run *r, const dt_result *result, bool save, bool last)
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

/* The images' way through the network, there and back. */
static dt_status run_images(dt_run *r, int64_t epoch, int64_t step, int shard, float *grad,
                            dt_moment *moments, dt_result *result)
{
    const int64_t n = dt_loader_batch(r->loader, step);
    const int64_t size = dt_shard_size(n, (int)r->o.shards, shard, NULL);
    const dt_observer observer = {gradient_ready, r};
    double mark = dt_seconds();

    DT_TRY(dt_stop_listen(r));
    if (size == 0)
        return empty_shard(r, grad, moments);
    dt_exec *e = dt_run_exec(r, size);
    if (!e)
        return dt_fail(DT_BUG, "no plan for a shard of %lld images", (long long)size);
    dt_loader_train(r->loader, epoch, step, shard, dt_exec_input(e), dt_exec_labels(e));
    dt_checks_shard(r, shard, e, grad);
    dt_phase_charge(r, DT_PHASE_data, &mark);
    DT_TRY(dt_exec_forward(e, moments, result));
    dt_phase_charge(r, DT_PHASE_forward, &mark);
    DT_TRY(dt_exec_backward(e, (double)n / r->sample_weight, grad, &observer));
    dt_phase_charge(r, DT_PHASE_backward, &mark);
    dt_checks_loss(r, shard, result);
    return DT_OK;
}

/* A shard that was left off still takes its place in the sums, with what lies there: the
 * others wait for it, and all will discard them. */
static dt_status run_shard(dt_run *r, int64_t epoch, int64_t step, int shard, bool save)
{
    float *grad = dt_exchange_leaf(r->exchange);
    dt_moment *moments = dt_reduce_leaf(r->moment_tree);
    dt_result result = {0, 0};

    dt_status st = run_images(r, epoch, step, shard, grad, moments, &result);
    if (st == DT_PREEMPTED) {
        r->stop.left = true;
        st = dt_exchange_ready(r->exchange, dt_net_slab_floats(r->net));
    }
    DT_TRY(st);
    return dt_run_push(r, &result, save, shard == r->end_shard - 1);
}

static dt_status run_shards(dt_run *r, int64_t epoch, int64_t step, bool save)
{
    if (r->lockstep)
        return dt_run_shards_together(r, epoch, step, save);
    r->stop.listens = true;
    for (int shard = r->first_shard; shard < r->end_shard; shard++)
        DT_TRY(run_shard(r, epoch, step, shard, save));
    r->stop.listens = false;
    return DT_OK;
}

/* Every rank updates what it owns; where the node shares its weights, all of them become
 * visible before they are packed, and all packed copies before the next step. */
static dt_status update(dt_run *r, const float *sum, const dt_span *owned, size_t spans,
                        const dt_moment *moments, double lr)
{
    for (size_t i = 0; i < spans; i++)
        dt_optim_step(&r->optim, owned[i], sum, lr);
    DT_TRY(dt_exchange_publish(r->exchange));
    if (r->writes)
        dt_model_update_running(r->model, moments);
    if (r->shares)
        dt_model_pack_part(r->model, dt_comm_node_rank(r->comm), dt_comm_node_ranks(r->comm));
    else
        dt_model_pack(r->model, 0, dt_net_slab_floats(r->net));
    return dt_exchange_publish(r->exchange);
}

dt_status dt_run_step(dt_run *r, int64_t epoch, int64_t step, bool save,
                      dt_step_result *result)
{
    const int64_t n = dt_loader_batch(r->loader, step);
    const int64_t global_step = epoch * r->steps_per_epoch + step;
    const double lr = dt_schedule_lr(&r->schedule, global_step);
    const float *sum = NULL;
    const void *loss_leaf = NULL, *moments = NULL;
    const dt_span *owned = NULL;
    size_t spans = 0;
    double mark;

    DT_TRY(dt_checks_begin(r, epoch, step));
    DT_TRY(run_shards(r, epoch, step, save));

    mark = dt_seconds();
    DT_TRY(dt_exchange_finish(r->exchange, &sum, &owned, &spans));
    DT_TRY(dt_reduce_finish(r->loss_tree, &loss_leaf));
    DT_TRY(dt_reduce_finish(r->moment_tree, &moments));
    dt_phase_charge(r, DT_PHASE_exchange, &mark);

    const double *loss = loss_leaf, mean = loss[DT_LEAF_loss] / (double)n;
    *result = (dt_step_result){.undone = loss[DT_LEAF_left] > 0, .loss = mean, .lr = lr,
                               .images = n, .accuracy = loss[DT_LEAF_correct] / (double)n,
                               .save = loss[DT_LEAF_save] > 0,
                               .stop = loss[DT_LEAF_left] + loss[DT_LEAF_hails] > 0};
    DT_TRY(dt_stop_settle(r, (int64_t)loss[DT_LEAF_hails]));
    if (result->undone)
        return DT_OK;
    if (!isfinite(mean)) {
        DT_TRY(dt_checks_now(r));
        return dt_comm_agree(r->comm, dt_fail(DT_NUMERIC, "epoch %lld step %lld: the loss of the global batch is %g; "
                       "lower --lr (now %g) or use --warmup",
                       (long long)epoch + 1, (long long)step + 1, mean, lr));
    }
    DT_TRY(dt_checks_before_update(r));
    dt_phase_charge(r, DT_PHASE_checks, &mark);
    DT_TRY(update(r, sum, owned, spans, moments, lr));
    dt_phase_charge(r, DT_PHASE_update, &mark);
    dt_checks_after_update(r);
    dt_phase_charge(r, DT_PHASE_checks, &mark);
    return DT_OK;
}

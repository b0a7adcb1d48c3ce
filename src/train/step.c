/* One training step: the way of the data, as the design tells it. */
#include "run.h"

#include <math.h>
#include <time.h>

#define X(name) #name,
const char *const dt_phase_name[DT_PHASE_COUNT] = {DT_PHASE_LIST(X)};
#undef X

double dt_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Charge the time since *mark to a phase. */
static void clock_lap(dt_run *r, dt_phase phase, double *mark)
{
    const double now = dt_seconds();
    r->phase_s[phase] += now - *mark;
    *mark = now;
}

static dt_exec *exec_for(dt_run *r, int64_t batch)
{
    for (int i = 0; i < DT_MAX_COMPILED; i++)
        if (r->train[i].plan && dt_plan_batch(r->train[i].plan) == batch)
            return r->train[i].exec;
    return NULL;
}

static dt_status gradient_ready(void *context, size_t floats_done)
{
    dt_run *r = context;
    return dt_exchange_ready(r->exchange, floats_done);
}

/* An uneven last batch may leave a shard without images: its leaf is +0.0. */
static dt_status empty_shard(dt_run *r, float *grad, dt_moment *moments, double *loss)
{
    memset(grad, 0, dt_net_slab_floats(r->net) * sizeof *grad);
    memset(moments, 0, dt_net_norm_channels(r->net) * sizeof *moments);
    loss[0] = loss[1] = 0;
    return dt_exchange_ready(r->exchange, dt_net_slab_floats(r->net));
}

static dt_status run_shard(dt_run *r, int64_t epoch, int64_t step, int shard)
{
    const int64_t n = dt_loader_batch(r->loader, step);
    const int64_t size = dt_shard_size(n, (int)r->o.shards, shard, NULL);
    const dt_observer observer = {gradient_ready, r};
    float *grad = dt_exchange_leaf(r->exchange);
    dt_moment *moments = dt_tree_leaf(r->moment_tree);
    double *loss = dt_tree_leaf(r->loss_tree), mark = dt_seconds();
    dt_result result;

    if (size == 0) {
        DT_TRY(empty_shard(r, grad, moments, loss));
    } else {
        dt_exec *e = exec_for(r, size);
        if (!e)
            return dt_fail(DT_BUG, "no plan for a shard of %lld images", (long long)size);
        dt_loader_train(r->loader, epoch, step, shard, dt_exec_input(e), dt_exec_labels(e));
        clock_lap(r, DT_PHASE_data, &mark);
        DT_TRY(dt_exec_forward(e, moments, &result));
        clock_lap(r, DT_PHASE_forward, &mark);
        DT_TRY(dt_exec_backward(e, (double)n, grad, &observer));
        clock_lap(r, DT_PHASE_backward, &mark);
        loss[0] = result.loss_sum;
        loss[1] = (double)result.correct;
    }
    dt_tree_push(r->moment_tree);
    dt_tree_push(r->loss_tree);
    return DT_OK;
}

dt_status dt_run_step(dt_run *r, int64_t epoch, int64_t step, dt_step_result *result)
{
    const int64_t n = dt_loader_batch(r->loader, step);
    const int64_t global_step = epoch * r->steps_per_epoch + step;
    const double lr = dt_schedule_lr(&r->schedule, global_step);
    const float *sum = NULL;
    const void *loss = NULL, *moments = NULL;
    dt_span owned;
    double mark;

    for (int shard = r->first_shard; shard < r->end_shard; shard++)
        DT_TRY(run_shard(r, epoch, step, shard));

    mark = dt_seconds();
    DT_TRY(dt_exchange_finish(r->exchange, &sum, &owned));
    DT_TRY(dt_tree_finish(r->loss_tree, &loss));
    DT_TRY(dt_tree_finish(r->moment_tree, &moments));
    clock_lap(r, DT_PHASE_exchange, &mark);

    const double mean = ((const double *)loss)[0] / (double)n;
    if (!isfinite(mean))
        return dt_comm_agree(r->comm, dt_fail(DT_NUMERIC, "epoch %lld step %lld: the loss of the global batch is %g; "
                       "lower --lr (now %g) or use --warmup",
                       (long long)epoch + 1, (long long)step + 1, mean, lr));
    dt_optim_step(&r->optim, owned, sum, lr);
    DT_TRY(dt_exchange_publish(r->exchange));
    dt_model_pack(r->model, 0, dt_net_slab_floats(r->net));
    dt_model_update_running(r->model, moments);
    clock_lap(r, DT_PHASE_update, &mark);

    *result = (dt_step_result){.loss = mean, .lr = lr, .images = n,
                               .accuracy = ((const double *)loss)[1] / (double)n};
    return DT_OK;
}

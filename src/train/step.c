/* step.c - one training step, from images to weights: dt_run_step at the end is the
 * whole of it, the functions before are its parts. */
#include "signals.h"

/* ---- Forward and backward, shard by shard ------------------------------------------------ */

/* A shard without images: all that it gives to sums is zero. */
static void clear_shard(const dt_run *r, int k)
{
    const dt_contexts *c = &r->contexts;

    for (int d = 0; d < r->domains; d++)
        if (c->grad[d][k])
            memset(c->grad[d][k], 0, dt_model_floats(r->model, (dt_slab_kind)d) * sizeof(float));
    memset(c->moments[k], 0, r->net->norm_channels * sizeof(dt_moment));
}

/* The images of the wave's shards, from `first` on, straight into the network's input. An uneven
 * last batch may leave a shard without images: its leaves are +0.0. */
static dt_status load_wave(dt_run *r, int64_t epoch, int64_t step, int first)
{
    const int64_t n = dt_loader_batch(r->loader, step);
    dt_contexts *c = &r->contexts;

    for (int k = 0; k < c->wave.count; k++) {
        const int64_t size = dt_shard_size(n, (int)r->o.shards, first + k, NULL);
        const bool home = dt_contexts_home(c, k);
        DT_TRY(dt_contexts_find(c, k, size));
        for (int d = 0; d < r->domains; d++) /* all ranks of a group compute its cut layers */
            c->grad[d][k] =
                home || d == DT_SLAB_CUT ? dt_exchange_leaf(r->domain[d].exchange) : NULL;
        if (!c->now[k])
            clear_shard(r, k);
        if (!c->now[k] || !home)
            continue;
        dt_loader_train(r->loader, epoch, step, first + k, c->now[k]->input, c->now[k]->labels);
        DT_OBSERVE(r->observed, shard, first + k, c->grad[DT_SLAB_HOME][k]);
    }
    return DT_OK;
}

/* Backward reports how much of the gradient is final: the exchange sends that meanwhile. */
static dt_status gradient_ready(void *context, const size_t floats_done[DT_DOMAINS])
{
    dt_run *r = context;

    DT_OBSERVE(r->observed, gradient, floats_done[DT_SLAB_HOME]);
    for (int d = r->domains; d-- > 0;)
        DT_TRY(dt_exchange_ready(r->domain[d].exchange, floats_done[d]));
    return DT_OK;
}

/* A shard's small values for the trees over all shards. Requests to save and to stop travel with
 * the loss, so that all ranks obey after the same step. */
static void push_shard(dt_run *r, int k, int shard, bool save)
{
    const dt_result *result = &r->contexts.result[k];
    double *loss = dt_reduce_leaf(r->loss_tree);

    r->own_loss += result->loss_sum;
    loss[DT_SUM_LOSS] = result->loss_sum;
    loss[DT_SUM_FIRST_LOSS] = shard == 0 ? result->loss_sum : 0;
    loss[DT_SUM_SAVE] = save;
    loss[DT_SUM_STOP] = dt_signals_stop() != 0;
    dt_reduce_push(r->loss_tree);
    memcpy(dt_reduce_leaf(r->moment_tree), r->contexts.moments[k],
           r->net->norm_channels * sizeof(dt_moment));
    dt_reduce_push(r->moment_tree);
}

static dt_status run_wave(dt_run *r, int64_t epoch, int64_t step, int first, bool save)
{
    const double n = (double)dt_loader_batch(r->loader, step);
    const dt_observer observer = {gradient_ready, r};
    dt_contexts *c = &r->contexts;

    dt_activity_phase(DT_AT_data);
    DT_TRY(load_wave(r, epoch, step, first));
    dt_activity_phase(DT_AT_forward);
    DT_TRY(dt_exec_forward(&c->wave, c->moments, c->result));
    DT_TRY(dt_grid_moments(r));
    dt_activity_phase(DT_AT_backward);
    DT_TRY(dt_grid_turned(r));
    DT_TRY(dt_exec_backward(&c->wave, n / r->sample_weight, c->grad[DT_SLAB_HOME], &observer));
    for (int k = c->wave.first_home; k < c->wave.first_home + c->wave.homes; k++) {
        DT_OBSERVE(r->observed, loss, first + k, &c->result[k]);
        push_shard(r, k, first + k, save);
    }
    return DT_OK;
}

/* ---- Sums over all shards, and what is made of them -------------------------------------- */

typedef struct sums {
    dt_exchange_sum gradient[DT_DOMAINS];
    const double *loss;       /* [DT_SUM_COUNT] */
    const dt_moment *moments; /* of batch norms, for the running statistics */
    int64_t asked[2];         /* to save, to stop: by ranks without shards, too */
} sums;

static dt_status sum_up(dt_run *r, sums *s, bool save)
{
    dt_activity_phase(DT_AT_exchange);
    *s = (sums){.asked = {save, dt_signals_stop() != 0}};
    for (int d = 0; d < r->domains; d++)
        DT_TRY(dt_exchange_finish(r->domain[d].exchange, &s->gradient[d]));
    if (r->comm->world > r->o.shards) /* some have no leaf for it */
        DT_TRY(dt_comm_max_i64(r->comm, s->asked, 2));
    DT_TRY(dt_reduce_finish(r->loss_tree));
    DT_TRY(dt_reduce_finish(r->moment_tree));
    s->loss = dt_reduce_result(r->loss_tree, 0);
    s->moments = dt_reduce_result(r->moment_tree, 0);
    if (r->comm->world <= r->o.shards) {
        s->asked[0] = s->loss[DT_SUM_SAVE] > 0;
        s->asked[1] = s->loss[DT_SUM_STOP] > 0;
    }
    return DT_OK;
}

/* Before the first update no rate is to blame. */
static dt_status loss_failed(const dt_run *r, int64_t epoch, int64_t step, double loss, double lr)
{
    char remedy[PATH_MAX + 64];

    if (epoch + step > 0)
        snprintf(remedy, sizeof remedy, "lower --lr (now %g) or use --warmup", lr);
    else
        snprintf(remedy, sizeof remedy, "no weight has changed yet: %s%s gives it",
                 r->o.init[0] ? "the model " : "one of the images", r->o.init);
    return dt_fail(DT_NUMERIC, "epoch %lld step %lld: the loss of the global batch is %g; %s",
                   (long long)epoch + 1, (long long)step + 1, loss, remedy);
}

/* Until what one rank of the node wrote is visible to the others. */
static dt_status publish(dt_run *r)
{
    dt_activity_phase(DT_AT_exchange);
    return dt_exchange_publish(dt_run_exchange(r));
}

static void pack(dt_run *r)
{
    if (r->shares)
        dt_model_pack(r->model, r->comm->node_rank, r->comm->node_ranks);
    else
        dt_model_pack(r->model, 0, 1);
}

dt_status dt_run_pack(dt_run *r)
{
    DT_TRY(dt_grid_turn(r));
    pack(r);
    return publish(r);
}

void dt_run_bind(dt_run *r, const dt_weights *w)
{
    const dt_domain *cut = &r->domain[DT_SLAB_CUT];

    dt_model_bind(r->model, w, r->domain[DT_SLAB_HOME].packed.mem);
    dt_model_bind_cut(r->model, w == &r->average ? cut->average.mem : cut->master.mem,
                      r->grid.by_input.mem, cut->packed.mem);
}

dt_status dt_run_use(dt_run *r, const dt_weights *w)
{
    dt_run_bind(r, w);
    pack(r);
    return dt_exchange_publish(dt_run_exchange(r));
}

/* How much of the new weights the average takes in. Lookahead's decay grows with the cube of the
 * run to 0.95^5 (alpha_schedule in airbench94 of github.com/KellerJordan/cifar10-airbench). */
static float average_part(const dt_run *r, int64_t step)
{
    const double length = (double)(r->schedule.warmup + r->schedule.steps);
    const double at = DT_MIN((double)(step + 1) / length, 1.0);

    if (r->o.lookahead == 0)
        return step == 0 ? 1 : (float)(1 - r->o.ema);
    return (step + 1) % r->o.lookahead ? 0 : (float)(1 - 0.7737809375 * (at * at * at));
}

/* The average takes in its part; with lookahead the numbers then become the average. */
static void average_step(const dt_run *r, float *average, float *x, size_t count, float part,
                         int threads)
{
    if (part > 0)
        dt_average_step(average, x, count, part, threads);
    if (part > 0 && r->o.lookahead > 0)
        dt_average_step(x, average, count, 1, threads);
}

/* What this rank owns of a domain. */
static void update_domain(const dt_run *r, const dt_domain *d, const dt_exchange_sum *g, double lr,
                          int64_t step)
{
    const float part = average_part(r, step);
    float *master = d->master.mem, *average = d->average.mem;

    for (size_t i = 0; i < g->spans; i++) {
        const dt_span own = g->owned[i];
        dt_optim_step(&d->optim, own, g->sum, lr, step / r->steps_per_epoch);
        if (d->average.bytes > 0)
            average_step(r, average + own.first, master + own.first, own.count, part, r->threads);
    }
}

/* Every rank updates what it owns. Where the node shares its weights, all of them become visible
 * before they are packed for the kernels, and all packed copies before the next step. */
static dt_status update(dt_run *r, const sums *s, double lr, int64_t step)
{
    dt_activity_phase(DT_AT_update);
    for (int d = 0; d < r->domains; d++)
        update_domain(r, &r->domain[d], &s->gradient[d], lr, step);
    DT_TRY(publish(r));
    dt_activity_phase(DT_AT_update);
    if (r->writes)
        dt_model_update_running(r->model, s->moments);
    if (r->writes && r->average.net) /* means and variances */
        average_step(r, r->average.running_mean, r->weights.running_mean, 2 * r->net->norm_channels,
                     average_part(r, step), 1);
    return dt_run_pack(r);
}

/* For this rank's log: no sum over ranks, and no result depends on it. */
static double own_loss(const dt_run *r, int64_t n, double loss)
{
    int64_t images = 0;

    for (int k = r->first_shard; k < r->end_shard; k++)
        images += dt_shard_size(n, (int)r->o.shards, k, NULL);
    return images > 0 && images < n ? r->own_loss / (double)images : loss;
}

/* ---- The step ------------------------------------------------------------------------------ */

dt_status dt_run_step(dt_run *r, int64_t epoch, int64_t step, bool save, dt_step_result *result)
{
    const int64_t n = dt_loader_batch(r->loader, step);
    const int64_t global_step = epoch * r->steps_per_epoch + step;
    const double of_first = (double)dt_shard_size(n, (int)r->o.shards, 0, NULL);
    const double lr = dt_schedule_lr(&r->schedule, global_step);
    const int64_t began = dt_activity_clock();
    sums s;

    dt_activity_step(global_step + 1);
    dt_activity_phase(DT_AT_data);
    DT_OBSERVE(r->observed, begin, epoch, step);
    r->own_loss = 0;
    for (int first = r->grid.first; first < r->grid.end; first += r->contexts.wave.count)
        DT_TRY(run_wave(r, epoch, step, first, save));
    DT_TRY(sum_up(r, &s, save));
    const double loss = dt_nan_unsigned(s.loss[DT_SUM_LOSS] / (double)n);
    *result = (dt_step_result){.save = s.asked[0] != 0,
                               .stop = s.asked[1] != 0,
                               .record = {.epoch = epoch + 1,
                                          .step = step + 1,
                                          .run_step = global_step + 1,
                                          .loss = loss,
                                          .first_loss = s.loss[DT_SUM_FIRST_LOSS] / of_first,
                                          .own_loss = own_loss(r, n, loss),
                                          .lr = lr,
                                          .images = n}};
    dt_activity_phase(DT_AT_checks);
    if (!isfinite(loss) && !r->grid.trial) {
        DT_OBSERVE_TRY(r->observed, check, DT_CHECK_END);
        return dt_comm_agree(r->comm, loss_failed(r, epoch, step, loss, lr));
    }
    DT_OBSERVE_TRY(r->observed, check, DT_CHECK_STEP);
    DT_TRY(update(r, &s, lr, global_step));
    dt_activity_phase(DT_AT_checks);
    DT_OBSERVE(r->observed, updated, global_step + 1);
    dt_activity_phase(DT_AT_between);
    dt_record(DT_LANE_STEP, 0, (uint64_t)global_step + 1, began);
    return DT_OK;
}

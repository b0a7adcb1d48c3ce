/* checked.c - a run as checks, files and hashes see it. */
#include "run.h"

dt_weights dt_run_weights(const dt_run *r)
{
    float *running = r->running.mem;
    return (dt_weights){.net = r->net,
                        .master = r->master.mem,
                        .running_mean = running,
                        .running_var = running + dt_net_norm_channels(r->net)};
}

static dt_status run_again(void *context, int64_t epoch, int64_t step, int shard, float *grad,
                           dt_result *result)
{
    const dt_run *r = context;
    const int64_t n = dt_loader_batch(r->loader, step);
    dt_exec *e = NULL;
    const dt_wave alone = {.exec = &e, .count = 1};

    DT_TRY(dt_contexts_find(&r->contexts, 0, dt_shard_size(n, (int)r->o.shards, shard, NULL), &e));
    dt_loader_train(r->loader, epoch, step, shard, dt_exec_input(e), dt_exec_labels(e));
    DT_TRY(dt_exec_forward(&alone, NULL, result));
    return dt_exec_backward(&alone, (double)n / r->sample_weight, &grad, NULL);
}

dt_check_subject dt_run_subject(dt_run *r)
{
    return (dt_check_subject){.comm = r->comm,
                              .o = &r->o,
                              .net = r->net,
                              .model = r->model,
                              .loader = r->loader,
                              .threads = r->threads,
                              .first_shard = r->first_shard,
                              .bn_group = r->bn_group,
                              .shares = r->shares,
                              .diverges =
                                  r->exchange && strcmp(dt_exchange_name(r->exchange), "none") == 0,
                              .steps_per_epoch = r->steps_per_epoch,
                              .weights = dt_run_weights(r),
                              .momentum = r->momentum.mem,
                              .room = r->check_room.mem,
                              .run_again = run_again,
                              .context = r};
}

/* preview.c - a network built only to be looked at: no data, no memory for its slabs. */
#include "cli.h"

/* Without data: the number of classes of CIFAR-10. */
enum { PREVIEW_CLASSES = 10 };

dt_status dt_preview_open(dt_preview *s, const dt_options *given, int world)
{
    dt_options o = *given;
    dt_model_opts model = {
        .kernels = o.kernels, .label_smoothing = (float)o.label_smoothing, .unfused = o.unfused};
    dt_machine machine;

    *s = (dt_preview){0};
    DT_TRY(dt_options_check(&o, world));
    const dt_net_spec spec = dt_options_net(&o, PREVIEW_CLASSES);
    DT_TRY(dt_precision_choose(o.precision, o.kernels, &model.precision));
    dt_machine_describe(&machine);
    model.threads = o.threads ? (int)o.threads : machine.cores_allowed;
    DT_TRY(dt_net_create(&s->net, &spec));
    dt_options_resolve(&o, s->net);
    model.loss_epsilon = (float)o.loss_epsilon;
    DT_TRY(dt_model_create(&s->model, s->net, &model));
    const int64_t largest = dt_shard_size(o.global_batch, (int)o.shards, 0, NULL);
    return dt_plan_create(&s->plan, s->model, largest, DT_TRAIN);
}

void dt_preview_close(dt_preview *s)
{
    dt_plan_destroy(s->plan);
    dt_model_destroy(s->model);
    dt_net_destroy(s->net);
}

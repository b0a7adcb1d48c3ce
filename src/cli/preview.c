/* preview.c - a network built only to be looked at: no data, no memory for its slabs. */
#include "cli.h"

/* Without data: the number of classes of CIFAR-10. */
enum { PREVIEW_CLASSES = 10 };

static dt_status preview_build(dt_preview *s, const dt_options *given, int world)
{
    dt_options o = *given;
    dt_model_opts model = {.kernels = o.kernels, .label_smoothing = (float)o.label_smoothing};
    dt_machine machine;

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

dt_status dt_preview_show(dt_comm *c, const dt_options *o, void (*show)(const dt_preview *p))
{
    dt_preview p = {0};
    dt_status st = DT_OK;

    if (dt_comm_rank(c) == 0)
        st = preview_build(&p, o, dt_comm_world(c));
    if (p.plan)
        show(&p);
    dt_plan_destroy(p.plan);
    dt_model_destroy(p.model);
    dt_net_destroy(p.net);
    return dt_comm_agree(c, st);
}

/* run_open.c - opening a run: options -> data -> network and plans -> memory -> ranks compared.
 * After each phase in which one rank can fail alone, the ranks agree. */
#include "run.h"

/* ---- Options ------------------------------------------------------------------------ */

const struct dt_run_split *dt_run_split;

dt_status dt_strategy_load(dt_options *o, char line[DT_OPTION_CHARS])
{
    DT_TRY(dt_options_check_cuts(o));
    return dt_run_split->load(o, line);
}

static int threads_of(const dt_comm *c, const dt_options *o)
{
    const int threads = o->threads ? (int)o->threads : dt_threads_auto(c);
    const char *from = o->threads ? "--threads" : "OMP_NUM_THREADS";
    int cores;
    const int allowed = dt_cores(&cores);

    if (threads > allowed)
        dt_warn("%s %d, but a rank may use %d of %d cores: %s%s", from, threads, allowed, cores,
                allowed < cores ? "start mpirun with --bind-to none" : "lower ",
                allowed < cores ? "" : from);
    return threads;
}

static dt_status open_options(dt_run *r, const dt_options *o)
{
    r->o = *o;
    if (!r->trains) { /* test images are dealt to ranks, not to shards */
        r->o.shards = r->o.accum = 0;
        r->o.dry_run = false; /* of training alone */
        r->o.strategy = "";
    }
    DT_TRY(dt_options_check(&r->o, r->comm->world));
    dt_shards_of((int)r->o.shards, r->comm->world, r->comm->rank, &r->first_shard, &r->end_shard);
    r->grid.first = r->first_shard; /* until this rank has others to cut layers with */
    r->grid.end = r->end_shard;
    if (r->trains && !o->init_head && !o->init[0])
        return dt_fail(DT_CONFIG, "--no-init-head keeps the last layer of --init's model out, but "
                                  "there is no --init: give a model, or leave it out");
    r->sample_weight = strcmp(r->o.reduce, "sum") == 0 ? (double)r->o.shards : 1;
    if (r->grid.parts > 0) { /* a trial of the run that has entered its affinity */
        r->threads = (int)o->threads;
    } else { /* before any memory is taken, so that it lies near the threads */
        r->threads = threads_of(r->comm, o);
        dt_affinity_find(&r->affinity, r->comm->machine_rank, r->comm->machine_ranks, r->threads);
        dt_affinity_enter(&r->affinity, r->threads);
    }
    DT_TRY(dt_precision_choose(r->o.precision, &r->precision));
    r->o.precision = dt_dtype_name(r->precision); /* a resumed run keeps it, on any CPU */
    return DT_OK;
}

/* ---- Data: once per node -------------------------------------------------------------- */

static dt_status check_data_memory(dt_run *r)
{
    const uint64_t available = dt_memory_available(), bytes = dt_source_bytes(r->source);

    r->node_free = available; /* before the run takes any of it */
    if (available > 0 && bytes > available)
        return dt_fail(DT_NOMEM,
                       "the data set '%s' needs %.1f MiB in memory, but %.1f MiB are available; "
                       "take fewer images (to train: --subset N)",
                       r->o.data, (double)bytes / 1048576.0, (double)available / 1048576.0);
    return DT_OK;
}

static dt_status open_source(dt_run *r)
{
    dt_activity_phase(DT_AT_data);
    if (r->source)
        return DT_OK;
    DT_TRY(dt_comm_agree(r->comm, dt_source_open(&r->source, dt_path_moved(r->o.data), r->o.subset,
                                                 (uint32_t)r->o.seed)));
    return dt_comm_agree(r->comm, dt_source_hold_out(r->source, r->o.holdout));
}

static dt_status open_data(dt_run *r)
{
    const bool reads = r->comm->node_rank == 0;

    dt_source_fit(r->source, r->net->spec.image_size, r->height, r->width);
    DT_TRY(dt_comm_agree(r->comm, check_data_memory(r)));
    DT_TRY(
        dt_node_slab_create(&r->data_memory, r->comm, dt_source_bytes(r->source), "the data set"));
    DT_TRY(dt_comm_agree(r->comm, dt_source_load(r->source, r->data_memory.mem, reads)));
    dt_activity_phase(DT_AT_begin);
    return DT_OK;
}

static dt_status open_loader(dt_run *r)
{
    const dt_loader_opts opts = {
        .augment = r->o.augment,
        .normalize = r->o.normalize,
        .resize = r->o.resize,
        .cutout = (int)r->o.cutout,
        .image_size = r->net->spec.image_size,
        .type = r->precision,
        .seed = (uint32_t)r->o.seed,
        .global_batch = r->o.global_batch,
        .shards = (int)r->o.shards,
        .drop_remainder = r->trains && r->o.drop_remainder,
        .threads = r->threads,
    };
    return dt_loader_create(&r->loader, r->source, &opts);
}

/* ---- Network and plans ------------------------------------------------------------------ */

/* A wave is the rank's shards if they share statistics, all of its group where layers are cut, else
 * one. Plans are of a full batch's and the last one's first shard and last: no other has another
 * size. */
static dt_status compile_training(dt_run *r)
{
    const bool all = r->bn_group > 0 || dt_grid_cuts(r);
    const int64_t last = dt_loader_batch(r->loader, r->steps_per_epoch - 1);
    const int shards = (int)r->o.shards;
    dt_wave *w = &r->contexts.wave;

    w->count = all ? r->grid.end - r->grid.first : 1;
    w->homes = all ? r->end_shard - r->first_shard : 1;
    w->first_home = r->first_shard - r->grid.first;
    for (int i = 0; i < DT_MAX_PLANS; i++) {
        const int shard = i % 2 ? shards - 1 : 0;
        const int64_t size = dt_shard_size(i < 2 ? r->o.global_batch : last, shards, shard, NULL);
        if (size > 0)
            DT_TRY(dt_contexts_add(r, &r->contexts, size, DT_TRAIN));
    }
    return DT_OK;
}

/* Chunks large enough for the kernels, small enough for memory; from the image alone. */
static dt_status compile_test(dt_run *r)
{
    const int64_t images = dt_source_describe(r->source)->test;

    r->test_chunk = DT_MIN(r->net->spec.image_size <= 64 ? 100 : 25, images);
    r->test.wave.count = r->grid.group ? r->grid.group->world : 1; /* a chunk of each */
    r->test.wave.first_home = r->grid.trial ? 0 : r->grid.part;
    r->test.wave.homes = 1;
    DT_TRY(dt_contexts_add(r, &r->test, r->test_chunk, DT_EVAL));
    const int64_t last = images % r->test_chunk;
    return last > 0 ? dt_contexts_add(r, &r->test, last, DT_EVAL) : DT_OK;
}

static dt_status open_net(dt_run *r)
{
    const int classes = DT_MAX(dt_source_describe(r->source)->classes, r->classes);
    const dt_net_spec spec = dt_options_net(&r->o, classes);

    DT_TRY(dt_net_create(&r->net, &spec));
    dt_options_resolve(&r->o, r->net);
    return DT_OK;
}

static dt_status open_network(dt_run *r)
{
    char name[80];
    dt_model_opts opts = {.strategy = r->o.strategy,
                          .part = r->grid.part,
                          .parts = r->grid.parts,
                          .precision = r->precision,
                          .threads = r->threads,
                          .label_smoothing = (float)r->o.label_smoothing};

    opts.loss_epsilon = (float)r->o.loss_epsilon;
    opts.logit_scale = (float)r->o.logit_scale;
    /* An unknown scheme fails now, not when the model is saved. */
    if (r->trains)
        DT_TRY(dt_net_rename(r->net, r->o.names, "", name, sizeof name));
    DT_TRY(dt_model_create(&r->model, r->net, &opts));
    DT_TRY(open_loader(r));
    if (r->trains) {
        r->steps_per_epoch = dt_loader_steps(r->loader);
        r->total_steps = r->steps_per_epoch * r->o.epochs;
        const int64_t length = r->o.schedule_steps ? r->o.schedule_steps : r->total_steps;
        if (r->o.max_steps >= 0 && r->o.max_steps < r->total_steps)
            r->total_steps = r->o.max_steps;
        dt_schedule_open(&r->schedule, &r->o, r->steps_per_epoch, length);
        DT_TRY(compile_training(r));
    }
    return compile_test(r);
}

/* A layer that whitens looks at 5,000 images (main in airbench94 of
 * github.com/KellerJordan/cifar10-airbench, which takes the first ones). */
static dt_status init_model(dt_run *r)
{
    enum { IMAGES = 5000 };
    double patches[DT_PATCH][DT_PATCH];

    DT_TRY(dt_model_init(r->model, (uint32_t)r->o.seed));
    if (!r->trains || !r->net->whitens)
        return DT_OK;
    dt_source_patches(r->source, r->o.normalize, IMAGES, patches);
    dt_model_whiten(r->model, patches);
    return DT_OK;
}

/* Averages begin as the weights: lookahead counts on it, and a run of no steps saves them. */
static void begin_averages(dt_run *r)
{
    const dt_weights *average = &r->average, *w = &r->weights;
    const dt_domain *cut = &r->domain[DT_SLAB_CUT];

    if (average->net && r->writes) {
        dt_average_step(average->master, w->master, dt_model_floats(r->model, DT_SLAB_HOME), 1, 1);
        dt_average_step(average->running_mean, w->running_mean, 2 * r->net->norm_channels, 1, 1);
    }
    if (average->net && dt_grid_cuts(r))
        dt_average_step(cut->average.mem, cut->master.mem, dt_model_floats(r->model, DT_SLAB_CUT),
                        1, 1);
}

/* ---- Opening and closing ------------------------------------------------------------------ */

dt_status dt_run_open_as(dt_run *r, const dt_options *o, dt_purpose purpose)
{
    dt_comm *c = r->comm;
    dt_status st = DT_OK;

    r->trains = purpose == DT_FOR_TRAINING;
    DT_GO(st, dt_comm_agree(c, open_options(r, o)), out);
    if (r->trains)
        DT_GO(st, dt_lockstep_resolve(r), out);
    DT_GO(st, open_source(r), out);
    DT_GO(st, dt_comm_agree(c, open_net(r)), out);
    DT_GO(st, open_data(r), out);
    if (r->o.searches)
        DT_GO(st, dt_run_split->choose(r), out);
    r->domain[DT_SLAB_HOME].comm = c;
    r->domains = 1;
    if (r->grid.parts == 0) /* else it is a trial's */
        r->grid.parts = dt_options_parts(&r->o, c->world);
    if (dt_grid_cuts(r))
        DT_GO(st, dt_run_split->open(r), out);
    DT_GO(st, dt_comm_agree(c, open_network(r)), out);
    DT_GO(st, dt_fingerprint_run(r), out);
    DT_GO(st, dt_run_take_memory(r), out);
    if (r->writes || dt_grid_cuts(r)) /* every rank has pieces of its own */
        st = init_model(r);
    DT_GO(st, dt_comm_agree(c, st), out); /* no rank of the node writes weights any more */
    begin_averages(r);
    DT_GO(st, dt_comm_agree(c, DT_OK), out);
    st = dt_grid_cuts(r) ? dt_run_pack(r) : DT_OK;

out:
    if (st != DT_OK)
        dt_run_close(r);
    return st;
}

dt_status dt_run_open(dt_run *r, dt_comm *c, const dt_options *o, dt_purpose purpose)
{
    *r = (dt_run){.comm = c};
    return dt_run_open_as(r, o, purpose);
}

static void close_domain(dt_domain *d)
{
    dt_slab *const slabs[] = {&d->master, &d->momentum, &d->packed, &d->gradients, &d->average};

    dt_lockstep_close(d->sync);
    dt_optim_close(&d->optim);
    dt_exchange_close(d->exchange);
    for (size_t i = 0; i < DT_COUNT_OF(slabs); i++)
        dt_slab_destroy(slabs[i]);
}

void dt_run_close(dt_run *r)
{
    dt_observers_close(r->observed, 0);
    free(r->tally);
    dt_reduce_destroy(r->moment_tree);
    dt_reduce_destroy(r->loss_tree);
    if (dt_grid_cuts(r))
        dt_run_split->stop(r);
    for (int d = 0; d < DT_DOMAINS; d++)
        close_domain(&r->domain[d]);
    dt_contexts_close(&r->contexts);
    dt_contexts_close(&r->test);
    if (dt_grid_cuts(r))
        dt_run_split->close(r);
    dt_model_destroy(r->model);
    dt_loader_destroy(r->loader);
    dt_net_destroy(r->net);
    dt_source_close(r->source);
    dt_slab *const slabs[] = {&r->running,    &r->arena,       &r->scratch,
                              &r->check_room, &r->data_memory, &r->node_memory};
    for (size_t i = 0; i < DT_COUNT_OF(slabs); i++)
        dt_slab_destroy(slabs[i]);
    memset(r, 0, sizeof *r);
}

/* All ranks hold the same numbers, or the field that differs is named. Where layers are cut, one
 * rank alone has seen all of them. */
static dt_status compare_state(dt_run *r, const char *what)
{
    if (dt_grid_cuts(r))
        return DT_OK;

    char weights[DT_DIGEST_CHARS], all[DT_DIGEST_CHARS];
    const dt_field field = {what, all};

    DT_TRY(dt_run_hash(r, (dt_position){0}, weights, all));
    return dt_comm_same(r->comm, &field, 1);
}

dt_status dt_run_newest(dt_comm *c, const char *path, char out[PATH_MAX])
{
    memset(out, 0, PATH_MAX);
    DT_TRY(dt_comm_agree(c, c->rank == 0 ? dt_newest_model(path, out) : DT_OK));
    return dt_comm_bcast(c, out, PATH_MAX, 0);
}

static dt_status load_model(dt_run *r, const char *path, bool head)
{
    const dt_snapshot run = dt_run_snapshot(r);
    const dt_weights state = run.trained.net ? run.trained : run.model;

    DT_TRY(dt_model_load(&state, path, r->o.normalize, head));
    if (!dt_grid_cuts(r))
        dt_model_pack(r->model, 0, 1);
    return DT_OK;
}

/* The agreement is also the barrier after which the node's other ranks may read. */
dt_status dt_run_load(dt_run *r, const char *path, bool head)
{
    const bool reads = dt_grid_cuts(r) ? r->comm->rank == 0 : r->writes;

    DT_TRY(dt_grid_collect(r)); /* what the file does not say stays */
    DT_TRY(dt_comm_agree(r->comm, reads ? load_model(r, path, head) : DT_OK));
    if (dt_grid_cuts(r))
        return dt_run_broadcast(r);
    return compare_state(r, "weights of the model file");
}

dt_status dt_run_init(dt_run *r)
{
    if (!r->o.init[0])
        return DT_OK;
    DT_TRY(dt_run_newest(r->comm, r->o.init, r->init));
    DT_TRY(dt_run_load(r, r->init, r->o.init_head));
    begin_averages(r);
    return DT_OK;
}

/* Through a small buffer: where a node shares its copy, only one of its ranks may write it. */
static dt_status broadcast_slab(dt_run *r, const dt_slab *slab)
{
    enum { PART = 1 << 16 };
    char part[PART];

    for (size_t at = 0; at < slab->bytes; at += PART) {
        const size_t n = slab->bytes - at < PART ? slab->bytes - at : PART;
        char *here = (char *)slab->mem + at;
        if (r->comm->rank == 0)
            memcpy(part, here, n);
        DT_TRY(dt_comm_bcast(r->comm, part, n, 0));
        if (r->writes && r->comm->rank != 0)
            memcpy(here, part, n);
    }
    return DT_OK;
}

dt_status dt_run_broadcast(dt_run *r)
{
    const dt_domain *d = &r->domain[DT_SLAB_HOME];
    const dt_slab *const slabs[] = {&d->master, &d->momentum, &r->running, &d->average};

    DT_TRY(dt_grid_spread(r));
    if (!r->shares || r->comm->nodes > 1)
        for (size_t i = 0; i < DT_COUNT_OF(slabs); i++)
            DT_TRY(broadcast_slab(r, slabs[i]));
    DT_TRY(dt_comm_barrier(r->comm)); /* what one rank wrote, its node's others pack */
    DT_TRY(dt_run_pack(r));
    return compare_state(r, "the state sent by rank 0");
}

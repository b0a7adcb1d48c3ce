/* Opening a run: options -> data -> network and plans -> memory -> ranks compared. After
 * each phase in which one rank can fail alone, the ranks agree. */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>

#include "checks.h"
#include "fingerprint.h"
#include "modelfile.h"
#include "together.h"

/* ---- Options ------------------------------------------------------------------------ */

static int threads_of(const dt_comm *c, const dt_options *o)
{
    dt_machine m;

    if (o->threads == 0)
        return dt_threads_auto(c);
    dt_machine_describe(&m);
    if (o->threads > m.cores_allowed)
        dt_warn("--threads %lld, but a rank may use %d of %d cores: start mpirun with "
                "--bind-to none", (long long)o->threads, m.cores_allowed, m.cores);
    return (int)o->threads;
}

static dt_status open_options(dt_run *r, const dt_options *o, dt_purpose purpose)
{
    r->o = *o;
    if (purpose == DT_FOR_EVALUATION) /* test images are dealt to ranks, not to shards */
        r->o.shards = r->o.accum = 0;
    DT_TRY(dt_options_check(&r->o, dt_comm_world(r->comm)));
    dt_shards_of((int)r->o.shards, dt_comm_world(r->comm), dt_comm_rank(r->comm),
                 &r->first_shard, &r->end_shard);
    r->global_batch = r->o.global_batch;
    r->sample_weight = strcmp(r->o.reduce, "sum") == 0 ? (double)r->o.shards : 1;
    r->threads = threads_of(r->comm, o);
    return dt_precision_choose(r->o.precision, r->o.kernels, &r->precision);
}

/* ---- Data: once per node -------------------------------------------------------------- */

/* Shared it is one copy per node; a node that cannot share has one for each rank, and says
 * so. */
static dt_status check_data_memory(const dt_run *r)
{
    const uint64_t available = dt_memory_available(), bytes = dt_source_bytes(r->source);
    if (available > 0 && bytes > available)
        return dt_fail(DT_NOMEM, "the data set '%s' needs %.1f MiB in memory, but %.1f MiB are "
                       "available; take fewer images with --subset", r->o.data,
                       (double)bytes / 1048576.0, (double)available / 1048576.0);
    return DT_OK;
}

static dt_status open_data(dt_run *r)
{
    void *memory = NULL;
    bool shared = false;

    DT_TRY(dt_comm_agree(r->comm, dt_source_open(&r->source, r->o.data, r->o.subset,
                                                 (uint32_t)r->o.seed)));
    DT_TRY(dt_comm_agree(r->comm, check_data_memory(r)));
    DT_TRY(dt_node_mem_create(&r->data_memory, r->comm, dt_source_bytes(r->source),
                              "the data set", &memory, &shared));
    const bool reads = !shared || dt_comm_node_rank(r->comm) == 0;
    dt_status st = reads ? dt_source_load(r->source, memory, true) : DT_OK;
    DT_TRY(dt_comm_agree(r->comm, st));
    return dt_comm_agree(r->comm, reads ? DT_OK : dt_source_load(r->source, memory, false));
}

static dt_status open_loader(dt_run *r, dt_purpose purpose)
{
    const dt_loader_opts opts = {
        .augment = r->o.augment, .normalize = r->o.normalize,
        .image_size = dt_net_spec_of(r->net)->image_size, .type = r->precision,
        .seed = (uint32_t)r->o.seed, .global_batch = r->global_batch,
        .shards = (int)r->o.shards,
        .drop_remainder = purpose == DT_FOR_TRAINING && r->o.drop_remainder,
        .threads = r->threads,
    };
    return dt_loader_create(&r->loader, r->source, &opts);
}

/* ---- Network and plans ------------------------------------------------------------------ */

static dt_status compile(dt_run *r, dt_compiled *c, int64_t batch, dt_mode mode)
{
    return batch > 0 ? dt_plan_create(&c->plan, r->model, batch, mode) : DT_OK;
}

/* Shard sizes of a full batch and of the last one: at most four different. */
static dt_status compile_training(dt_run *r)
{
    const int64_t last = dt_loader_batch(r->loader, r->steps_per_epoch - 1);
    const int64_t batch[2] = {r->global_batch, last};
    int count = 0;

    for (int b = 0; b < 2; b++)
        for (int shard = 0; shard < (int)r->o.shards; shard += (int)r->o.shards - 1) {
            const int64_t size = dt_shard_size(batch[b], (int)r->o.shards, shard, NULL);
            bool known = false;
            for (int i = 0; i < count; i++)
                known = known || dt_plan_batch(r->train[i].plan) == size;
            if (size > 0 && !known)
                DT_TRY(compile(r, &r->train[count++], size, DT_TRAIN));
            if (r->o.shards == 1)
                break;
        }
    return DT_OK;
}

/* Chunks large enough for the kernels, small enough for memory; from the image alone. */
static dt_status compile_test(dt_run *r)
{
    const int64_t images = dt_source_describe(r->source)->test;
    const int64_t chunk = dt_net_spec_of(r->net)->image_size <= 64 ? 100 : 25;

    r->test_chunk = chunk < images ? chunk : images;
    DT_TRY(compile(r, &r->test[0], r->test_chunk, DT_EVAL));
    return compile(r, &r->test[1], images % r->test_chunk, DT_EVAL);
}

static dt_status open_network(dt_run *r, dt_purpose purpose)
{
    dt_net_spec spec;
    char name[80];
    const dt_model_opts opts = {.precision = r->precision, .kernels = r->o.kernels,
                                .threads = r->threads, .unfused = r->o.unfused,
                                .label_smoothing = (float)r->o.label_smoothing};

    DT_TRY(dt_options_net(&r->o, dt_source_describe(r->source)->classes, &spec));
    DT_TRY(dt_net_create(&r->net, &spec));
    /* Said now, not when the model is to be saved. */
    if (purpose == DT_FOR_TRAINING)
        DT_TRY(dt_net_rename(r->net, r->o.names, "", name, sizeof name));
    DT_TRY(dt_model_create(&r->model, r->net, &opts));
    DT_TRY(open_loader(r, purpose));
    if (purpose == DT_FOR_TRAINING) {
        r->steps_per_epoch = dt_loader_steps(r->loader);
        r->total_steps = r->steps_per_epoch * r->o.epochs;
        if (r->o.max_steps >= 0 && r->o.max_steps < r->total_steps)
            r->total_steps = r->o.max_steps;
        DT_TRY(dt_schedule_open(&r->schedule, &r->o, r->steps_per_epoch, r->total_steps,
                                r->global_batch));
        DT_TRY(compile_training(r));
    }
    return compile_test(r);
}

/* ---- Memory ----------------------------------------------------------------------------- */

typedef struct slab_row { /* one slab, sized before anything is taken */
    const char *name;
    dt_slab *slab;
    size_t bytes;
    bool shared; /* one for the node's ranks */
} slab_row;
enum { ROW_ARENA = 5, SLABS = 8 };

static void larger(size_t *x, size_t y)
{
    if (y > *x)
        *x = y;
}

static dt_status exchange_opts(dt_run *r, dt_exchange_opts *x, dt_span **tensor)
{
    const size_t count = dt_net_param_count(r->net);
    const double mib = 1024.0 * 1024.0;

    DT_TRY(dt_calloc(tensor, count, sizeof **tensor, "the exchange"));
    for (size_t i = 0; i < count; i++) { /* backward order is reversed state_dict order, */
        const dt_param *p = dt_net_param(r->net, i); /* but sort to rely on nothing */
        size_t k = i;
        for (; k > 0 && (*tensor)[k - 1].first > p->offset; k--)
            (*tensor)[k] = (*tensor)[k - 1];
        (*tensor)[k] = (dt_span){p->offset, p->count};
    }
    *x = (dt_exchange_opts){.name = r->o.exchange, .shards = (int)r->o.shards,
                            .floats = dt_net_slab_floats(r->net), .tensor = *tensor,
                            .tensors = count,
                            .first_bucket_bytes = (size_t)(r->o.first_bucket_mb * mib),
                            .bucket_bytes = (size_t)(r->o.bucket_mb * mib),
                            .last_bucket_bytes = (size_t)(r->o.last_bucket_mb * mib),
                            .bf16 = strcmp(r->o.grad_dtype, "bf16") == 0,
                            .together = r->bn_group > 0};
    return DT_OK;
}

/* The slabs of weights come first: what an exchange that shares wants to know. */
static void slab_rows(dt_run *r, dt_purpose purpose, const dt_exchange_needs *needs,
                      slab_row rows[SLABS])
{
    const bool shared = needs->shares;
    const size_t floats = dt_net_slab_floats(r->net) * sizeof(float);
    const bool trains = purpose == DT_FOR_TRAINING;
    size_t arena = 0, scratch = 0;

    for (int i = 0; i < DT_MAX_COMPILED; i++)
        if (r->train[i].plan)
            larger(&arena, dt_plan_arena_bytes(r->train[i].plan));
    arena = dt_together_contexts(r) * dt_together_bytes(r, arena);
    for (int i = 0; i < DT_MAX_COMPILED + 2; i++) {
        const dt_plan *p = i < 2 ? r->test[i].plan : r->train[i - 2].plan;
        if (i < 2 && p)
            larger(&arena, dt_plan_arena_bytes(p));
        if (p)
            larger(&scratch, dt_plan_scratch_bytes(p));
    }
    const slab_row all[SLABS] = {
        {"master weights", &r->master, floats, shared},
        {"momentum", &r->momentum, trains ? floats : 0, shared},
        {"packed weights", &r->packed, dt_model_packed_bytes(r->model), shared},
        {"running statistics", &r->running,
         2 * dt_net_norm_channels(r->net) * sizeof(float), shared},
        {"gradients and partial sums", &r->gradients, needs->slabs * floats, shared},
        {"activations", &r->arena, arena, false},
        {"scratch", &r->scratch, scratch, false},
        {"checks", &r->check_room, trains ? dt_checks_bytes(r) : 0, false},
    };
    memcpy(rows, all, sizeof all);
}

/* What the program needs beside its slabs: libraries, generated code, MPI's buffers. */
enum { OVERHEAD_MIB = 90 };

static size_t slabs_total(const slab_row rows[SLABS], bool shared)
{
    size_t bytes = 0;
    for (int i = 0; i < SLABS; i++)
        if (rows[i].shared == shared)
            bytes += dt_align(rows[i].bytes, 64);
    return bytes;
}

static dt_status check_memory(dt_run *r, const slab_row rows[SLABS])
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    const uint64_t available = dt_memory_available(), shared = slabs_total(rows, true);
    const uint64_t rank = ((uint64_t)OVERHEAD_MIB << 20) + slabs_total(rows, false);
    const uint64_t node = rank * (uint64_t)dt_comm_node_ranks(r->comm) + shared;

    if (available == 0 || node <= available)
        return DT_OK;
    if (r->bn_group > 0) /* fewer ranks would hold as many shards' activations */
        return dt_fail(DT_NOMEM, "this run needs %.1f GiB on each node (%d ranks x %.2f GiB, of "
                       "which activations of %zu shards at the same time %.2f GiB, and %.2f GiB "
                       "shared), but %.1f GiB are available; --bn %s keeps all shards of a rank "
                       "in memory: lower --batch or --image-size, use more nodes, or --bn local",
                       (double)node / gib, dt_comm_node_ranks(r->comm), (double)rank / gib,
                       dt_together_contexts(r), (double)rows[ROW_ARENA].bytes / gib,
                       (double)shared / gib, (double)available / gib, r->o.bn);
    return dt_fail(DT_NOMEM, "this run needs %.1f GiB on each node (%d ranks x %.2f GiB and "
                   "%.2f GiB shared), but %.1f GiB are available; lower --batch or "
                   "--image-size, or run fewer ranks with the same --shards",
                   (double)node / gib, dt_comm_node_ranks(r->comm), (double)rank / gib,
                   (double)shared / gib, (double)available / gib);
}

static dt_status bind_execs(dt_run *r)
{
    for (int i = 0; i < DT_MAX_COMPILED + 2; i++) {
        dt_compiled *c = i < 2 ? &r->test[i] : &r->train[i - 2];
        if (c->plan)
            DT_TRY(dt_exec_create(&c->exec, c->plan, r->arena.mem, r->scratch.mem));
    }
    return DT_OK;
}

/* One block for all that the node shares: one window, one question for room. */
static dt_status take_shared(dt_run *r, const slab_row rows[SLABS])
{
    const size_t bytes = slabs_total(rows, true);
    void *memory = NULL;
    bool shared = false;

    r->writes = true;
    if (!r->shares)
        return DT_OK;
    DT_TRY(dt_node_mem_create(&r->node_memory, r->comm, bytes, "weights and gradients", &memory,
                              &shared));
    if (!shared && dt_comm_node_ranks(r->comm) > 1)
        return dt_comm_agree(r->comm, dt_fail(DT_NOMEM, "another program has taken the room for "
                             "the node's shared weights; try again, or use --exchange tree"));
    r->writes = dt_comm_node_rank(r->comm) == 0;
    char *at = memory;
    for (int i = 0; i < SLABS; i++)
        if (rows[i].shared) {
            *rows[i].slab = (dt_slab){.mem = at, .bytes = rows[i].bytes};
            at += dt_align(rows[i].bytes, 64);
        }
    return DT_OK;
}

static dt_status take_memory(dt_run *r, const slab_row rows[SLABS])
{
    for (int i = 0; i < SLABS; i++)
        if (!rows[i].shared)
            DT_TRY(dt_slab_create(rows[i].slab, rows[i].bytes, rows[i].name));

    float *running = r->running.mem;
    const dt_model_slabs slabs = {r->master.mem, running,
                                  running + dt_net_norm_channels(r->net), r->packed.mem};
    dt_model_bind(r->model, &slabs);
    return bind_execs(r);
}

void dt_run_print_memory(const dt_run *r)
{
    const double mib = 1024.0 * 1024.0;
    dt_note("memory per %s: weights %.1f MiB, momentum %.1f, gradients %.1f, packed %.1f; per "
            "rank: activations %.1f, scratch %.1f, checks %.1f; data set %.1f per node",
            r->shares ? "node" : "rank", (double)r->master.bytes / mib, (double)r->momentum.bytes / mib,
            (double)r->gradients.bytes / mib, (double)r->packed.bytes / mib,
            (double)r->arena.bytes / mib, (double)r->scratch.bytes / mib,
            (double)r->check_room.bytes / mib,
            (double)dt_source_bytes(r->source) / mib);
}

/* ---- Ranks --------------------------------------------------------------------------------- */

static dt_status open_exchange(dt_run *r, const dt_exchange_opts *opts)
{
    const int shards = (int)r->o.shards;

    DT_TRY(dt_exchange_open(&r->exchange, r->comm, opts, r->gradients.mem));
    DT_TRY(dt_tree_create(&r->loss_tree, r->comm, shards, DT_LEAF_COUNT, sizeof(double),
                          dt_merge_f64, shards));
    DT_TRY(dt_tree_create(&r->moment_tree, r->comm, shards, dt_net_norm_channels(r->net),
                          sizeof(dt_moment), dt_merge_moments, shards));
    return dt_together_open(r);
}

/* What the exchange needs, and with it all slabs. */
static dt_status plan_slabs(dt_run *r, dt_purpose purpose, dt_exchange_opts *opts,
                            dt_span **tensor, slab_row rows[SLABS])
{
    dt_exchange_needs needs = {.shares = true};

    slab_rows(r, purpose, &needs, rows);
    const size_t weights = slabs_total(rows, true);
    needs.shares = false;
    if (purpose == DT_FOR_TRAINING) {
        DT_TRY(exchange_opts(r, opts, tensor));
        opts->node_bytes = weights;
        DT_TRY(dt_exchange_plan(r->comm, opts, &needs));
    }
    r->shares = needs.shares;
    slab_rows(r, purpose, &needs, rows);
    return check_memory(r, rows);
}

static dt_status open_slabs(dt_run *r, dt_purpose purpose)
{
    dt_exchange_opts opts = {0};
    dt_span *tensor = NULL;
    slab_row rows[SLABS];
    dt_status st = plan_slabs(r, purpose, &opts, &tensor, rows);

    DT_GO(st, dt_comm_agree(r->comm, st), out);
    DT_GO(st, take_shared(r, rows), out);
    DT_GO(st, dt_comm_agree(r->comm, take_memory(r, rows)), out);
    if (purpose == DT_FOR_TRAINING) {
        DT_GO(st, dt_comm_agree(r->comm, open_exchange(r, &opts)), out);
        DT_GO(st, dt_optim_open(&r->optim, r->net, &r->o, r->master.mem, r->momentum.mem,
                                r->threads), out);
        st = dt_comm_agree(r->comm, dt_checks_open(r));
    }

out:
    free(tensor);
    return st;
}

dt_status dt_run_open(dt_run *r, dt_comm *c, const dt_options *o, dt_purpose purpose)
{
    dt_status st = DT_OK;

    memset(r, 0, sizeof *r);
    r->comm = c;
    DT_GO(st, dt_comm_agree(c, open_options(r, o, purpose)), out);
    if (purpose == DT_FOR_TRAINING)
        DT_GO(st, dt_together_resolve(r), out);
    DT_GO(st, open_data(r), out);
    DT_GO(st, dt_comm_agree(c, open_network(r, purpose)), out);
    DT_GO(st, dt_fingerprint_run(r), out);
    DT_GO(st, open_slabs(r, purpose), out);
    if (r->writes)
        st = dt_model_init(r->model, (uint32_t)r->o.seed);
    st = dt_comm_agree(c, st);

out:
    if (st != DT_OK)
        dt_run_close(r);
    return st;
}

void dt_run_close(dt_run *r)
{
    dt_checks_close(r);
    dt_optim_close(&r->optim);
    dt_together_close(r->together);
    dt_tree_destroy(r->moment_tree);
    dt_tree_destroy(r->loss_tree);
    dt_exchange_close(r->exchange);
    for (int i = 0; i < DT_MAX_COMPILED + 2; i++) {
        dt_compiled *c = i < 2 ? &r->test[i] : &r->train[i - 2];
        dt_exec_destroy(c->exec);
        dt_plan_destroy(c->plan);
    }
    dt_model_destroy(r->model);
    dt_loader_destroy(r->loader);
    dt_net_destroy(r->net);
    dt_source_close(r->source);
    dt_node_mem_destroy(r->data_memory);
    dt_node_mem_destroy(r->node_memory);
    dt_slab *const slabs[] = {&r->master, &r->momentum, &r->running, &r->packed,
                              &r->gradients, &r->arena, &r->scratch, &r->check_room};
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++)
        dt_slab_destroy(slabs[i]);
    memset(r, 0, sizeof *r);
}

dt_model_state dt_run_state(const dt_run *r)
{
    float *running = r->running.mem;
    return (dt_model_state){.net = r->net, .master = r->master.mem, .running_mean = running,
                            .running_var = running + dt_net_norm_channels(r->net)};
}

/* All ranks hold the same numbers, or the field that differs is named. */
static dt_status compare_state(dt_run *r, const char *what)
{
    const dt_model_state state = dt_run_state(r);
    char text[DT_DIGEST_CHARS];
    dt_digest hash;

    DT_TRY(dt_comm_agree(r->comm, dt_state_hash(&state, r->momentum.mem, 0, 0, &hash)));
    dt_digest_text(hash, text);
    const dt_field field = {what, text};
    return dt_comm_same(r->comm, &field, 1);
}

/* The agreement is also the barrier behind which the node's other ranks may read. */
dt_status dt_run_load(dt_run *r, const char *path)
{
    const dt_model_state state = dt_run_state(r);
    dt_status st = DT_OK;

    if (r->writes) {
        st = dt_model_load(&state, path, r->o.normalize);
        if (st == DT_OK)
            dt_model_pack(r->model, 0, dt_net_slab_floats(r->net));
    }
    DT_TRY(dt_comm_agree(r->comm, st));
    return compare_state(r, "weights of the model file");
}

/* Through a small buffer: where a node shares its copy, only one of its ranks may write it. */
static dt_status broadcast_slab(dt_run *r, const dt_slab *slab)
{
    enum { PART = 1 << 16 };
    char part[PART];

    for (size_t at = 0; at < slab->bytes; at += PART) {
        const size_t n = slab->bytes - at < PART ? slab->bytes - at : PART;
        char *here = (char *)slab->mem + at;
        if (dt_comm_rank(r->comm) == 0)
            memcpy(part, here, n);
        DT_TRY(dt_comm_bcast(r->comm, part, n, 0));
        if (r->writes && dt_comm_rank(r->comm) != 0)
            memcpy(here, part, n);
    }
    return DT_OK;
}

dt_status dt_run_broadcast(dt_run *r)
{
    const dt_slab *const slabs[] = {&r->master, &r->momentum, &r->running};

    if (!r->shares || dt_comm_nodes(r->comm) > 1)
        for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++)
            DT_TRY(broadcast_slab(r, slabs[i]));
    if (r->writes)
        dt_model_pack(r->model, 0, dt_net_slab_floats(r->net));
    DT_TRY(dt_comm_barrier(r->comm)); /* what one rank wrote, its node's others read */
    return compare_state(r, "the state sent by rank 0");
}

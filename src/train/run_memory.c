/* run_memory.c - the memory of a run: every slab is sized before the first is taken, and what
 * the node's ranks share lies in one block. */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

typedef struct slab_row { /* one slab, sized before anything is taken */
    const char *name;
    dt_slab *slab;
    size_t bytes;
    bool shared; /* one for the node's ranks */
} slab_row;
enum { ROW_ARENA = 5, SLABS = 16 };

/* Of home parameters over all ranks, or of cut ones over those with the same cut, which lie in
 * memory of their own. */
static dt_status create_exchange(dt_run *r, dt_exchange **x, bool cut, dt_exchange_needs *needs)
{
    const bool any = strcmp(r->o.exchange, "auto") == 0 || strcmp(r->o.exchange, "shared") == 0;
    dt_option_form form;
    dt_span *tensor = NULL;
    size_t count = 0;

    DT_TRY(dt_grad_compress_parse(r->o.grad_compress, &form));
    DT_TRY(dt_calloc(&tensor, r->net->params + 1, sizeof *tensor, "the exchange"));
    for (size_t i = r->net->params; i-- > 0;) {
        const dt_piece own = dt_model_piece(r->model, i);
        if (own.cut == cut)
            tensor[count++] = (dt_span){own.offset, own.count};
    }
    if (count == 0) /* a slab is never empty */
        tensor[count++] = (dt_span){0, dt_model_floats(r->model, cut ? DT_SLAB_CUT : DT_SLAB_HOME)};
    const dt_exchange_opts opts = {.name = cut && any ? "tree" : r->o.exchange,
                                   .shards = (int)r->o.shards,
                                   .floats =
                                       dt_model_floats(r->model, cut ? DT_SLAB_CUT : DT_SLAB_HOME),
                                   .tensor = tensor,
                                   .tensors = count,
                                   .bucket_bytes = (size_t)(r->o.bucket_mb * 1048576),
                                   .compress = form.worded.word,
                                   .threshold = form.worded.number,
                                   .lockstep = r->bn_group > 0 || dt_grid_cuts(r),
                                   .apart = cut,
                                   .threads = r->threads};
    const dt_status st = dt_exchange_create(x, cut ? r->grid.along : r->comm, &opts, needs);
    free(tensor);
    return st;
}

/* The slabs of weights come first: what an exchange that shares wants to know. */
static void slab_rows(dt_run *r, dt_purpose purpose, const dt_exchange_needs needs[2],
                      slab_row rows[SLABS])
{
    const bool shared = needs->shares;
    const size_t floats = dt_model_floats(r->model, DT_SLAB_HOME) * sizeof(float);
    const size_t cut = dt_model_floats(r->model, DT_SLAB_CUT) * sizeof(float);
    const size_t turned = dt_model_floats(r->model, DT_SLAB_TURNED) * sizeof(float);
    const size_t running = 2 * r->net->norm_channels * sizeof(float);
    const bool trains = purpose == DT_FOR_TRAINING, averages = trains && r->o.ema > 0;
    const size_t train = dt_contexts_bytes(r, &r->contexts), test = dt_contexts_bytes(r, &r->test);
    const size_t arena = DT_MAX(train, test);
    const size_t scratch = DT_MAX(dt_contexts_scratch(&r->contexts), dt_contexts_scratch(&r->test));
    const bool collects = dt_grid_cuts(r) && r->comm->rank == 0;
    const size_t whole = collects ? (averages ? 3 : 2) * r->net->slab_floats * sizeof(float) : 0;
    dt_grid *g = &r->grid;

    const dt_check_subject subject = dt_run_subject(r);
    const slab_row all[SLABS] = {
        {"master weights", &r->master, floats, shared},
        {"momentum", &r->momentum, trains ? floats : 0, shared},
        {"packed weights", &r->packed, dt_model_packed_bytes(r->model), shared},
        {"running statistics", &r->running, running, shared},
        {"gradients and partial sums", &r->gradients, needs->slabs * floats, shared},
        {"activations", &r->arena, arena, false},
        {"scratch", &r->scratch, scratch, false},
        {"averaged weights", &r->average, averages ? floats + running : 0, shared},
        {"checks", &r->check_room, trains ? dt_checks_bytes(&subject) : 0, false},
        {"cut weights", &g->master, cut, false},
        {"momentum of cut weights", &g->momentum, cut, false},
        {"averaged cut weights", &g->average, averages ? cut : 0, false},
        {"packed cut weights", &g->packed, dt_model_cut_packed_bytes(r->model), false},
        {"cut weights by input", &g->turned, turned, false},
        {"gradients of cut weights", &g->gradients, needs[1].slabs * cut, false},
        {"the whole state", &g->whole, whole, false},
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

static dt_status check_memory(dt_run *r, dt_purpose purpose, const slab_row rows[SLABS])
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    const uint64_t saver = purpose == DT_FOR_TRAINING ? dt_saver_bytes(r->net, r->o.ema > 0) : 0;
    const uint64_t available = dt_memory_available(), shared = slabs_total(rows, true) + saver;
    const uint64_t rank = ((uint64_t)OVERHEAD_MIB << 20) + slabs_total(rows, false);
    char remedy[160] = "run fewer ranks with the same --shards";

    r->node_bytes = rank * (uint64_t)r->comm->node_ranks + shared;
    if (available == 0 || r->node_bytes <= available)
        return DT_OK;
    if (r->bn_group > 0) /* fewer ranks would hold as many shards' activations */
        snprintf(
            remedy, sizeof remedy,
            "use more nodes, or --bn local: --bn %s keeps the activations of %d shards at the same "
            "time in each rank's memory",
            r->o.bn, r->contexts.width);
    return dt_fail(DT_NOMEM,
                   "this run needs %.2f GiB on each node (%d ranks x %.2f GiB, activations %.2f of "
                   "them, and %.2f GiB for all), but %.2f GiB are available; lower --batch or "
                   "--image-size, or %s",
                   (double)r->node_bytes / gib, r->comm->node_ranks, (double)rank / gib,
                   (double)rows[ROW_ARENA].bytes / gib, (double)shared / gib,
                   (double)available / gib, remedy);
}

/* One block for all that the node shares. */
static dt_status take_shared(dt_run *r, const slab_row rows[SLABS])
{
    const size_t bytes = slabs_total(rows, true);
    void *memory = NULL;

    r->writes = true;
    if (!r->shares)
        return DT_OK;
    DT_TRY(dt_node_mem_create(&r->node_memory, r->comm, bytes, "weights and gradients", &memory));
    r->writes = r->comm->node_rank == 0;
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

    const dt_weights weights = dt_run_weights(r), average = dt_run_average(r);
    dt_run_bind(r, average.net ? &average : &weights);
    DT_TRY(dt_contexts_open(r, &r->test));
    dt_run_bind(r, &weights);
    return DT_OK;
}

/* ---- Ranks --------------------------------------------------------------------------------- */

static dt_status open_exchange(dt_run *r)
{
    const int shards = (int)r->o.shards;
    size_t channels = 0;

    for (size_t i = 0; i < r->net->norms; i++)
        channels = DT_MAX(channels, r->net->norm[i].channels);
    DT_TRY(dt_exchange_open(r->exchange, r->gradients.mem));
    if (dt_grid_cuts(r))
        DT_TRY(dt_exchange_open(r->grid.exchange, r->grid.gradients.mem));
    DT_TRY(dt_reduce_create(&r->loss_tree, r->comm, shards, DT_LEAF_COUNT, &dt_fold_f64, shards));
    DT_TRY(dt_reduce_create(&r->moment_tree, r->comm, shards, r->net->norm_channels,
                            &dt_fold_moments, shards));
    DT_TRY(dt_lockstep_open(&r->lockstep, r->comm, shards, r->bn_group, channels));
    if (dt_grid_cuts(r))
        DT_TRY(dt_lockstep_open(&r->grid.lockstep, r->grid.along, shards, r->bn_group, channels));
    return dt_contexts_open(r, &r->contexts);
}

static dt_status open_optim(dt_run *r)
{
    dt_grid *g = &r->grid;

    DT_TRY(dt_optim_open(&r->optim, r->model, false, &r->o, r->master.mem, r->momentum.mem,
                         r->threads));
    return dt_optim_open(&g->optim, r->model, true, &r->o, g->master.mem, g->momentum.mem,
                         r->threads);
}

/* What the exchange needs, and with it all slabs. */
static dt_status plan_slabs(dt_run *r, dt_purpose purpose, slab_row rows[SLABS])
{
    dt_exchange_needs needs[2] = {{.shares = false}, {.shares = false}};

    if (purpose == DT_FOR_TRAINING)
        DT_TRY(create_exchange(r, &r->exchange, false, &needs[0]));
    if (dt_grid_cuts(r))
        DT_TRY(create_exchange(r, &r->grid.exchange, true, &needs[1]));
    r->shares = needs[0].shares;
    slab_rows(r, purpose, needs, rows);
    return check_memory(r, purpose, rows);
}

dt_status dt_run_take_memory(dt_run *r, dt_purpose purpose)
{
    slab_row rows[SLABS];

    DT_TRY(dt_comm_agree(r->comm, plan_slabs(r, purpose, rows)));
    DT_TRY(take_shared(r, rows));
    DT_TRY(dt_comm_agree(r->comm, take_memory(r, rows)));
    if (purpose != DT_FOR_TRAINING)
        return DT_OK;
    DT_TRY(dt_comm_agree(r->comm, open_exchange(r)));
    DT_TRY(dt_comm_agree(r->comm, open_optim(r)));
    DT_TRY(dt_grid_bind(r));
    const dt_check_subject subject = dt_run_subject(r);
    return dt_comm_agree(r->comm, dt_checks_open(&r->checks, &subject));
}

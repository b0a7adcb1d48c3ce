/* run_memory.c - the memory of a run: every slab is sized before the first is taken, and what
 * the node's ranks share lies in one block. */
#include "run.h"

typedef struct slab_row { /* one slab, sized before anything is taken */
    const char *name;
    dt_slab *slab;
    size_t bytes;
    bool shared; /* one for the node's ranks */
} slab_row;
enum { ROW_ARENA, ROW_WHOLE = 5, SLABS = 6 + DT_DOMAINS * 5 };

/* Pieces of cut layers lie in each rank's own memory. */
static dt_status create_exchange(dt_run *r, dt_slab_kind kind, dt_exchange_needs *needs)
{
    const bool cut = kind == DT_SLAB_CUT;
    const size_t floats = dt_model_floats(r->model, kind);
    const bool any = strcmp(r->o.exchange, "auto") == 0 || strcmp(r->o.exchange, "shared") == 0;
    const dt_option_form form = dt_option_meaning(&dt_grad_compress_syntax, r->o.grad_compress);
    dt_span *tensor = NULL;
    size_t count = 0;

    DT_TRY(dt_calloc(&tensor, r->net->params + 1, sizeof *tensor, "the exchange"));
    for (size_t i = r->net->params; i-- > 0;) {
        const dt_piece own = dt_model_piece(r->model, i);
        if (own.cut == cut)
            tensor[count++] = (dt_span){own.offset, own.count};
    }
    if (count == 0) /* a slab is never empty */
        tensor[count++] = (dt_span){0, floats};
    const dt_exchange_opts opts = {.name = cut && any ? "tree" : r->o.exchange,
                                   .shards = (int)r->o.shards,
                                   .floats = floats,
                                   .tensor = tensor,
                                   .tensors = count,
                                   .bucket_bytes = (size_t)(r->o.bucket_mb * 1048576),
                                   .compress = form.worded.word,
                                   .threshold = form.worded.number,
                                   .lockstep = r->bn_group > 0 || dt_grid_cuts(r),
                                   .apart = cut,
                                   .threads = r->threads};
    const dt_status st =
        dt_exchange_create(&r->domain[kind].exchange, r->domain[kind].comm, &opts, needs);
    free(tensor);
    return st;
}

/* What an exchange that shares wants to know is in the rows of DT_SLAB_HOME. */
static void slab_rows(dt_run *r, const dt_exchange_needs needs[DT_DOMAINS], slab_row rows[SLABS])
{
    const bool averages = r->trains && dt_options_average(&r->o);
    const size_t by_input = dt_model_floats(r->model, DT_SLAB_BY_INPUT) * sizeof(float);
    const size_t running = 2 * r->net->norm_channels * sizeof(float);
    const size_t train = dt_contexts_bytes(r, &r->contexts), test = dt_contexts_bytes(r, &r->test);
    const size_t scratch = DT_MAX(dt_contexts_scratch(&r->contexts), dt_contexts_scratch(&r->test));
    const bool collects = dt_grid_cuts(r) && r->comm->rank == 0;
    const size_t whole = collects ? (averages ? 3 : 2) * r->net->slab_floats * sizeof(float) : 0;
    size_t room = 0; /* of observers, one after the other */
    for (int i = 0; r->trains && i < DT_OBSERVERS && dt_run_observers[i]; i++)
        if (dt_run_observers[i]->bytes)
            room = DT_MAX(room, dt_run_observers[i]->bytes(r));
    const slab_row others[] = {
        [ROW_ARENA] = {"activations", &r->arena, DT_MAX(train, test), false},
        {"scratch", &r->scratch, scratch, false},
        {"running statistics", &r->running, running, needs->shares},
        {"checks", &r->check_room, room, false},
        {"cut weights by input", &r->grid.by_input, by_input, false},
        [ROW_WHOLE] = {"the whole state", &r->grid.whole, whole, false},
    };

    memcpy(rows, others, sizeof others);
    rows += DT_COUNT_OF(others);
    for (int i = 0; i < DT_DOMAINS; i++) {
        dt_domain *d = &r->domain[i];
        const bool home = i == DT_SLAB_HOME, shared = home && needs->shares;
        const size_t floats = dt_model_floats(r->model, (dt_slab_kind)i) * sizeof(float);
        const size_t packed =
            home ? dt_model_packed_bytes(r->model) : dt_model_cut_packed_bytes(r->model);
        *rows++ = (slab_row){"master weights", &d->master, floats, shared};
        *rows++ = (slab_row){"momentum", &d->momentum, r->trains ? floats : 0, shared};
        *rows++ = (slab_row){"packed weights", &d->packed, packed, shared};
        *rows++ = (slab_row){"gradients and partial sums", &d->gradients, needs[i].slabs * floats,
                             shared};
        *rows++ = (slab_row){"averaged weights", &d->average,
                             averages ? floats + (home ? running : 0) : 0, shared};
    }
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
    const uint64_t saver = r->trains ? dt_saver_bytes(r->net, dt_options_average(&r->o)) : 0;
    const uint64_t whole = rows[ROW_WHOLE].bytes; /* rank 0's alone */
    const uint64_t available = dt_memory_available();
    const uint64_t shared = slabs_total(rows, true) + saver + whole;
    const uint64_t rank = ((uint64_t)OVERHEAD_MIB << 20) + slabs_total(rows, false) - whole;
    char remedy[160] = "run fewer ranks with the same --shards";

    r->node_bytes = rank * (uint64_t)r->comm->node_ranks + shared;
    if (available == 0 || r->node_bytes <= available)
        return DT_OK;
    if (r->bn_group > 0) /* fewer ranks would hold as many shards' activations */
        snprintf(
            remedy, sizeof remedy,
            "use more nodes, or --bn local: --bn %s keeps the activations of %d shards at the same "
            "time in each rank's memory",
            r->o.bn, r->contexts.wave.count);
    return dt_fail(DT_NOMEM,
                   "this run needs %.2f GiB on each node (%d ranks x %.2f GiB, activations %.2f of "
                   "them, and %.2f GiB for all), but %.2f GiB are available; lower --batch or "
                   "--image-size, or %s",
                   dt_gib(r->node_bytes), r->comm->node_ranks, dt_gib(rank),
                   dt_gib(rows[ROW_ARENA].bytes), dt_gib(shared), dt_gib(available), remedy);
}

/* One block for all that the node shares. */
static dt_status take_shared(dt_run *r, const slab_row rows[SLABS])
{
    r->writes = true;
    if (!r->shares)
        return DT_OK;
    DT_TRY(dt_node_slab_create(&r->node_memory, r->comm, slabs_total(rows, true),
                               "weights and gradients"));
    r->writes = r->comm->node_rank == 0;
    char *at = r->node_memory.mem;
    for (int i = 0; i < SLABS; i++)
        if (rows[i].shared) {
            *rows[i].slab = (dt_slab){.mem = at, .bytes = rows[i].bytes};
            at += dt_align(rows[i].bytes, 64);
        }
    return DT_OK;
}

/* The running variances follow the means. */
static dt_weights weights_at(const dt_run *r, float *master, float *running)
{
    return (dt_weights){r->net, master, running, running + r->net->norm_channels};
}

static dt_status take_memory(dt_run *r, const slab_row rows[SLABS])
{
    const dt_domain *home = &r->domain[DT_SLAB_HOME];

    for (int i = 0; i < SLABS; i++)
        if (!rows[i].shared)
            DT_TRY(dt_slab_create(rows[i].slab, rows[i].bytes, rows[i].name));

    float *average = home->average.mem;
    r->weights = weights_at(r, home->master.mem, r->running.mem);
    if (home->average.bytes > 0)
        r->average = weights_at(r, average, average + dt_model_floats(r->model, DT_SLAB_HOME));
    dt_run_bind(r, r->average.net ? &r->average : &r->weights);
    DT_TRY(dt_contexts_open(r, &r->test));
    dt_run_bind(r, &r->weights);
    return DT_OK;
}

/* ---- Ranks --------------------------------------------------------------------------------- */

/* The exchanges and the optimizers of all domains, and the small sums over all shards. */
static dt_status open_sums(dt_run *r)
{
    const int shards = (int)r->o.shards;
    size_t channels = 0;

    for (size_t i = 0; i < r->net->norms; i++)
        channels = DT_MAX(channels, r->net->norm[i].channels);
    for (int i = 0; i < r->domains; i++) {
        dt_domain *d = &r->domain[i];
        DT_TRY(dt_exchange_open(d->exchange, d->gradients.mem));
        DT_TRY(dt_lockstep_open(&d->sync, d->comm, shards, r->bn_group, channels));
        DT_TRY(dt_optim_open(&d->optim, r->model, (dt_slab_kind)i, &r->o, d->master.mem,
                             d->momentum.mem, r->threads));
    }
    r->contexts.wave.sync = r->domain[DT_SLAB_HOME].sync;
    r->contexts.wave.cut_sync = r->domain[DT_SLAB_CUT].sync;
    DT_TRY(dt_reduce_create(&r->loss_tree, r->comm, shards, DT_SUM_COUNT, &dt_fold_f64, shards));
    DT_TRY(dt_reduce_create(&r->moment_tree, r->comm, shards, r->net->norm_channels,
                            &dt_fold_moments, shards));
    return dt_contexts_open(r, &r->contexts);
}

/* What the exchange needs, and with it all slabs. */
static dt_status plan_slabs(dt_run *r, slab_row rows[SLABS])
{
    dt_exchange_needs needs[DT_DOMAINS] = {{.shares = false}, {.shares = false}};

    for (int i = 0; i < r->domains && r->trains; i++)
        DT_TRY(create_exchange(r, (dt_slab_kind)i, &needs[i]));
    r->shares = needs->shares;
    slab_rows(r, needs, rows);
    return check_memory(r, rows);
}

dt_status dt_run_take_memory(dt_run *r)
{
    slab_row rows[SLABS];

    DT_TRY(dt_comm_agree(r->comm, plan_slabs(r, rows)));
    DT_TRY(take_shared(r, rows));
    DT_TRY(dt_comm_agree(r->comm, take_memory(r, rows)));
    if (!r->trains)
        return DT_OK;
    DT_TRY(dt_comm_agree(r->comm, open_sums(r)));
    DT_TRY(dt_grid_bind(r));
    dt_status st = DT_OK;
    DT_OBSERVE_OPEN(st, r->observed, open, r);
    return dt_comm_agree(r->comm, st);
}

/* costs.c - what a step costs with layers whole or cut: each operation's passes and the update, by
 * a rank that trains on one shard as if the others of its group were there; gradients; moves. */
#include "split.h"

/* The quickest counts, but not the first one, which touches memory. */
enum { TRIES = 3, ENOUGH_S = 1, MOVES = 10 };

/* ---- Operations ------------------------------------------------------------------------------ */

void dt_costs_graph(const dt_net *net, const dt_plan *plan, double scale, dt_dtype type,
                    dt_search_node *node)
{
    const double pixels = (double)net->spec.image_size * net->spec.image_size;
    const double each = (double)dt_dtype_bytes(type);
    int made[DT_SEARCH_NODES] = {0}; /* by which node each value is */
    int at = 0;

    node[0] = (dt_search_node){.kind = DT_SEARCH_HOME, .in = {-1, -1}};
    node[0].bytes[0] = scale * (double)plan->batch * 3 * pixels * each;
    for (int i = 0; i < plan->steps; i++) {
        const dt_node *of = &plan->node[i];
        const dt_value *out = &plan->value[of->out];
        if (of->op == &dt_op_fork)
            continue;
        const double bytes =
            scale * (double)dt_shape_count(&out->shape) * (double)dt_dtype_bytes(out->type);
        dt_search_node *n = &node[++at];
        *n = (dt_search_node){.kind = DT_SEARCH_HOME, .in = {at - 1, -1}, .bytes = {bytes, bytes}};
        for (int k = 0; k < of->n_param; k++)
            n->floats += (double)net->param[of->param[k]].count;
        if (at == (int)net->ops) /* logits are float32 */
            n->bytes[1] *= each / sizeof(float);
        if (at <= (int)net->ops) {
            of = &net->own->node[at - 1]; /* before forks told readers apart */
            n->kind = of->op->weights ? DT_SEARCH_FREE : DT_SEARCH_FOLLOWS;
            n->in[0] = made[of->in[0]];
            n->in[1] = of->n_in < 2 ? -1 : made[of->in[1]];
            n->flat = dt_split_flat(of, &net->own->shape[of->in[0]]);
            made[of->out] = at;
        }
        for (int k = 0; k < 2 && n->in[k] >= 0; k++)
            node[n->in[k]].readers++;
    }
}

/* Seconds of each operation's passes in the last step; a fork belongs to what makes its value, and
 * images cost their loading. */
static void take_passes(const dt_run *t, double scale, bool cut, dt_search_node *node)
{
    const dt_plan *plan = t->contexts.plan[0];
    double now[DT_SEARCH_NODES][DT_WAYS] = {{0}};
    int at = 0;

    now[0][DT_FORWARD] = dt_record_seconds(DT_LANE_PHASE, DT_AT_data, DT_RECORD_KINDS);
    for (int i = 0; i < plan->steps; i++) {
        at += plan->node[i].op != &dt_op_fork && !plan->node[i].op->moves;
        for (int pass = 0; pass < DT_PASS_COUNT; pass++)
            now[at][pass != DT_PASS_FORWARD] +=
                dt_record_seconds(DT_LANE_LAYER, i * DT_CLOCKED + pass, DT_RECORD_KINDS);
    }
    for (int i = 0; i <= at; i++)
        for (int way = 0; way < DT_WAYS; way++)
            node[i].seconds[cut][way] = scale * now[i][way];
}

/* Of a shard at most. */
static int64_t images_of(const dt_run *r)
{
    return (r->global_batch - 1) / r->o.shards + 1;
}

/* Kernels are as quick with these as with more. */
static int64_t images_tried(const dt_run *r)
{
    enum { PIXELS = 1 << 18 };
    const int64_t size = r->net->spec.image_size;

    return DT_MIN(images_of(r), DT_MAX(4, PIXELS / (size * size)));
}

static dt_options trial_options(const dt_run *r, int shards, int64_t images, const char *strategy,
                                char data[32])
{
    dt_options o = r->o;

    snprintf(data, 32, "synthetic:%lld", (long long)(images * (TRIES + 1)));
    o.data = data;
    o.subset = o.holdout = o.check_every = o.replay_every = 0;
    o.global_batch = images;
    o.shards = shards;
    o.epochs = 1;
    o.max_steps = -1;
    o.threads = r->threads;
    o.bn = "local";
    o.init = "";
    o.init_head = true;
    o.schedule = "constant";
    o.lr = o.warmup = 0;
    o.strategy = strategy;
    return o;
}

static dt_status try_steps(dt_run *t, double turns, double scale, dt_search_node *node,
                           dt_search_costs *c)
{
    const bool cut = c->parts > 1;
    const double start = dt_seconds();
    double least = HUGE_VAL;
    dt_step_result result;

    for (int try = 0; try <= TRIES && (try < 2 || dt_seconds() - start < ENOUGH_S); try++) {
        const double began = dt_seconds();
        dt_record_restart();
        DT_TRY(dt_run_step(t, 0, try, false, &result));
        if (try == 0 || dt_seconds() - began > least)
            continue;
        least = dt_seconds() - began;
        take_passes(t, turns * scale, cut, node);
        c->update[cut] = turns * dt_record_seconds(DT_LANE_PHASE, DT_AT_update, DT_RECORD_KINDS) /
                         (double)dt_model_floats(t->model, cut ? DT_SLAB_CUT : DT_SLAB_HOME);
    }
    return DT_OK;
}

/* On as many ranks of a node as it can run at once: later the others take turns with them. */
static dt_status try_operations(const dt_run *r, dt_comm *self, dt_search_node *node,
                                dt_search_costs *c, double *bytes)
{
    const int64_t images = images_tried(r);
    const double scale = (double)images_of(r) / (double)images;
    const int at_once = DT_MAX(1, dt_comm_node_cpus(r->comm) / r->threads);
    const double turns = DT_MAX(1, (double)r->comm->node_ranks / at_once);
    char data[32];
    dt_run t = {.comm = self, .grid.parts = c->parts, .classes = r->net->spec.classes};

    if (r->comm->node_rank >= at_once)
        return DT_OK;
    const dt_options o = trial_options(r, 1, images, c->parts > 1 ? "all=out" : "", data);
    DT_TRY(dt_run_open_as(&t, &o, DT_FOR_TRAINING));
    if (c->parts == 1)
        dt_costs_graph(r->net, t.contexts.plan[0], scale, r->precision, node);
    const int width = c->parts > 1 ? c->shards : c->homes / c->waves; /* contexts at a time */
    *bytes = (double)t.node_bytes + (double)t.arena.bytes * (width * scale - 1);
    const dt_status st = try_steps(&t, turns, scale, node, c);
    dt_run_close(&t);
    return st;
}

/* ---- Messages -------------------------------------------------------------------------------- */

enum { ROW_BYTES = 256 }; /* as of 64 channels */

/* Every rank's rows to every rank, as a cut layer gathers what it reads. */
static dt_status add_gather(dt_moves *m, int key, int world, char *source, char *target,
                            size_t rows)
{
    const size_t stride = (size_t)world * ROW_BYTES;

    for (int from = 0; from < world; from++)
        for (int to = 0; to < world; to++)
            DT_TRY(dt_moves_add(m, &(dt_rect){key, from, to, source, target + from * ROW_BYTES,
                                              rows, ROW_BYTES, ROW_BYTES, stride}));
    return DT_OK;
}

static dt_status time_gathers(dt_comm *c, dt_moves *m, double took[2])
{
    for (int try = 0; try < MOVES; try++)
        for (int key = 0; key < 2; key++) {
            DT_TRY(dt_comm_barrier(c));
            const double began = dt_seconds();
            DT_TRY(dt_moves_start(m, key));
            DT_TRY(dt_moves_wait(m, key));
            took[key] = try <= 1 ? dt_seconds() - began : DT_MIN(took[key], dt_seconds() - began);
        }
    return DT_OK;
}

/* Of 1 KiB a rank; and of so much that what a network lets through at once counts little: 4 MiB
 * that each rank receives. */
static dt_status try_moves(dt_comm *c, double *latency, double *per_byte)
{
    const size_t rows[2] = {4, 5 + 16384 / (size_t)(c->world - 1)}, all = rows[1] * ROW_BYTES;
    dt_slab memory = {.mem = NULL};
    dt_moves *m = NULL;
    double took[2] = {0, 0};
    dt_status st = DT_OK;

    DT_GO(st, dt_comm_agree(c, dt_slab_create(&memory, all * (1 + (size_t)c->world), "moves")),
          out);
    DT_GO(st, dt_comm_agree(c, dt_moves_create(&m, c, 2)), out);
    for (int key = 0; key < 2 && st == DT_OK; key++)
        st = add_gather(m, key, c->world, memory.mem, (char *)memory.mem + all, rows[key]);
    DT_GO(st, dt_comm_agree(c, st), out);
    DT_GO(st, dt_moves_seal(m), out);
    DT_GO(st, time_gathers(c, m, took), out);
    *latency = took[0];
    *per_byte =
        DT_MAX(0, took[1] - took[0]) / ((double)(rows[1] - rows[0]) * ROW_BYTES * (c->world - 1));
out:
    dt_moves_destroy(m);
    dt_slab_destroy(&memory);
    return st;
}

/* How long this rank waits for the sum of gradients, in a step of so many images a shard. */
static dt_status try_gradients(dt_run *r, int64_t images, double *waited)
{
    char data[32];
    const dt_options o = trial_options(r, (int)r->o.shards, images * r->o.shards, "", data);
    dt_step_result result;
    dt_run t = {.comm = r->comm, .grid.parts = 1, .classes = r->net->spec.classes};
    dt_status st = DT_OK;

    *waited = HUGE_VAL;
    DT_TRY(dt_run_open_as(&t, &o, DT_FOR_TRAINING));
    for (int try = 0; st == DT_OK && try <= TRIES; try++) {
        dt_record_restart();
        st = dt_run_step(&t, 0, try, false, &result);
        if (try > 0)
            *waited = DT_MIN(*waited, dt_record_seconds(DT_LANE_WAIT, DT_IN_gradients, 1));
    }
    dt_run_close(&t);
    return dt_comm_agree(r->comm, st);
}

/* With one image nothing hides gradients; with more, some of backward does. Inside a node nothing
 * is sent. */
static dt_status try_hiding(dt_run *r, dt_search_costs *c)
{
    double alone, behind, backward = 0;
    const int64_t images = images_tried(r);

    if (r->comm->nodes == 1 || r->comm->world > r->o.shards)
        return DT_OK;
    DT_TRY(try_gradients(r, 1, &alone));
    DT_TRY(try_gradients(r, images, &behind));
    for (int i = 0; i < c->nodes; i++)
        backward += c->node[i].seconds[0][DT_BACKWARD] * c->homes / c->waves;
    backward *= (double)images / (double)images_of(r);
    c->exchange[0] = alone / (double)r->net->slab_floats;
    c->hides = DT_MIN(DT_MAX(0, (alone - behind) / backward), 0.9);
    return DT_OK;
}

/* Gradients of own pieces go to as many ranks as there are groups. A node's ranks have a link
 * together. */
static dt_status try_group(dt_run *r, dt_search_costs *c)
{
    const dt_comm *all = r->comm;
    const double groups = (double)all->world / c->parts;
    const double apart = all->nodes > 1 ? all->nodes : all->world;
    dt_comm *group = NULL;

    c->exchange[1] = c->exchange[0] * apart / (apart - 1) * (groups - 1) / groups;
    if (all->nodes > 1)
        c->exchange[1] *= all->node_ranks;
    DT_TRY(dt_comm_split(&group, r->comm, all->rank / c->parts));
    const dt_status st = try_moves(group, &c->latency, &c->per_byte);
    dt_comm_close(group);
    return dt_comm_agree(r->comm, st);
}

dt_status dt_costs_measure(dt_run *r, int parts, dt_search_node *node, dt_search_costs *c,
                           double *bytes)
{
    const int world = r->comm->world, shards = (int)r->o.shards, groups = world / parts;
    dt_comm *self = NULL;

    c->node = node;
    c->nodes = (int)r->net->ops + 2;
    c->parts = parts;
    c->homes = (shards - 1) / world + 1;
    c->shards = (shards - 1) / groups + 1;
    c->waves = parts > 1 || r->bn_group > 0 ? 1 : c->homes;
    DT_TRY(dt_comm_split(&self, r->comm, r->comm->rank));
    dt_comm_quiet(self);
    const dt_status st = dt_comm_agree(r->comm, try_operations(r, self, node, c, bytes));
    dt_comm_close(self);
    DT_TRY(st);
    return parts > 1 ? try_group(r, c) : try_hiding(r, c);
}

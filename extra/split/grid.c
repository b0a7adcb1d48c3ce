/* grid.c - layers that are cut over ranks: who cuts with whom, and the moves between the ranks of a
 * group. plan_cut.c says where a value is and where it is to go (dt_plan_move); here that becomes
 * rectangles for dt_moves. So do weights, of which data gradients read the own input channels, and
 * the state, which files have whole. */
#include "split.h"

/* The keys of one set of contexts: plan, place, step, way. */
typedef struct dt_grid_wave {
    dt_wave_moves moves; /* context: this */
    const dt_run *run;
    const dt_contexts *contexts;
    int first, steps; /* its first key; steps of a plan */
} dt_grid_wave;

/* Keys of no contexts come first; behind them one for each place's moments. */
enum { KEY_TURN, KEY_COLLECT, KEY_SPREAD, KEY_MOMENTS };

/* ---- Opening ------------------------------------------------------------------------------- */

static dt_status grid_open(dt_run *r)
{
    dt_grid *g = &r->grid;

    g->trial = r->comm->world < g->parts;
    g->part = g->trial ? g->parts - 1 : r->comm->rank % g->parts;
    g->index = r->comm->rank / g->parts;
    dt_shards_of((int)r->o.shards, g->trial ? 1 : r->comm->world / g->parts, g->index, &g->first,
                 &g->end);
    r->domains = DT_DOMAINS;
    DT_TRY(dt_comm_split(&g->group, r->comm, g->index));
    DT_TRY(dt_comm_split(&g->replicas, r->comm, g->part));
    r->domain[DT_SLAB_CUT].comm = g->replicas;
    return DT_OK;
}

static void grid_stop(dt_run *r)
{
    dt_moves_destroy(r->grid.moves);
}

static void grid_close(dt_run *r)
{
    dt_grid *g = &r->grid;

    free(g->wave);
    dt_comm_close(g->replicas);
    dt_comm_close(g->group);
    dt_slab_destroy(&g->by_input);
    dt_slab_destroy(&g->whole);
}

/* ---- Moves of values ----------------------------------------------------------------------- */

static int wave_key(const dt_grid_wave *w, int plan, int k, int step, dt_way way)
{
    const int place = plan * w->contexts->wave.count + k;
    return w->first + (place * w->steps + step) * DT_WAYS + (int)way;
}

/* The rank of the group whose shard is at place k. */
static int home_of(const dt_run *r, const dt_contexts *c, int k)
{
    const dt_grid *g = &r->grid;
    int first, end = 0, rank = -1;

    if (c == &r->test)
        return k;
    while (end <= g->first + k)
        dt_shards_of((int)r->o.shards, r->comm->world, g->index * g->parts + ++rank, &first, &end);
    return rank;
}

/* The channels that a rank has of a value. */
static dt_cut channels_of(const dt_grid *g, dt_layout as, int64_t channels, int rank, int home)
{
    if (as == DT_CUT)
        return dt_cut_of(channels, rank, g->parts);
    return (dt_cut){0, as == DT_WHOLE || rank == home ? channels : 0, channels};
}

/* What `to` needs and `from` has. */
static dt_status add_part(dt_grid *g, int key, const dt_move *m, int home, int from, int to)
{
    const dt_cut have = channels_of(g, m->from, m->channels, from, home);
    const dt_cut need = channels_of(g, m->to, m->channels, to, home);
    const int64_t first = DT_MAX(have.first, need.first);
    const int64_t end = DT_MIN(have.first + have.count, need.first + need.count);

    if (first >= end || (from == to && !m->target))
        return DT_OK;
    const dt_rect r = {.key = key,
                       .from = from,
                       .to = to,
                       .source = (const char *)m->source + (size_t)(first - have.first) * m->each,
                       .target = (char *)m->target + (size_t)(first - need.first) * m->each,
                       .rows = (size_t)m->rows,
                       .bytes = (size_t)(end - first) * m->each,
                       .from_stride = (size_t)have.count * m->each,
                       .to_stride = (size_t)need.count * m->each};
    return dt_moves_add(g->moves, &r);
}

/* Of step i, in a context of the plan. */
static dt_move move_of(const dt_exec *e, const dt_plan *p, int i, dt_way way)
{
    const int in = p->node[i].in[0], out = p->node[i].out;
    dt_move m = dt_plan_move(p, i, way);

    m.source = dt_exec_memory(e, way == DT_FORWARD ? in : out, way);
    if (!p->node[i].stays[way])
        m.target = dt_exec_memory(e, way == DT_FORWARD ? out : in, way);
    return m;
}

static dt_status add_move(dt_grid *g, int key, const dt_move *m, int home)
{
    for (int to = 0; to < g->parts; to++)
        for (int from = 0; from < g->parts; from++)
            if (from == g->part || to == g->part)
                DT_TRY(add_part(g, key, m, home, from, to));
    return DT_OK;
}

static dt_status add_wave(dt_run *r, const dt_grid_wave *w)
{
    const dt_contexts *c = w->contexts;

    for (int i = 0; i < DT_MAX_PLANS && c->plan[i]; i++)
        for (int k = 0; k < c->wave.count; k++)
            for (int step = 0; step < w->steps; step++)
                for (dt_way way = DT_FORWARD; way < DT_WAYS; way++) {
                    const dt_plan *own = dt_contexts_home(c, k) ? c->plan[i] : c->remote[i];
                    if (!c->plan[i]->node[step].moves[way])
                        continue;
                    const dt_move m = move_of(c->exec[k * DT_MAX_PLANS + i], own, step, way);
                    const int key = wave_key(w, i, k, step, way);
                    DT_TRY(add_move(&r->grid, key, &m, home_of(r, c, k)));
                }
    return DT_OK;
}

/* Whether a step of the wave moves something. */
static bool wave_moves(const dt_grid_wave *w, int step, dt_way way)
{
    return step >= 0 && step < w->steps &&
           w->contexts->plan[0]->node[step].moves[way]; /* plans of all sizes have the same steps */
}

static dt_status wave_before(void *context, int step, dt_way way, int k)
{
    const dt_grid_wave *w = context;
    const int last = way == DT_FORWARD ? step - 1 : step + 1, which = w->contexts->which[k];
    const int pass = way == DT_FORWARD ? DT_PASS_FORWARD : DT_PASS_DATA;

    if (wave_moves(w, last, way)) {
        const int64_t began = dt_activity_clock();
        dt_activity_layer(last);
        DT_TRY(dt_moves_wait(w->run->grid.moves, wave_key(w, which, k, last, way)));
        dt_activity_layer(step);
        dt_record(DT_LANE_LAYER, last * DT_CLOCKED + pass, 0, began);
    }
    return wave_moves(w, step, way)
               ? dt_moves_start(w->run->grid.moves, wave_key(w, which, k, step, way))
               : DT_OK;
}

/* ---- Moments ------------------------------------------------------------------------------- */

static dt_status add_moments(dt_run *r)
{
    const dt_contexts *c = &r->contexts;

    for (int k = 0; k < c->wave.count; k++)
        for (size_t i = 0; i < r->net->norms; i++) {
            const dt_norm *n = &r->net->norm[i];
            const dt_cut own = r->model->norm_cut[i];
            if (own.whole == 0)
                continue;
            const dt_move m = {.from = DT_CUT,
                               .to = DT_HOME,
                               .rows = 1,
                               .channels = (int64_t)n->channels,
                               .each = sizeof(dt_moment),
                               .source = c->moments[k] + n->offset + own.first,
                               .target = c->moments[k] + n->offset};
            DT_TRY(add_move(&r->grid, KEY_MOMENTS + k, &m, home_of(r, c, k)));
        }
    return DT_OK;
}

static dt_status grid_moments(dt_run *r)
{
    const dt_contexts *c = &r->contexts;

    for (int k = 0; k < c->wave.count; k++)
        if (c->now[k])
            DT_TRY(dt_moves_start(r->grid.moves, KEY_MOMENTS + k));
    for (int k = 0; k < c->wave.count; k++)
        if (c->now[k])
            DT_TRY(dt_moves_wait(r->grid.moves, KEY_MOMENTS + k));
    return DT_OK;
}

/* ---- Weights and the state --------------------------------------------------------------- */

/* From every rank its output channels of the input channels that are rank `to`'s own. A weight is
 * in memory [taps][in][out]. */
static dt_status add_turn(dt_run *r, const dt_param *p, const dt_piece *x, int from, int to)
{
    dt_grid *g = &r->grid;
    const int64_t out = dt_cut_of(p->dim[0], from, g->parts).count;
    const dt_cut in = dt_cut_of(p->dim[1], to, g->parts);
    const float *master = (float *)r->domain[DT_SLAB_CUT].master.mem + x->offset;
    float *by_input = (float *)g->by_input.mem + x->by_input;

    for (int64_t tap = 0; tap < (int64_t)p->count / (p->dim[0] * p->dim[1]); tap++) {
        const dt_move m = {.from = DT_CUT,
                           .to = DT_WHOLE,
                           .rows = in.count,
                           .channels = p->dim[0],
                           .each = sizeof(float),
                           .source = master + (tap * in.whole + in.first) * out,
                           .target = by_input + tap * in.count * p->dim[0]};
        DT_TRY(add_part(g, KEY_TURN, &m, 0, from, to));
    }
    return DT_OK;
}

enum { STATE_SLABS = 3 };

/* The state's slab `which`, of home parameters or of own pieces; NULL: it has none. */
static float *state_slab(const dt_run *r, dt_slab_kind kind, int which)
{
    const dt_domain *d = &r->domain[kind];
    const dt_slab *const slab[STATE_SLABS] = {&d->master, &d->momentum, &d->average};

    return slab[which]->bytes > 0 ? slab[which]->mem : NULL;
}

/* A parameter in each slab of the state, to rank 0's whole slabs and back. */
static dt_status add_state(dt_run *r, const dt_param *p, const dt_piece *x)
{
    const dt_layout layout = x->cut ? DT_CUT : DT_HOME;
    float *const all = r->grid.whole.mem;

    for (int k = 0; k < STATE_SLABS; k++) {
        float *const slab = state_slab(r, x->cut ? DT_SLAB_CUT : DT_SLAB_HOME, k);
        float *const whole = all ? all + (size_t)k * r->net->slab_floats + p->offset : NULL;
        for (int key = KEY_COLLECT; key <= KEY_SPREAD && slab; key++) {
            const bool collects = key == KEY_COLLECT;
            const dt_move m = {.from = collects ? layout : DT_HOME,
                               .to = collects ? DT_HOME : layout,
                               .rows = (int64_t)p->count / p->dim[0],
                               .channels = p->dim[0],
                               .each = sizeof(float),
                               .source = collects ? slab + x->offset : whole,
                               .target = collects ? whole : slab + x->offset};
            DT_TRY(add_move(&r->grid, key, &m, 0));
        }
    }
    return DT_OK;
}

static dt_status add_weights(dt_run *r)
{
    const int parts = r->grid.parts;

    for (size_t i = 0; i < r->net->params; i++) {
        const dt_param *p = &r->net->param[i];
        const dt_piece x = dt_model_piece(r->model, i);
        if (r->grid.index == 0)
            DT_TRY(add_state(r, p, &x));
        for (int k = 0; k < parts * parts && x.cut && p->kind == DT_WEIGHT; k++)
            DT_TRY(add_turn(r, p, &x, k / parts, k % parts));
    }
    return DT_OK;
}

static dt_status grid_add(dt_run *r)
{
    dt_grid *g = &r->grid;
    dt_contexts *const contexts[] = {&r->contexts, &r->test};
    int keys = KEY_MOMENTS + r->contexts.wave.count;

    DT_TRY(dt_calloc(&g->wave, DT_COUNT_OF(contexts), sizeof *g->wave, "layers that are cut"));
    for (size_t i = 0; i < DT_COUNT_OF(contexts); i++) {
        dt_grid_wave *w = &g->wave[i];
        *w = (dt_grid_wave){.moves = {w, wave_before},
                            .run = r,
                            .contexts = contexts[i],
                            .first = keys,
                            .steps = contexts[i]->plan[0]->steps};
        keys += DT_MAX_PLANS * contexts[i]->wave.count * w->steps * DT_WAYS;
        contexts[i]->wave.moves = &w->moves;
    }
    DT_TRY(dt_moves_create(&g->moves, g->group, keys));
    if (g->trial) /* no other rank is there */
        return DT_OK;
    for (size_t i = 0; i < DT_COUNT_OF(contexts); i++)
        DT_TRY(add_wave(r, &g->wave[i]));
    DT_TRY(add_moments(r));
    return add_weights(r);
}

static dt_status grid_bind(dt_run *r)
{
    DT_TRY(dt_comm_agree(r->comm, grid_add(r)));
    return dt_comm_agree(r->comm, dt_moves_seal(r->grid.moves));
}

static dt_status grid_run(dt_run *r, int key)
{
    DT_TRY(dt_moves_start(r->grid.moves, key));
    return dt_moves_wait(r->grid.moves, key);
}

static dt_status grid_turned(dt_run *r)
{
    if (!r->grid.turns)
        return DT_OK;
    r->grid.turns = false;
    DT_TRY(dt_moves_wait(r->grid.moves, KEY_TURN));
    dt_model_pack_by_input(r->model);
    return DT_OK;
}

static dt_status grid_turn(dt_run *r)
{
    DT_TRY(grid_turned(r));
    r->grid.turns = true;
    return dt_moves_start(r->grid.moves, KEY_TURN);
}

static dt_status grid_collect(dt_run *r)
{
    return r->grid.index == 0 ? grid_run(r, KEY_COLLECT) : DT_OK;
}

static dt_status grid_spread(dt_run *r)
{
    const size_t bytes = dt_model_floats(r->model, DT_SLAB_CUT) * sizeof(float);

    DT_TRY(grid_turned(r)); /* it reads what is written here */
    if (r->grid.index == 0)
        DT_TRY(grid_run(r, KEY_SPREAD));
    for (int k = 0; k < STATE_SLABS; k++) {
        float *const cut = state_slab(r, DT_SLAB_CUT, k);
        if (cut)
            DT_TRY(dt_comm_bcast(r->grid.replicas, cut, bytes, 0));
    }
    return DT_OK;
}

static const struct dt_run_split grid_split = {.choose = dt_auto_choose,
                                               .load = dt_strategy_read,
                                               .open = grid_open,
                                               .stop = grid_stop,
                                               .close = grid_close,
#define X(name) .name = grid_##name,
                                               DT_GRID_LIST(X)
#undef X
};

void dt_extra_split(void)
{
    dt_plan_split = &dt_plan_cuts;
    dt_run_split = &grid_split;
    dt_options_mode = dt_mode_take;
}

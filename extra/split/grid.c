/* grid.c - layers that are cut over ranks: who cuts with whom, and the moves between the ranks of a
 * group. plan_cut.c says where a value is and where it is to go (dt_plan_move); here that becomes
 * rectangles for dt_moves. So do weights, of which data gradients read the own input channels, and
 * the state, which files have whole. */
#include "split.h"

#include <stdlib.h>

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
    const int place = plan * w->contexts->width + k;
    return w->first + (place * w->steps + step) * DT_WAYS + (int)way;
}

/* The rank of the group whose shard is at place k. */
static int home_of(const dt_run *r, const dt_contexts *c, int k)
{
    const dt_grid *g = &r->grid;
    int first, end, rank = 0;

    if (c == &r->test)
        return k;
    for (;; rank++) {
        dt_shards_of((int)r->o.shards, r->comm->world, g->index * g->parts + rank, &first, &end);
        if (g->first + k < end)
            return rank;
    }
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
    if (!dt_plan_stays(p, i, way))
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
        for (int k = 0; k < c->width; k++)
            for (int step = 0; step < w->steps; step++)
                for (int way = 0; way < DT_WAYS; way++) {
                    const dt_plan *own = dt_contexts_home(c, k) ? c->plan[i] : c->remote[i];
                    if (!dt_plan_moves(c->plan[i], step, (dt_way)way))
                        continue;
                    const dt_move m =
                        move_of(c->exec[k * DT_MAX_PLANS + i], own, step, (dt_way)way);
                    DT_TRY(add_move(&r->grid, wave_key(w, i, k, step, (dt_way)way), &m,
                                    home_of(r, c, k)));
                }
    return DT_OK;
}

static dt_status wave_move(void *context, bool waits, int step, dt_way way, int k)
{
    const dt_grid_wave *w = context;
    const int key = wave_key(w, w->contexts->which[k], k, step, way);

    if (!w->run->grid.moves) /* a trial's */
        return DT_OK;
    return (waits ? dt_moves_wait : dt_moves_start)(w->run->grid.moves, key);
}

/* ---- Moments ------------------------------------------------------------------------------- */

static dt_status add_moments(dt_run *r)
{
    const dt_contexts *c = &r->contexts;

    for (int k = 0; k < c->width; k++)
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

    for (int k = 0; k < c->width && r->grid.moves; k++)
        if (c->now[k])
            DT_TRY(dt_moves_start(r->grid.moves, KEY_MOMENTS + k));
    for (int k = 0; k < c->width && r->grid.moves; k++)
        if (c->now[k])
            DT_TRY(dt_moves_wait(r->grid.moves, KEY_MOMENTS + k));
    return DT_OK;
}

/* ---- Weights and the state --------------------------------------------------------------- */

/* From every rank its output channels of the own input channels. A weight is in memory
 * [taps][in][out]. */
static dt_status add_turn(dt_run *r, const dt_param *p, const dt_piece *x, int from, int to)
{
    dt_grid *g = &r->grid;
    const dt_cut out = dt_cut_of(p->dim[0], from, g->parts),
                 in = dt_cut_of(p->dim[1], to, g->parts);
    const size_t all_out = (size_t)out.whole, all_in = (size_t)in.whole;
    const size_t row = (size_t)out.count * sizeof(float), rows = (size_t)in.count;
    const float *master =
        (float *)r->domain[DT_SLAB_CUT].master.mem + x->offset + in.first * out.count;
    float *by_input = (float *)g->by_input.mem + x->by_input + out.first;

    for (size_t tap = 0; tap < p->count / (all_in * all_out); tap++) {
        const dt_rect rect = {.key = KEY_TURN,
                              .from = from,
                              .to = to,
                              .source = from == g->part ? master + tap * all_in * (size_t)out.count
                                                        : NULL,
                              .target = to == g->part ? by_input + tap * rows * all_out : NULL,
                              .rows = rows,
                              .bytes = row,
                              .from_stride = row,
                              .to_stride = all_out * sizeof(float)};
        DT_TRY(dt_moves_add(g->moves, &rect));
    }
    return DT_OK;
}

/* Between a piece, [rows][out], of rank `rank`, in the slab `cut`, and the first rank's slab
 * `whole`. */
static dt_status add_piece(dt_grid *g, const dt_param *p, const dt_piece *x, int rank, float *cut,
                           float *whole)
{
    const dt_cut out = dt_cut_of(p->dim[0], rank, g->parts);
    const size_t row = (size_t)out.count * sizeof(float), all = (size_t)out.whole * sizeof(float);
    const size_t rows = p->count / (size_t)out.whole;
    float *const piece = rank == g->part ? cut + x->offset : NULL;
    float *const place = whole ? whole + p->offset + out.first : NULL;
    const dt_rect collect = {KEY_COLLECT, rank, 0, piece, place, rows, row, row, all, 0, 0};
    const dt_rect spread = {KEY_SPREAD, 0, rank, place, piece, rows, row, all, row, 0, 0};

    DT_TRY(dt_moves_add(g->moves, &collect));
    return dt_moves_add(g->moves, &spread);
}

/* The slabs of the state: home, cut and whole ones. */
typedef struct state_slab {
    float *home, *cut, *whole;
} state_slab;
enum { STATE_SLABS = 3 };

static void state_slabs(const dt_run *r, state_slab of[STATE_SLABS])
{
    const dt_domain *home = &r->domain[DT_SLAB_HOME], *cut = &r->domain[DT_SLAB_CUT];
    const dt_slab *const slab[STATE_SLABS][DT_DOMAINS] = {{&home->master, &cut->master},
                                                          {&home->momentum, &cut->momentum},
                                                          {&home->average, &cut->average}};
    float *whole = r->grid.whole.mem;

    for (size_t i = 0; i < STATE_SLABS; i++)
        of[i] = (state_slab){slab[i][0]->bytes ? slab[i][0]->mem : NULL, slab[i][1]->mem,
                             whole ? whole + i * r->net->slab_floats : NULL};
}

static dt_status add_weights(dt_run *r)
{
    dt_grid *g = &r->grid;
    state_slab of[STATE_SLABS];

    state_slabs(r, of);
    for (size_t i = 0; i < r->net->params; i++) {
        const dt_param *p = &r->net->param[i];
        const dt_piece x = dt_model_piece(r->model, i);
        for (int rank = 0; rank < g->parts && x.cut; rank++) {
            for (size_t k = 0; k < STATE_SLABS && g->index == 0; k++)
                if (of[k].cut)
                    DT_TRY(add_piece(g, p, &x, rank, of[k].cut, of[k].whole));
            for (int to = 0; to < g->parts && p->kind == DT_WEIGHT; to++)
                DT_TRY(add_turn(r, p, &x, rank, to));
        }
    }
    return DT_OK;
}

static dt_status grid_add(dt_run *r)
{
    dt_grid *g = &r->grid;
    dt_contexts *const contexts[] = {&r->contexts, &r->test};
    int keys = KEY_MOMENTS + r->contexts.width;

    DT_TRY(dt_calloc(&g->wave, DT_COUNT_OF(contexts), sizeof *g->wave, "layers that are cut"));
    for (size_t i = 0; i < DT_COUNT_OF(contexts); i++) {
        dt_grid_wave *w = &g->wave[i];
        *w = (dt_grid_wave){.moves = {w, wave_move},
                            .run = r,
                            .contexts = contexts[i],
                            .first = keys,
                            .steps = (int)dt_plan_row_count(contexts[i]->plan[0])};
        keys += DT_MAX_PLANS * contexts[i]->width * w->steps * DT_WAYS;
        contexts[i]->moves = &w->moves;
    }
    if (g->trial)
        return DT_OK;
    DT_TRY(dt_moves_create(&g->moves, g->group, keys));
    for (size_t i = 0; i < DT_COUNT_OF(contexts); i++)
        DT_TRY(add_wave(r, &g->wave[i]));
    DT_TRY(add_moments(r));
    return add_weights(r);
}

static dt_status grid_bind(dt_run *r)
{
    DT_TRY(dt_comm_agree(r->comm, grid_add(r)));
    return r->grid.trial ? DT_OK : dt_comm_agree(r->comm, dt_moves_seal(r->grid.moves));
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
    if (r->grid.moves)
        DT_TRY(dt_moves_wait(r->grid.moves, KEY_TURN));
    dt_model_pack_by_input(r->model);
    return DT_OK;
}

static dt_status grid_turn(dt_run *r)
{
    DT_TRY(grid_turned(r));
    r->grid.turns = true;
    return r->grid.moves ? dt_moves_start(r->grid.moves, KEY_TURN) : DT_OK;
}

/* Home parameters between their slabs and the whole ones, on rank 0. */
static void copy_home(const dt_run *r, bool collect)
{
    state_slab of[STATE_SLABS];

    state_slabs(r, of);
    for (size_t i = 0; i < r->net->params; i++) {
        const dt_param *p = &r->net->param[i];
        const dt_piece x = dt_model_piece(r->model, i);
        for (size_t k = 0; k < STATE_SLABS && !x.cut; k++) {
            float *home = of[k].home + x.offset, *whole = of[k].whole + p->offset;
            if (of[k].home)
                memcpy(collect ? whole : home, collect ? home : whole, p->count * sizeof *home);
        }
    }
}

static dt_status grid_collect(dt_run *r)
{
    if (r->comm->rank == 0)
        copy_home(r, true);
    return r->grid.index == 0 ? grid_run(r, KEY_COLLECT) : DT_OK;
}

static dt_status grid_spread(dt_run *r)
{
    const size_t bytes = dt_model_floats(r->model, DT_SLAB_CUT) * sizeof(float);
    state_slab of[STATE_SLABS];

    DT_TRY(grid_turned(r)); /* it reads what is written here */
    if (r->comm->rank == 0)
        copy_home(r, false);
    if (r->grid.index == 0)
        DT_TRY(grid_run(r, KEY_SPREAD));
    state_slabs(r, of);
    for (size_t k = 0; k < STATE_SLABS; k++)
        if (of[k].cut)
            DT_TRY(dt_comm_bcast(r->grid.replicas, of[k].cut, bytes, 0));
    return DT_OK;
}

const struct dt_run_split dt_grid_split = {
    .choose = dt_auto_choose,
    .load = dt_strategy_read,
    .open = grid_open,
    .stop = grid_stop,
    .close = grid_close,
#define X(name) .name = grid_##name,
    DT_GRID_LIST(X)
#undef X
};

/* plan_cut.c - layers that are cut over ranks: what a rank has of their parameters, and the layout
 * of each value of a plan; what src/model asks (dt_plan_split). Which layers are cut, strategy.c
 * knows.
 *
 * A convolution or linear layer is cut along what it writes: y, dw and dbias by output channels
 * from the whole x and dy, dx by input channels from the whole dy. So its input is whole and the
 * input's gradient cut, its output cut and the output's gradient whole; a move before and one
 * behind it join these to their neighbours. All other operations but the loss compute each channel
 * alone: they follow their input, home or cut, without a move. No sum is cut anywhere. */
#include "split.h"

/* ---- Pieces of parameters ------------------------------------------------------------------ */

/* Offsets as net_assign_offsets makes them. */
static void cut_pieces(dt_model *m)
{
    for (size_t i = m->net->params; i-- > 0;) {
        const dt_param *p = &m->net->param[i];
        dt_piece *x = &m->piece[i];
        size_t *floats = &m->floats[x->cut ? DT_SLAB_CUT : DT_SLAB_HOME];
        if (x->cut) {
            x->out = dt_cut_of(p->dim[0], m->opts.part, m->opts.parts);
            x->count = p->count / (size_t)p->dim[0] * (size_t)x->out.count;
        }
        x->offset = *floats;
        *floats += dt_align(x->count, 16);
        if (!x->cut || p->kind != DT_WEIGHT)
            continue;
        x->in = dt_cut_of(p->dim[1], m->opts.part, m->opts.parts);
        x->by_input = m->floats[DT_SLAB_BY_INPUT];
        m->floats[DT_SLAB_BY_INPUT] +=
            dt_align(p->count / (size_t)p->dim[1] * (size_t)x->in.count, 16);
    }
}

static dt_status cut_model(dt_model *m)
{
    const dt_net *net = m->net;

    /* A wrong one is told on one rank, too. */
    DT_TRY(dt_strategy_cuts(net, m->opts.strategy, m->cut));
    if (!dt_model_is_cut(m))
        return memset(m->cut, 0, sizeof m->cut), DT_OK;
    m->floats[DT_SLAB_HOME] = 0;
    for (int i = 0; i < net->own->nodes; i++) {
        const dt_node *n = &net->own->node[i];
        for (int k = 0; k < n->n_param && m->cut[i]; k++)
            m->piece[n->param[k]].cut = true;
        if (n->norm >= 0 && m->cut[i])
            m->norm_cut[n->norm] =
                dt_cut_of((int64_t)net->norm[n->norm].channels, m->opts.part, m->opts.parts);
    }
    cut_pieces(m);
    for (int kind = 0; kind < DT_SLAB_KINDS; kind++)
        m->floats[kind] = DT_MAX(m->floats[kind], 16); /* none is empty: callers need not ask */
    return DT_OK;
}

/* ---- Moves ------------------------------------------------------------------------------ */

static dt_status move_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    *out = n->attr.flat ? (dt_shape){in->n, 1, 1, in->h * in->w * in->c} : *in;
    return DT_OK;
}

/* From one layout to another. The copies are the caller's (dt_wave_moves); a pass does nothing. */
static const dt_op op_move = {
    .name = "move",
    .moves = true,
    .infer = move_infer,
};

/* ---- A plan's layouts ------------------------------------------------------------------------ */

static void set_layout(dt_plan *p, int value, dt_layout forward, dt_layout backward)
{
    p->layout[value][DT_FORWARD] = forward;
    p->layout[value][DT_BACKWARD] = backward;
}

/* A move of `value` as step `at`, for its reader `name`; returns what it makes. */
static int insert_move(dt_plan *p, int at, int value, const char *name, bool flat)
{
    dt_node n = {.op = &op_move,
                 .attr.flat = flat,
                 .in = {value, -1},
                 .n_in = 1,
                 .norm = -1,
                 .out = p->values++};

    snprintf(n.name, sizeof n.name, "%s", name);
    p->value[n.out].wants_grad = p->value[value].wants_grad;
    dt_plan_insert(p, at, &n);
    return n.out;
}

/* The move behind a cut layer that makes `value`, -1: it is made otherwise. */
static int move_behind(const dt_plan *p, int value, int before)
{
    for (int i = 0; i < before; i++)
        if (p->node[i].out == value && p->node[i].op->moves)
            return p->layout[p->node[i].in[0]][DT_BACKWARD] == DT_WHOLE ? i : -1;
    return -1;
}

/* Input k of step *at in another layout. What a cut layer made goes there at once. */
static void bring(dt_plan *p, int *at, int k, dt_layout forward, bool flat)
{
    const dt_layout backward = forward == DT_WHOLE ? DT_CUT : forward;
    const int value = p->node[*at].in[k];

    if (p->layout[value][DT_FORWARD] == forward)
        return;
    if (!flat && move_behind(p, value, *at) >= 0) {
        set_layout(p, value, forward, backward);
        return;
    }
    const int made = insert_move(p, *at, value, p->node[*at].name, flat);
    ++*at;
    p->node[*at].in[k] = made;
    set_layout(p, made, forward, backward);
}

/* The step and the moves around it; *at becomes the last of them. */
static void lay_product(dt_plan *p, int *at)
{
    const bool flat = dt_split_flat(&p->node[*at], &p->value[p->node[*at].in[0]].shape);

    if (!p->node[*at].cut || flat) /* flat: the own features are no channels */
        bring(p, at, 0, DT_HOME, false);
    if (!p->node[*at].cut) {
        set_layout(p, p->node[*at].out, DT_HOME, DT_HOME);
        return;
    }
    bring(p, at, 0, DT_WHOLE, flat);
    const int out = p->node[*at].out;
    const int made = insert_move(p, *at + 1, out, p->node[*at].name, false);
    p->node[*at].out = made; /* they change places: readers know `out` */
    p->node[*at + 1].in[0] = made;
    p->node[*at + 1].out = out;
    set_layout(p, made, DT_CUT, DT_WHOLE);
    set_layout(p, out, DT_CUT, DT_CUT);
    ++*at;
}

static void lay_follower(dt_plan *p, int *at)
{
    const bool home = p->node[*at].op == &dt_op_softmax_xent;
    const dt_layout own = home ? DT_HOME : p->layout[p->node[*at].in[0]][DT_FORWARD];

    for (int k = 0; k < p->node[*at].n_in; k++)
        bring(p, at, k, own, false);
    p->node[*at].cut = own == DT_CUT;
    set_layout(p, p->node[*at].out, own, own);
    if (p->node[*at].second)
        set_layout(p, p->node[*at].second, own, own);
}

dt_move dt_plan_move(const dt_plan *p, int i, dt_way way)
{
    const dt_node *n = &p->node[i];
    const dt_value *out = &p->value[n->out];
    const bool forward = way == DT_FORWARD;

    return (dt_move){.from = p->layout[forward ? n->in[0] : n->out][way],
                     .to = p->layout[forward ? n->out : n->in[0]][way],
                     .rows = out->shape.n * out->shape.h * out->shape.w,
                     .channels = out->shape.c,
                     .each = dt_dtype_bytes(forward ? out->type : p->model->opts.precision)};
}

/* What step i, a move, moves; a value that nothing arrives at keeps its memory. */
static void settle_move(dt_plan *p, int i)
{
    dt_node *n = &p->node[i];

    for (int way = 0; way < DT_WAYS; way++) {
        const dt_move m = dt_plan_move(p, i, (dt_way)way);
        const bool there =
            way == DT_FORWARD || (p->mode == DT_TRAIN && p->value[n->in[0]].wants_grad);
        n->moves[way] = m.from != m.to && there;
        n->stays[way] = m.from == m.to || (m.from == DT_HOME && m.to == DT_WHOLE && !p->remote);
    }
}

static dt_status cut_plan(dt_plan *p)
{
    enum { MOST = 5 }; /* steps that one becomes */

    for (int at = 0; at < p->steps; at++) {
        if (p->steps + MOST > DT_MAX_NODES || p->values + MOST > DT_MAX_VALUES)
            return dt_fail(DT_BUG, "a plan of more than %d steps", DT_MAX_NODES - MOST);
        if (p->node[at].op->weights)
            lay_product(p, &at);
        else
            lay_follower(p, &at);
    }
    for (int i = 0; i < p->steps; i++)
        if (p->node[i].op->moves)
            settle_move(p, i);
    return DT_OK;
}

/* ---- For people ------------------------------------------------------------------------------ */

dt_split_row dt_split_row_get(const dt_plan *p, int i)
{
    static const char *const names[] = {[DT_HOME] = "home", [DT_CUT] = "cut", [DT_WHOLE] = "whole"};
    const dt_node *n = &p->node[i];
    const int64_t numbers =
        dt_shape_count(&p->value[n->in[0]].shape) + dt_shape_count(&p->value[n->out].shape);
    dt_split_row row = {.pays_below = 0};

    if (!dt_model_is_cut(p->model))
        return row;
    snprintf(row.layout[0], sizeof row.layout[0], "%s", n->cut ? "cut" : "home");
    if (n->op->weights)
        row.pays_below = 8.0 * (double)p->model->net->param[n->param[0]].count * (double)p->batch /
                         ((double)numbers * (double)dt_dtype_bytes(p->model->opts.precision));
    for (int way = 0; way < DT_WAYS && n->op->moves; way++) {
        const dt_move m = dt_plan_move(p, i, (dt_way)way);
        snprintf(row.layout[way], sizeof row.layout[way], n->moves[way] ? "%s -> %s" : "-",
                 names[m.from], names[m.to]);
    }
    return row;
}

const struct dt_plan_split dt_plan_cuts = {cut_model, cut_plan};

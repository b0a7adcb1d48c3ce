/* exec.c - a plan bound to memory: forward and backward are loops over steps. */
#include "plan.h"

#include <stdlib.h>

struct dt_exec {
    const dt_plan *plan; /* borrowed */
    dt_call *call;       /* [plan->steps], owned */
    char *arena;         /* borrowed */
    dt_result result;
    void *context;
};

static void *exec_at(const dt_exec *e, int block)
{
    return block == DT_NO_BLOCK ? NULL : e->arena + e->plan->block[block].offset;
}

static void *exec_value(const dt_exec *e, int value)
{
    return exec_at(e, e->plan->value[e->plan->value[value].root].block);
}

static void *exec_grad(const dt_exec *e, int value)
{
    return value < 0 ? NULL : exec_at(e, e->plan->value[value].grad_block);
}

static void exec_bind(dt_exec *e, int i, void *scratch)
{
    const dt_plan *p = e->plan;
    const dt_model *m = p->model;
    const dt_node *n = &p->node[i];
    dt_call *c = &e->call[i];

    *c = (dt_call){.step = &p->step[i],
                   .out = exec_value(e, n->out),
                   .d_out = exec_grad(e, n->out),
                   .d_out2 = exec_grad(e, p->second_out[i]),
                   .scratch = scratch,
                   .saved = exec_at(e, p->saved_block[i]),
                   .labels = exec_at(e, p->labels_block),
                   .result = &e->result};
    for (int k = 0; k < n->n_in; k++) {
        c->in[k] = exec_value(e, n->in[k]);
        c->d_in[k] = exec_grad(e, n->in[k]);
    }
    for (int k = 0; k < n->n_param; k++) {
        const dt_piece x = dt_model_piece(m, (size_t)n->param[k]);
        c->param[k] = (x.cut ? m->cut_master : m->weights.master) + x.offset;
    }
    for (int k = 0; k < 2; k++)
        if (c->step->pack[k] >= 0)
            c->packed[k] = dt_pack_at(m, &m->pack[c->step->pack[k]]);
    if (n->norm >= 0) {
        const size_t at = m->net->norm[n->norm].offset + (size_t)c->step->out_cut.first;
        c->running_mean = m->weights.running_mean + at;
        c->running_var = m->weights.running_var + at;
    }
}

dt_status dt_exec_create(dt_exec **out, const dt_plan *p, void *arena, void *scratch)
{
    dt_exec *e = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&e, 1, sizeof *e, "an execution context"));
    e->plan = p;
    e->arena = arena;
    DT_GO(st, dt_calloc(&e->call, (size_t)p->steps, sizeof *e->call, "an execution context"), out);
    for (int i = 0; i < p->steps; i++)
        exec_bind(e, i, scratch);
    *out = e;
    e = NULL;

out:
    dt_exec_destroy(e);
    return st;
}

void dt_exec_destroy(dt_exec *e)
{
    if (!e)
        return;
    free(e->call);
    free(e);
}

void *dt_exec_input(dt_exec *e)
{
    return exec_value(e, 0);
}

int32_t *dt_exec_labels(dt_exec *e)
{
    return exec_at(e, e->plan->labels_block);
}

const float *dt_exec_logits(const dt_exec *e)
{
    return exec_value(e, e->plan->logits);
}

dt_move dt_exec_move(const dt_exec *e, size_t i, dt_way way)
{
    const dt_plan *p = e->plan;
    const dt_node *n = &p->node[i];
    const int from = way == DT_FORWARD ? n->in[0] : n->out,
              to = way == DT_FORWARD ? n->out : n->in[0];
    dt_move m = dt_plan_move(p, i, way);

    m.source = way == DT_FORWARD ? exec_value(e, from) : exec_grad(e, from);
    if (!dt_plan_move_stays(p, (int)i, way))
        m.target = way == DT_FORWARD ? exec_value(e, to) : exec_grad(e, to);
    return m;
}

/* ---- A wave ------------------------------------------------------------------------------ */

static dt_call *forward_call(dt_exec *e, int i, dt_moment *moments)
{
    const dt_plan *p = e->plan;
    const int norm = p->node[i].norm;
    dt_call *c = &e->call[i];

    c->moments = moments && norm >= 0
                     ? moments + p->model->net->norm[norm].offset + c->step->out_cut.first
                     : NULL;
    return c;
}

static dt_call *backward_call(dt_exec *e, int i, double divisor, float *grad, float *cut_grad)
{
    const dt_plan *p = e->plan;
    dt_call *c = &e->call[i];

    c->divisor = divisor;
    for (int k = 0; k < p->node[i].n_param; k++) {
        const dt_piece x = dt_model_piece(p->model, (size_t)p->node[i].param[k]);
        c->d_param[k] = (x.cut ? cut_grad : grad) + x.offset;
    }
    return c;
}

static const dt_plan *wave_plan(const dt_wave *w)
{
    return w->plan ? w->plan : w->exec[0]->plan;
}

/* The shards of a step: those of the rank, or, if the step is cut, all of the wave. */
typedef struct wave_step {
    const dt_step *s;
    const dt_norm_sync *sync; /* NULL: no statistics are shared */
    int first, end;
} wave_step;

static wave_step wave_at(const dt_wave *w, int i)
{
    const dt_step *s = &wave_plan(w)->step[i];
    const bool all = s->cut || !w->moves;
    const dt_norm_sync *sync = s->cut ? w->cut_sync : w->sync;

    return (wave_step){.s = s,
                       .sync = s->op->sync && !s->idle ? sync : NULL,
                       .first = all ? 0 : w->first_home,
                       .end = all ? w->count : w->first_home + w->homes};
}

/* Where shard k writes its own statistics of a step: zeros when it has no images, so that
 * the reduction treats all shards alike. */
static void *wave_leaf(const dt_wave *w, const wave_step *at, dt_norm_kind kind, int k)
{
    const size_t channels = (size_t)at->s->out_shape.c;
    const size_t each = kind == DT_SYNC_MOMENTS ? sizeof(dt_moment) : 2 * sizeof(double);
    void *leaf = at->sync->leaf(at->sync->context, kind, channels, k - at->first);

    if (!w->exec[k])
        memset(leaf, 0, channels * each);
    return leaf;
}

/* What the last step moved for shard k has come, before the shard's next step. */
static dt_status wave_settle(const dt_wave *w, int last, dt_way way, int k)
{
    if (!w->moves || !w->exec[k] || last < 0 || last >= wave_plan(w)->steps ||
        !dt_plan_moves(wave_plan(w), (size_t)last, way))
        return DT_OK;
    const int64_t began = dt_place_clock();
    const bool forward = way == DT_FORWARD;
    dt_place_layer(last);
    DT_TRY(w->moves->wait(w->moves->context, last, way, k));
    dt_place_layer(forward ? last + 1 : last - 1);
    dt_record(DT_LANE_LAYER, last * DT_CLOCKED + (int)(forward ? DT_PASS_FORWARD : DT_PASS_DATA), 0,
              began);
    return DT_OK;
}

/* The shard's part in a step that is a move, behind what the last step moved. */
static dt_status wave_move(const dt_wave *w, int i, dt_way way, int k)
{
    if (!w->moves || !w->exec[k] || !dt_plan_moves(wave_plan(w), (size_t)i, way))
        return DT_OK;
    return w->moves->start(w->moves->context, i, way, k);
}

/* ---- Steps ------------------------------------------------------------------------------- */

static void wave_call(int i, dt_pass pass, void (*run)(const dt_call *c), const dt_call *c)
{
    const int64_t began = dt_place_clock();

    run(c);
    dt_record(DT_LANE_LAYER, i * DT_CLOCKED + (int)pass, 0, began);
}

/* The group's half: each shard takes its group's value. */
static dt_status wave_shared(const dt_wave *w, const wave_step *at, int i, dt_pass pass,
                             dt_norm_kind kind, void (*shared)(const dt_call *c))
{
    const int64_t began = dt_place_clock();

    DT_TRY(at->sync->combine(at->sync->context, kind, (size_t)at->s->out_shape.c));
    dt_record(DT_LANE_LAYER, i * DT_CLOCKED + DT_CLOCKED_COMBINE, 0, began);
    for (int k = at->first; k < at->end; k++) {
        const void *value = at->sync->result(at->sync->context, kind, k - at->first);
        if (!w->exec[k])
            continue;
        dt_call *c = &w->exec[k]->call[i];
        c->shared = value;
        if (kind == DT_SYNC_MOMENTS)
            c->shared_count = ((const dt_moment *)value)[0].count;
        wave_call(i, pass, shared, c);
    }
    return DT_OK;
}

/* Shards in turn: while one computes, what is moved for the next ones is under way. */
static dt_status forward_step(const dt_wave *w, int i, dt_moment *const *moments)
{
    const wave_step at = wave_at(w, i);
    const struct dt_op_sync *halves = at.sync ? at.s->op->sync : NULL;

    for (int k = 0; k < w->count; k++) {
        const bool runs = k >= at.first && k < at.end && !at.s->idle;
        DT_TRY(wave_settle(w, i - 1, DT_FORWARD, k));
        DT_TRY(wave_move(w, i, DT_FORWARD, k));
        void *local = halves && runs ? wave_leaf(w, &at, DT_SYNC_MOMENTS, k) : NULL;
        if (!w->exec[k] || !runs)
            continue;
        dt_call *c = forward_call(w->exec[k], i, moments ? moments[k] : NULL);
        c->local = local;
        wave_call(i, DT_PASS_FORWARD, halves ? halves->forward_local : at.s->op->forward, c);
    }
    return halves ? wave_shared(w, &at, i, DT_PASS_FORWARD, DT_SYNC_MOMENTS, halves->forward_shared)
                  : DT_OK;
}

dt_status dt_exec_forward(const dt_wave *w, dt_moment *const *moments, dt_result *result)
{
    const dt_plan *p = wave_plan(w);

    for (int i = 0; i < p->steps; i++) {
        dt_place_layer(i);
        DT_TRY(forward_step(w, i, moments));
    }
    for (int k = 0; k < w->count; k++)
        result[k] = w->exec[k] ? w->exec[k]->result : (dt_result){0, 0};
    return DT_OK;
}

static dt_status backward_step(const dt_wave *w, int i, double divisor, float *const *grad)
{
    const wave_step at = wave_at(w, i);
    const struct dt_op_sync *halves = at.sync ? at.s->op->sync : NULL;

    for (int k = 0; k < w->count; k++) {
        const bool runs = k >= at.first && k < at.end && !at.s->idle;
        DT_TRY(wave_settle(w, i + 1, DT_BACKWARD, k));
        DT_TRY(wave_move(w, i, DT_BACKWARD, k));
        void *local = halves && runs ? wave_leaf(w, &at, DT_SYNC_SUMS, k) : NULL;
        if (!w->exec[k] || !runs)
            continue;
        dt_call *c =
            backward_call(w->exec[k], i, divisor, grad[k], w->cut_grad ? w->cut_grad[k] : NULL);
        c->local = local;
        if (at.s->op->weights)
            wave_call(i, DT_PASS_WEIGHTS, at.s->op->weights, c);
        wave_call(i, DT_PASS_DATA, halves ? halves->backward_local : at.s->op->backward, c);
    }
    return halves ? wave_shared(w, &at, i, DT_PASS_DATA, DT_SYNC_SUMS, halves->backward_shared)
                  : DT_OK;
}

dt_status dt_exec_backward(const dt_wave *w, double divisor, float *const *grad,
                           const dt_observer *observer)
{
    const dt_plan *p = wave_plan(w);

    for (int i = p->steps; i-- > 0;) {
        dt_place_layer(i);
        DT_TRY(backward_step(w, i, divisor, grad));
        const int64_t began = dt_place_clock();
        if (observer)
            DT_TRY(observer->ready(observer->context, p->final[i][0], p->final[i][1]));
        dt_record(DT_LANE_LAYER, i * DT_CLOCKED + DT_CLOCKED_READY, 0, began);
    }
    return DT_OK;
}

/* exec.c - a plan bound to memory: forward and backward are loops over steps. */
#include "plan.h"

static void *exec_at(const dt_exec *e, int block)
{
    return block == DT_NO_BLOCK ? NULL : e->arena + e->plan->block[block].offset;
}

void *dt_exec_memory(const dt_exec *e, int value, dt_way way)
{
    const dt_value *v = e->plan->value;
    return exec_at(e, way == DT_FORWARD ? v[v[value].root].block : v[value].grad_block);
}

static void exec_bind(dt_exec *e, int i, void *scratch)
{
    const dt_plan *p = e->plan;
    const dt_model *m = p->model;
    const dt_node *n = &p->node[i];
    dt_call *c = &e->call[i];

    *c = (dt_call){.step = &p->step[i],
                   .out = dt_exec_memory(e, n->out, DT_FORWARD),
                   .d_out = dt_exec_memory(e, n->out, DT_BACKWARD),
                   .d_out2 = dt_exec_memory(e, n->second, DT_BACKWARD),
                   .scratch = scratch,
                   .saved = exec_at(e, p->saved_block[i]),
                   .labels = e->labels,
                   .result = &e->result};
    for (int way = 0; way < DT_WAYS; way++)
        c->sums[way] = exec_at(e, p->sums_block[i][way]);
    for (int pass = 0; pass < DT_PASS_COUNT; pass++)
        if (c->step->feeds[pass] >= 0)
            c->feeds[pass] = &e->call[c->step->feeds[pass]];
    for (int k = 0; k < n->n_in; k++) {
        c->in[k] = dt_exec_memory(e, n->in[k], DT_FORWARD);
        c->d_in[k] = dt_exec_memory(e, n->in[k], DT_BACKWARD);
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
    DT_TRY(dt_calloc(out, 1, sizeof **out, "an execution context"));
    dt_exec *e = *out;
    e->plan = p;
    e->arena = arena;
    e->input = dt_exec_memory(e, 0, DT_FORWARD);
    e->labels = exec_at(e, p->labels_block);
    e->logits = dt_exec_memory(e, p->logits, DT_FORWARD);
    DT_TRY(dt_calloc(&e->call, (size_t)p->steps, sizeof *e->call, "an execution context"));
    for (int i = 0; i < p->steps; i++)
        exec_bind(e, i, scratch);
    return DT_OK;
}

void dt_exec_destroy(dt_exec *e)
{
    if (!e)
        return;
    free(e->call);
    free(e);
}

/* ---- A pass of a wave ---------------------------------------------------------------------- */

typedef struct wave_run {
    const dt_wave *wave;
    const dt_plan *plan; /* gives the steps */
    dt_way way;
    dt_pass pass; /* of that way, without the weights' */
    dt_moment *const *moments;
    double divisor;
    float *const *grad;
} wave_run;

/* Where shard k's call of a step writes what is not in its arena. */
static dt_call *wave_bind(const wave_run *r, int i, int k)
{
    const dt_node *n = &r->plan->node[i];
    const dt_model *m = r->plan->model;
    dt_moment *moments = r->moments && n->norm >= 0 ? r->moments[k] : NULL;
    dt_call *c = &r->wave->exec[k]->call[i];

    c->divisor = r->divisor;
    c->moments = moments ? moments + m->net->norm[n->norm].offset + c->step->out_cut.first : NULL;
    for (int p = 0; r->way == DT_BACKWARD && p < n->n_param; p++) {
        const dt_piece x = dt_model_piece(m, (size_t)n->param[p]);
        c->d_param[p] = (x.cut ? r->wave->cut_grad : r->grad)[k] + x.offset;
    }
    return c;
}

/* The shards of a step: those of the rank, or, if the step is cut, all of the wave. */
typedef struct wave_step {
    const dt_step *s;
    const dt_norm_sync *sync; /* NULL: no statistics are shared */
    int first, end;
} wave_step;

static wave_step wave_at(const wave_run *r, int i)
{
    const dt_wave *w = r->wave;
    const dt_step *s = &r->plan->step[i];
    const bool all = s->cut || !w->moves;
    const dt_norm_sync *sync = s->cut ? w->cut_sync : w->sync;

    return (wave_step){.s = s,
                       .sync = s->op->local[r->way] && !s->idle ? sync : NULL,
                       .first = all ? 0 : w->first_home,
                       .end = all ? w->count : w->first_home + w->homes};
}

/* Where shard k writes its own statistics of a step: zeros when it has no images, so that
 * the reduction treats all shards alike. */
static void *wave_leaf(const wave_run *r, const wave_step *at, int k)
{
    const size_t channels = (size_t)at->s->out_shape.c;
    const size_t each = r->way == DT_FORWARD ? sizeof(dt_moment) : 2 * sizeof(double);
    void *leaf = at->sync->leaf(at->sync->context, r->way, channels, k - at->first);

    if (!r->wave->exec[k])
        memset(leaf, 0, channels * each);
    return leaf;
}

/* ---- Steps ------------------------------------------------------------------------------- */

typedef void wave_half(const dt_call *c);

/* One half of a pass or both; NULL: not that one. */
static void wave_call(int i, dt_pass pass, wave_half *first, wave_half *second, const dt_call *c)
{
    const int64_t began = dt_activity_clock();

    if (first)
        first(c);
    if (second)
        second(c);
    dt_record(DT_LANE_LAYER, i * DT_CLOCKED + (int)pass, 0, began);
}

/* The group's half: each shard takes its group's value. */
static dt_status wave_shared(const wave_run *r, const wave_step *at, int i, wave_half *half)
{
    const int64_t began = dt_activity_clock();

    DT_TRY(at->sync->combine(at->sync->context, r->way, (size_t)at->s->out_shape.c));
    dt_record(DT_LANE_LAYER, i * DT_CLOCKED + DT_CLOCKED_COMBINE, 0, began);
    for (int k = at->first; k < at->end; k++) {
        const void *value = at->sync->result(at->sync->context, r->way, k - at->first);
        if (!r->wave->exec[k])
            continue;
        dt_call *c = &r->wave->exec[k]->call[i];
        c->shared = value;
        if (r->way == DT_FORWARD)
            c->shared_count = ((const dt_moment *)value)[0].count;
        wave_call(i, r->pass, NULL, half, c);
    }
    return DT_OK;
}

/* Shards in turn: while one computes, what is moved for the next ones is under way. */
static dt_status wave_run_step(const wave_run *r, int i)
{
    const dt_wave *w = r->wave;
    const wave_step at = wave_at(r, i);
    const dt_op *op = at.s->op;
    wave_half *const first = at.s->mode == DT_TRAIN ? op->local[r->way] : NULL;
    wave_half *const second = r->way == DT_FORWARD ? op->forward : op->backward;

    for (int k = 0; k < w->count; k++) {
        const bool runs = k >= at.first && k < at.end && !at.s->idle;
        if (w->moves && w->exec[k])
            DT_TRY(w->moves->before(w->moves->context, i, r->way, k));
        void *local = at.sync && runs ? wave_leaf(r, &at, k) : NULL;
        if (!w->exec[k] || !runs)
            continue;
        dt_call *c = wave_bind(r, i, k);
        c->local = local;
        if (r->way == DT_BACKWARD && op->weights)
            wave_call(i, DT_PASS_WEIGHTS, op->weights, NULL, c);
        wave_call(i, r->pass, first, at.sync ? NULL : second, c);
    }
    return at.sync ? wave_shared(r, &at, i, second) : DT_OK;
}

static const dt_plan *wave_plan(const dt_wave *w)
{
    return w->plan ? w->plan : w->exec[0]->plan;
}

dt_status dt_exec_forward(const dt_wave *w, dt_moment *const *moments, dt_result *result)
{
    const wave_run r = {w, wave_plan(w), DT_FORWARD, DT_PASS_FORWARD, .moments = moments};

    for (int i = 0; i < r.plan->steps; i++) {
        dt_activity_layer(i);
        DT_TRY(wave_run_step(&r, i));
    }
    for (int k = 0; k < w->count; k++)
        result[k] = w->exec[k] ? w->exec[k]->result : (dt_result){0, 0};
    return DT_OK;
}

dt_status dt_exec_backward(const dt_wave *w, double divisor, float *const *grad,
                           const dt_observer *observer)
{
    const wave_run r = {w,           wave_plan(w), DT_BACKWARD, DT_PASS_DATA, .divisor = divisor,
                        .grad = grad};

    for (int i = r.plan->steps; i-- > 0;) {
        dt_activity_layer(i);
        DT_TRY(wave_run_step(&r, i));
        const int64_t began = dt_activity_clock();
        if (observer)
            DT_TRY(observer->ready(observer->context, r.plan->final[i]));
        dt_record(DT_LANE_LAYER, i * DT_CLOCKED + DT_CLOCKED_READY, 0, began);
    }
    return DT_OK;
}

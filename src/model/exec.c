/* exec.c - a plan bound to memory: forward and backward are loops over steps. */
#include "plan.h"

#include <stdlib.h>

struct dt_exec {
    const dt_plan *plan; /* borrowed */
    dt_call *call;       /* [plan->steps], owned */
    char *arena;         /* borrowed */
    dt_result result;
    dt_status (*goes_on)(void *context); /* NULL: nobody is asked */
    void *context;
    int flip_param;    /* -1: none */
    unsigned flip_bit;
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

    *c = (dt_call){.step = &p->step[i], .out = exec_value(e, n->out),
                   .d_out = exec_grad(e, n->out), .scratch = scratch,
                   .saved = exec_at(e, p->saved_block[i]),
                   .labels = exec_at(e, p->labels_block), .result = &e->result};
    for (int k = 0; k < n->n_in; k++) {
        c->in[k] = exec_value(e, n->in[k]);
        c->d_in[k] = exec_grad(e, n->in[k]);
    }
    if (p->second_out[i] >= 0) /* a fork adds the gradients of its two outputs */
        c->in[1] = exec_grad(e, p->second_out[i]);
    for (int k = 0; k < n->n_param; k++)
        c->param[k] = m->weights.master + m->net->param[n->param[k]].offset;
    for (int k = 0; k < 2; k++)
        if (c->step->pack[k] >= 0)
            c->packed[k] = m->packed + m->pack[c->step->pack[k]].offset;
    if (n->norm >= 0) {
        c->running_mean = m->weights.running_mean + m->net->norm[n->norm].offset;
        c->running_var = m->weights.running_var + m->net->norm[n->norm].offset;
    }
}

dt_status dt_exec_create(dt_exec **out, const dt_plan *p, void *arena, void *scratch)
{
    dt_exec *e = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&e, 1, sizeof *e, "an execution context"));
    e->plan = p;
    e->arena = arena;
    e->flip_param = -1;
    DT_GO(st, dt_calloc(&e->call, (size_t)p->steps, sizeof *e->call,
                        "an execution context"), out);
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

void dt_exec_watch(dt_exec *e, dt_status (*goes_on)(void *context), void *context)
{
    e->goes_on = goes_on;
    e->context = context;
}

void dt_exec_flip(dt_exec *e, size_t param, unsigned bit)
{
    e->flip_param = (int)param;
    e->flip_bit = bit;
}

static void exec_flip(dt_exec *e, int i)
{
    const dt_node *n = &e->plan->node[i];

    for (int k = 0; k < n->n_param; k++)
        if (n->param[k] == e->flip_param) {
            dt_flip_bit(e->call[i].out, e->flip_bit);
            e->flip_param = -1;
            return;
        }
}

/* ---- One context ---------------------------------------------------------------------- */

static dt_call *forward_call(dt_exec *e, int i, dt_moment *moments)
{
    const dt_plan *p = e->plan;
    const int norm = p->node[i].norm;
    dt_call *c = &e->call[i];

    c->moments = moments && norm >= 0 ? moments + p->model->net->norm[norm].offset : NULL;
    return c;
}

static dt_call *backward_call(dt_exec *e, int i, double divisor, float *grad)
{
    const dt_plan *p = e->plan;
    dt_call *c = &e->call[i];

    c->divisor = divisor;
    for (int k = 0; k < p->node[i].n_param; k++)
        c->d_param[k] = grad + p->model->net->param[p->node[i].param[k]].offset;
    return c;
}

dt_status dt_exec_forward(dt_exec *e, dt_moment *moments, dt_result *result)
{
    for (int i = 0; i < e->plan->steps; i++) {
        const dt_call *c = forward_call(e, i, moments);
        if (e->goes_on)
            DT_TRY(e->goes_on(e->context));
        DT_TRY(c->step->op->forward(c));
        if (e->flip_param >= 0)
            exec_flip(e, i);
    }
    *result = e->result;
    return DT_OK;
}

dt_status dt_exec_backward(dt_exec *e, double divisor, float *grad,
                           const dt_observer *observer)
{
    for (int i = e->plan->steps; i-- > 0;) {
        const dt_call *c = backward_call(e, i, divisor, grad);
        if (e->goes_on)
            DT_TRY(e->goes_on(e->context));
        DT_TRY(c->step->op->backward(c));
        if (observer)
            DT_TRY(observer->ready(observer->context, e->plan->final[i]));
    }
    return DT_OK;
}

/* ---- Several, step by step ---------------------------------------------------------------- */

/* Where shard k writes its own statistics of step i: zeros when it has no images, so that
 * whoever combines them need not know. */
static void *team_leaf(const dt_team *t, dt_norm_kind kind, int i, int k)
{
    const size_t channels = (size_t)t->walk->step[i].out_shape.c;
    void *leaf = t->sync->leaf(t->sync->context, kind, channels, k);

    if (!t->exec[k])
        memset(leaf, 0, channels * (kind == DT_SYNC_MOMENTS ? sizeof(dt_moment)
                                                            : 2 * sizeof(double)));
    return leaf;
}

static dt_status team_forward_step(const dt_team *t, int i, dt_moment *const *moments)
{
    const dt_op *op = t->walk->step[i].op;

    for (int k = 0; k < t->count; k++) {
        void *local = op->sync ? team_leaf(t, DT_SYNC_MOMENTS, i, k) : NULL;
        if (!t->exec[k])
            continue;
        dt_call *c = forward_call(t->exec[k], i, moments ? moments[k] : NULL);
        c->local = local;
        DT_TRY(op->sync ? op->sync->forward_local(c) : op->forward(c));
    }
    if (!op->sync)
        return DT_OK;
    DT_TRY(t->sync->combine(t->sync->context, DT_SYNC_MOMENTS));
    for (int k = 0; k < t->count; k++) {
        const dt_moment *shared = t->sync->result(t->sync->context, DT_SYNC_MOMENTS, k);
        if (!t->exec[k])
            continue;
        dt_call *c = &t->exec[k]->call[i];
        c->shared = shared;
        c->shared_count = shared[0].count;
        DT_TRY(op->sync->forward_shared(c));
    }
    return DT_OK;
}

dt_status dt_team_forward(const dt_team *t, dt_moment *const *moments, dt_result *result)
{
    for (int i = 0; i < t->walk->steps; i++) {
        DT_TRY(team_forward_step(t, i, moments));
        for (int k = 0; k < t->count; k++)
            if (t->exec[k] && t->exec[k]->flip_param >= 0)
                exec_flip(t->exec[k], i);
    }
    for (int k = 0; k < t->count; k++)
        result[k] = t->exec[k] ? t->exec[k]->result : (dt_result){0, 0};
    return DT_OK;
}

static dt_status team_backward_step(const dt_team *t, int i, double divisor,
                                    float *const *grad)
{
    const dt_op *op = t->walk->step[i].op;

    for (int k = 0; k < t->count; k++) {
        void *local = op->sync ? team_leaf(t, DT_SYNC_SUMS, i, k) : NULL;
        if (!t->exec[k])
            continue;
        dt_call *c = backward_call(t->exec[k], i, divisor, grad[k]);
        c->local = local;
        DT_TRY(op->sync ? op->sync->backward_local(c) : op->backward(c));
    }
    if (!op->sync)
        return DT_OK;
    DT_TRY(t->sync->combine(t->sync->context, DT_SYNC_SUMS));
    for (int k = 0; k < t->count; k++) {
        const void *shared = t->sync->result(t->sync->context, DT_SYNC_SUMS, k);
        if (!t->exec[k])
            continue;
        dt_call *c = &t->exec[k]->call[i];
        c->shared = shared;
        DT_TRY(op->sync->backward_shared(c));
    }
    return DT_OK;
}

dt_status dt_team_backward(const dt_team *t, double divisor, float *const *grad,
                           const dt_observer *observer)
{
    for (int i = t->walk->steps; i-- > 0;) {
        DT_TRY(team_backward_step(t, i, divisor, grad));
        if (observer)
            DT_TRY(observer->ready(observer->context, t->walk->final[i]));
    }
    return DT_OK;
}

/* A plan bound to memory: forward and backward are loops over steps. */
#include "plan.h"

#include <stdlib.h>

struct dt_exec {
    const dt_plan *plan; /* borrowed */
    dt_call *call;       /* [plan->steps], owned */
    char *arena;         /* borrowed */
    dt_result result;
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
        c->param[k] = m->slabs.master + m->net->param[n->param[k]].offset;
    for (int k = 0; k < 2; k++)
        if (c->step->pack[k] >= 0)
            c->packed[k] = (char *)m->slabs.packed + m->pack[c->step->pack[k]].offset;
    if (n->norm >= 0) {
        c->running_mean = m->slabs.running_mean + m->net->norm[n->norm].offset;
        c->running_var = m->slabs.running_var + m->net->norm[n->norm].offset;
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
            unsigned char *byte = (unsigned char *)e->call[i].out + e->flip_bit / 8;
            *byte = (unsigned char)(*byte ^ (1u << e->flip_bit % 8));
            e->flip_param = -1;
            return;
        }
}

dt_status dt_exec_forward(dt_exec *e, dt_moment *moments, dt_result *result)
{
    const dt_plan *p = e->plan;

    for (int i = 0; i < p->steps; i++) {
        dt_call *c = &e->call[i];
        const int norm = p->node[i].norm;
        c->moments = moments && norm >= 0 ? moments + p->model->net->norm[norm].offset : NULL;
        DT_TRY(c->step->op->forward(c));
        if (e->flip_param >= 0)
            exec_flip(e, i);
    }
    *result = e->result;
    return DT_OK;
}

dt_status dt_exec_backward(dt_exec *e, int64_t n_global, float *grad,
                           const dt_observer *observer)
{
    const dt_plan *p = e->plan;

    for (int i = p->steps; i-- > 0;) {
        dt_call *c = &e->call[i];
        c->n_global = n_global;
        for (int k = 0; k < p->node[i].n_param; k++)
            c->d_param[k] = grad + p->model->net->param[p->node[i].param[k]].offset;
        DT_TRY(c->step->op->backward(c));
        if (observer)
            DT_TRY(observer->ready(observer->context, p->final[i]));
    }
    return DT_OK;
}

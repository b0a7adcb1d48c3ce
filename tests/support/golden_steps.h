/* golden_steps.h - every step of a whole network, as it really ran, against naive double
 * precision on the same operands.
 *
 * At its own initialisation a ResNet-50 is chaotic in bf16: rounding alone turns decisions of
 * ReLU and pooling, and PyTorch's bf16 gradients are no nearer to its float64 than zero is.
 * Step by step nothing is chaotic: from the operands that a step had in memory, each of its
 * results is determined to half a unit of bf16, and each gradient of a parameter, which is
 * float32, to rounding. That the steps hang together as in PyTorch is what the float32 cases
 * of the same networks show. */
#ifndef DT_TEST_GOLDEN_STEPS_H
#define DT_TEST_GOLDEN_STEPS_H
#include "golden.h"
#include "oracle.h"

/* Distance of a parameter's gradient from the naive one, relative to its own norm. It is
 * float32's rounding: 5e-7 at worst in these networks. Only a bias in front of a batch norm has
 * a gradient that is made of the rounding errors of its terms and nothing else: 1.5e-5. */
#define STEPS_GRADIENT 1e-4

typedef struct steps {
    golden g;
    float *want; /* [floats]: naive gradients, in the slab's places */
} steps;

/* Nothing shares memory, so that all values and gradients of a pass are there after it. */
static inline void steps_spread(dt_plan *p)
{
    bool taken[3 * DT_MAX_VALUES] = {false};

    for (int v = 0; v < p->values; v++) {
        int *block = &p->value[v].grad_block;
        if (*block == DT_NO_BLOCK)
            continue;
        if (taken[*block]) { /* a gradient made in the place of another */
            p->block[p->blocks] = p->block[*block];
            *block = (int)p->blocks++;
        }
        taken[*block] = true;
    }
    p->arena_bytes = 0;
    for (size_t i = 0; i < p->blocks; i++) {
        p->block[i].offset = p->arena_bytes;
        p->arena_bytes += dt_align(p->block[i].bytes, 64);
    }
}

static inline void *steps_value(const golden *g, int value)
{
    const dt_plan *p = g->plan;
    return (char *)g->arena.mem + p->block[p->value[p->value[value].root].block].offset;
}

/* NULL: not needed. */
static inline void *steps_gradient(const golden *g, int value)
{
    const int block = g->plan->value[value].grad_block;
    return block == DT_NO_BLOCK ? NULL : (char *)g->arena.mem + g->plan->block[block].offset;
}

static inline void steps_compare(const dt_node *n, const char *what, const void *got, dt_dtype type,
                                 const double *want, size_t count)
{
    char title[96];
    snprintf(title, sizeof title, "%s '%s' %s", n->op->name, n->name, what);
    oracle_compare(title, got, type, want, count);
}

/* ---- One step ------------------------------------------------------------------------- */

/* The step's operands, as they are in memory; weights of matrix products as bf16 has them. */
static inline void steps_operands(const golden *g, int i, naive_call *c)
{
    const dt_node *n = &g->plan->node[i];
    const dt_step *s = &g->plan->step[i];

    oracle_alloc(c, s, g->n.net);
    c->labels = g->exec->labels;
    for (int k = 0; k < n->n_in; k++)
        oracle_read(c->in[k], steps_value(g, n->in[k]), test_count(&s->in_shape[k]), s->in_type[k]);
    for (int k = 0; k < n->n_param; k++) {
        const dt_param *p = &g->n.net->param[(size_t)n->param[k]];
        const float *master = (const float *)g->n.master.mem + p->offset;
        for (size_t e = 0; e < p->count; e++)
            c->param[k][e] = (double)(p->kind == DT_WEIGHT && g->spec->precision == DT_BF16
                                          ? dt_bf16_to_f32(dt_f32_to_bf16(master[e]))
                                          : master[e]);
    }
}

static inline void steps_forward(const golden *g, int i, naive_call *c)
{
    const dt_node *n = &g->plan->node[i];
    const dt_step *s = &g->plan->step[i];
    const size_t count = test_count(&s->out_shape);
    const void *out = steps_value(g, n->out);

    naive_find(n->op)->forward(c);
    steps_compare(n, "out", out, s->out_type, c->out, count);
    oracle_read(c->out, out, count, s->out_type); /* a fused ReLU decides by it */
}

static inline void steps_backward(steps *t, int i, naive_call *c)
{
    const golden *g = &t->g;
    const dt_node *n = &g->plan->node[i];
    const dt_step *s = &g->plan->step[i];
    const size_t count = test_count(&s->out_shape);

    for (size_t e = 0; n->op == &dt_op_softmax_xent && e < count; e++)
        c->d_out[e] = 1 / (double)g->batch;
    if (n->op != &dt_op_softmax_xent)
        oracle_read(c->d_out, steps_gradient(g, n->out), count, s->grad_type);
    if (n->second)
        oracle_add(c->d_out, steps_gradient(g, n->second), count, s->grad_type);
    naive_find(n->op)->backward(c);
    for (int k = 0; k < n->n_in; k++)
        if (steps_gradient(g, n->in[k]))
            steps_compare(n, k ? "d_in[1]" : "d_in[0]", steps_gradient(g, n->in[k]), s->grad_type,
                          c->d_in[k], test_count(&s->in_shape[k]));
    for (int k = 0; k < n->n_param; k++) {
        const dt_param *p = &g->n.net->param[(size_t)n->param[k]];
        for (size_t e = 0; e < p->count; e++)
            t->want[p->offset + e] = (float)c->d_param[k][e];
    }
}

/* ---- The network ---------------------------------------------------------------------- */

/* Relative distance of parameter i's gradient from the naive one. */
static inline double steps_off(const steps *t, const float *grad, size_t i)
{
    const dt_param *p = &t->g.n.net->param[i];
    double off = 0, norm = 0;

    for (size_t e = p->offset; e < p->offset + p->count; e++) {
        const double want = (double)t->want[e], d = (double)grad[e] - want;
        off += d * d;
        norm += want * want;
    }
    return sqrt(off / norm);
}

/* How many tensors of the slab are not what the naive passes say. */
static inline int steps_wrong(const steps *t, const float *grad)
{
    int wrong = 0;
    for (size_t i = 0; i < t->g.n.net->params; i++) {
        const double off = steps_off(t, grad, i);
        if (off <= STEPS_GRADIENT)
            continue;
        wrong++;
        print_error("gradient of %s is off by %.3g, limit %.3g\n", t->g.n.net->param[i].name, off,
                    STEPS_GRADIENT);
    }
    return wrong;
}

/* One pass of the golden case's network; every step is judged. */
static inline void steps_open(steps *t, const golden_case *spec)
{
    golden *g = &t->g;

    golden_open(g, spec, steps_spread);
    assert_ok(dt_calloc(&t->want, g->floats, sizeof *t->want, "naive gradients"));
    golden_forward_backward(g);
    for (int i = 0; i < g->plan->steps; i++) {
        naive_call c;
        steps_operands(g, i, &c);
        steps_forward(g, i, &c);
        steps_backward(t, i, &c);
        oracle_free(&c);
    }
}

static inline void steps_close(steps *t)
{
    golden_close(&t->g);
    free(t->want);
}

#endif

/* oracle.h - run an operation and its naive double-precision twin on the same numbers,
 * and compare. */
#ifndef DT_TEST_ORACLE_H
#define DT_TEST_ORACLE_H
#include "naive_op.h"
#include "step.h"

typedef struct oracle {
    test_step t;
    naive_call naive; /* arrays owned */
} oracle;

/* How far a result may be from the double-precision one:
 *   relative  of the element itself: half a unit in the last place of bf16 (8
 *             significant bits) where the result is stored so; nothing for float32
 *   absolute  of the largest element: float32 arithmetic, 2^-24 for each operation. The
 *             tests' sums have at most some 10^3 terms of one size, whose errors add up like a
 *             random walk to less than 1e-5 */
static inline double oracle_relative(dt_dtype type)
{
    return type == DT_BF16 ? 0x1p-8 : 0;
}
enum { ORACLE_PER_MILLION = 10 };

static inline double *oracle_doubles(size_t count)
{
    double *x = calloc(count ? count : 1, sizeof *x);
    if (!x)
        fail_msg("no memory for %zu doubles", count);
    return x;
}

static inline void oracle_read(double *to, const void *from, size_t count, dt_dtype type)
{
    for (size_t i = 0; i < count; i++)
        to[i] = test_get(from, i, type);
}

/* A second reader's gradient, to a sum that is rounded once. */
static inline void oracle_add(double *to, const void *from, size_t count, dt_dtype type)
{
    uint32_t sum;

    for (size_t i = 0; i < count; i++) {
        test_put(&sum, 0, to[i] + test_get(from, i, type), type);
        to[i] = test_get(&sum, 0, type);
    }
}

/* Copy the operation's operands, as they were rounded, to the naive twin; for it, two readers'
 * gradients are one, their rounded sum. */
static inline void oracle_copy(oracle *o)
{
    const dt_step *s = &o->t.step;

    for (int k = 0; k < DT_MAX_IN; k++)
        if (o->t.in[k])
            oracle_read(o->naive.in[k], o->t.in[k], test_count(&s->in_shape[k]), s->in_type[k]);
    oracle_read(o->naive.d_out, o->t.d_out, test_count(&s->out_shape), s->grad_type);
    if (o->t.d_out2)
        oracle_add(o->naive.d_out, o->t.d_out2, test_count(&s->out_shape), s->grad_type);
    if (s->op == &dt_op_softmax_xent)
        for (size_t i = 0; i < test_count(&s->out_shape); i++)
            o->naive.d_out[i] = 1.0 / o->t.call.divisor;
    for (size_t k = 0; k < o->t.net.params; k++)
        oracle_read(o->naive.param[k], o->t.call.param[k], o->t.net.param[k].count, DT_F32);
    oracle_read(o->naive.running_mean, o->t.running_mean, o->t.net.norm_channels, DT_F32);
    oracle_read(o->naive.running_var, o->t.running_var, o->t.net.norm_channels, DT_F32);
}

/* Uniform operands from [-1, 1), on the grid of bf16 for parameters (packed copies may
 * be bf16); running variance from [0.5, 1.5). */
static inline void oracle_fill(oracle *o)
{
    const dt_step *s = &o->t.step;
    const int64_t classes = s->in_shape[0].c;

    for (int k = 0; k < DT_MAX_IN; k++)
        for (size_t i = 0; o->t.in[k] && i < test_count(&s->in_shape[k]); i++)
            test_put(o->t.in[k], i, test_random((uint32_t)k, i), s->in_type[k]);
    for (size_t i = 0; i < test_count(&s->out_shape); i++) {
        test_put(o->t.d_out, i, test_random(2, i), s->grad_type);
        if (o->t.d_out2)
            test_put(o->t.d_out2, i, test_random(7, i), s->grad_type);
    }
    for (size_t k = 0; k < o->t.net.params; k++)
        for (size_t i = 0; i < o->t.net.param[k].count; i++) {
            dt_bf16 b;
            test_put(&b, 0, test_random(3 + (uint32_t)k, i), DT_BF16);
            o->t.model.weights.master[o->t.net.param[k].offset + i] = dt_bf16_to_f32(b);
        }
    for (size_t i = 0; i < o->t.net.norm_channels; i++) {
        o->t.running_mean[i] = (float)test_random(5, i);
        o->t.running_var[i] = (float)(1 + 0.5 * test_random(6, i));
    }
    for (int64_t i = 0; i < s->in_shape[0].n; i++)
        o->t.labels[i] = (int32_t)(i * 7 % classes);
    test_step_pack(&o->t);
    oracle_copy(o);
}

/* Arrays of a naive call for a step whose parameters and norms are the net's. */
static inline void oracle_alloc(naive_call *c, const dt_step *s, const dt_net *net)
{
    const size_t out = test_count(&s->out_shape), channels = net->norm_channels;

    *c = (naive_call){.s = s, .out = oracle_doubles(out), .d_out = oracle_doubles(out)};
    for (int k = 0; k < s->node->n_in; k++) {
        c->in[k] = oracle_doubles(test_count(&s->in_shape[k]));
        c->d_in[k] = oracle_doubles(test_count(&s->in_shape[k]));
    }
    for (int k = 0; k < s->node->n_param; k++) {
        c->param[k] = oracle_doubles(net->param[s->node->param[k]].count);
        c->d_param[k] = oracle_doubles(net->param[s->node->param[k]].count);
    }
    c->running_mean = oracle_doubles(channels);
    c->running_var = oracle_doubles(channels);
    c->moments = calloc(channels + 1, sizeof *c->moments);
}

static inline void oracle_create(oracle *o, const test_spec *spec)
{
    memset(o, 0, sizeof *o);
    test_step_create(&o->t, spec);
    oracle_alloc(&o->naive, &o->t.step, &o->t.net);
    o->naive.labels = o->t.labels;
    oracle_fill(o);
}

static inline void oracle_free(naive_call *c)
{
    for (int k = 0; k < DT_MAX_IN; k++) {
        free(c->in[k]);
        free(c->d_in[k]);
        free(c->param[k]);
        free(c->d_param[k]);
    }
    free(c->out);
    free(c->d_out);
    free(c->running_mean);
    free(c->running_var);
    free(c->moments);
}

static inline void oracle_destroy(oracle *o)
{
    oracle_free(&o->naive);
    test_step_destroy(&o->t);
}

/* NaN must meet NaN. */
static inline void oracle_compare(const char *what, const void *got, dt_dtype type,
                                  const double *want, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        if (fabs(want[i]) > largest)
            largest = fabs(want[i]);
    for (size_t i = 0; i < count; i++) {
        const double g = test_get(got, i, type), w = want[i];
        const double room = oracle_relative(type) * fabs(w) + ORACLE_PER_MILLION * 1e-6 * largest;
        if (isnan(g) != isnan(w) || (!isnan(w) && !(fabs(g - w) <= room)))
            fail_msg("%s[%zu of %zu], %s: %.9g, want %.9g within %.2g", what, i, count,
                     dt_dtype_name(type), g, w, room);
    }
}

/* Forward of both; the outputs agree. A fork's output is its input's memory. */
static inline void oracle_forward(oracle *o)
{
    const dt_step *s = &o->t.step;

    naive_find(s->op)->forward(&o->naive);
    test_step_run(&o->t, DT_FORWARD);
    if (s->op != &dt_op_fork)
        oracle_compare(s->op->name, o->t.out, s->out_type, o->naive.out, test_count(&s->out_shape));
}

/* Backward of both, after forward; all gradients agree. */
static inline void oracle_backward(oracle *o)
{
    const dt_step *s = &o->t.step;

    naive_find(s->op)->backward(&o->naive);
    memset(o->t.call.scratch, 0xff, s->scratch_bytes); /* others used it in between */
    if (s->op->weights)
        s->op->weights(&o->t.call);
    test_step_run(&o->t, DT_BACKWARD);
    for (int k = 0; k < o->t.node.n_in; k++)
        oracle_compare(k ? "d_in[1]" : "d_in[0]", o->t.d_in[k], s->grad_type, o->naive.d_in[k],
                       test_count(&s->in_shape[k]));
    for (size_t k = 0; k < o->t.net.params; k++)
        oracle_compare(k ? "d_param[1]" : "d_param[0]", o->t.call.d_param[k], DT_F32,
                       o->naive.d_param[k], o->t.net.param[k].count);
}

/* All of these in the type, forward and in training backward. */
static inline void oracle_check(const test_spec *specs, size_t count, dt_dtype type, dt_mode mode)
{
    for (size_t i = 0; i < count; i++) {
        oracle o;
        test_spec spec = specs[i];

        spec.type = type;
        spec.mode = mode;
        oracle_create(&o, &spec);
        if (mode == DT_EVAL)
            o.t.call.moments = NULL;
        oracle_forward(&o);
        if (mode == DT_TRAIN)
            oracle_backward(&o);
        oracle_destroy(&o);
    }
}
#endif

/* step.h - one operation on its own: a compiled step with buffers, built without a
 * plan.
 *
 * The operation declares its parameters into a small net and prepares kernels and
 * packed copies through a model, as a plan would make it do. Buffers have exactly the
 * bytes asked for, so that AddressSanitizer sees what reads or writes beyond. */
#ifndef DT_TEST_STEP_H
#define DT_TEST_STEP_H
#include "model/plan.h"
#include "numbers.h"

typedef struct test_spec {
    const dt_op *op;
    dt_attr attr;
    dt_shape in[DT_MAX_IN]; /* n = 0: absent */
    dt_dtype type;          /* of all values but logits and losses */
    bool logits;            /* in[0] is float32 whatever the type */
    bool logits_out;        /* out is float32 whatever the type */
    bool second;            /* d_out2, of a second reader, and d_in[1] in d_out's memory */
    dt_mode mode;
    int threads; /* 0: 1 */
    float label_smoothing, loss_epsilon, logit_scale;
} test_spec;

typedef struct test_step {
    dt_node node;
    dt_net net;
    struct dt_net_own own; /* net's */
    dt_model model;
    dt_step step;
    dt_call call;
    void *in[DT_MAX_IN], *out, *d_out, *d_out2, *d_in[DT_MAX_IN]; /* what call points to */
    float *grad, *running_mean, *running_var;
    dt_moment *moments;
    int32_t *labels;
    dt_result result;
} test_step;

static inline void *test_alloc(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 1) != 0)
        fail_msg("no memory for %zu bytes", bytes);
    memset(p, 0xff, bytes); /* NaN of both types: what is not written shows */
    return p;
}

/* Element i of random tensor `tensor`: uniform in [-1, 1). */
static inline double test_random(uint32_t tensor, size_t i)
{
    uint32_t bits[4];
    dt_random(7, DT_STREAM_TEST, tensor, i, 0, bits);
    return 2 * (double)dt_uniform(bits[0]) - 1;
}

static inline size_t test_count(const dt_shape *s)
{
    return (size_t)dt_shape_count(s);
}

static inline void test_step_params(test_step *t)
{
    size_t offset = 0;

    t->node.norm = -1;
    if (t->node.op->declare)
        t->node.op->declare(&t->net, &t->node, t->step.in_shape);
    for (size_t i = 0; i < t->net.params; i++) {
        t->net.param[i].offset = offset;
        offset += dt_align(t->net.param[i].count, 16);
    }
    t->net.slab_floats = offset;
    t->model.weights.master = test_alloc(offset * sizeof(float));
    t->grad = test_alloc(offset * sizeof(float));
    for (size_t i = 0; i < t->net.params; i++) {
        t->call.param[i] = t->model.weights.master + t->net.param[i].offset;
        t->call.d_param[i] = t->grad + t->net.param[i].offset;
    }
}

static inline void test_step_buffers(test_step *t, bool second)
{
    const dt_step *s = &t->step;
    const size_t channels = t->net.norm_channels, out = test_count(&s->out_shape);

    for (int k = 0; k < t->node.n_in; k++) {
        const size_t n = test_count(&s->in_shape[k]);
        t->call.in[k] = t->in[k] = test_alloc(n * dt_dtype_bytes(s->in_type[k]));
        t->call.d_in[k] = t->d_in[k] = test_alloc(n * dt_dtype_bytes(s->grad_type));
    }
    t->call.out = t->out = test_alloc(out * dt_dtype_bytes(s->out_type));
    t->call.d_out = t->d_out = test_alloc(out * dt_dtype_bytes(s->grad_type));
    if (second || s->op == &dt_op_fork)
        t->call.d_out2 = t->d_out2 = test_alloc(out * dt_dtype_bytes(s->grad_type));
    if (second) {
        free(t->d_in[1]);
        t->call.d_in[1] = t->d_in[1] = t->d_out;
    }
    t->call.running_mean = t->running_mean = test_alloc(channels * sizeof(float));
    t->call.running_var = t->running_var = test_alloc(channels * sizeof(float));
    t->call.moments = t->moments = test_alloc(channels * sizeof(dt_moment));
    t->call.saved = test_alloc(s->saved_bytes);
    t->call.scratch = test_alloc(s->scratch_bytes);
    for (int way = 0; way < DT_WAYS; way++)
        t->call.sums[way] = test_alloc(s->sums_bytes[way]);
    t->call.labels = t->labels = test_alloc((size_t)s->in_shape[0].n * sizeof(int32_t));
    t->call.result = &t->result;
    t->call.divisor = (double)s->in_shape[0].n;
    t->model.packed = test_alloc(dt_model_packed_bytes(&t->model));
    for (int k = 0; k < 2; k++)
        if (s->pack[k] >= 0)
            t->call.packed[k] = t->model.packed + t->model.pack[s->pack[k]].offset;
}

/* Everything but the values of in, d_out, labels, running statistics and parameters. */
static inline void test_step_create(test_step *t, const test_spec *spec)
{
    dt_step *s = &t->step;

    *t = (test_step){.node = {.op = spec->op, .attr = spec->attr, .name = "it"},
                     .net = {.param = t->own.param, .norm = t->own.norm, .own = &t->own},
                     .model = {.net = &t->net},
                     .call = {.step = s}};
    t->model.opts = (dt_model_opts){.precision = spec->type, .threads = 1};
    *s = (dt_step){.op = spec->op,
                   .node = &t->node,
                   .attr = spec->attr,
                   .mode = spec->mode,
                   .threads = spec->threads ? spec->threads : 1,
                   .grad_type = spec->type,
                   .saves = spec->op->saves,
                   .pack = {-1, -1},
                   .fed_by = {-1, -1},
                   .feeds = {-1, -1, -1},
                   .label_smoothing = spec->label_smoothing,
                   .loss_epsilon = spec->loss_epsilon,
                   .logit_scale = spec->logit_scale,
                   .out_type = spec->logits_out ? DT_F32 : spec->type};
    for (int k = 0; k < DT_MAX_IN && spec->in[k].n; k++) {
        t->node.n_in++;
        s->in_shape[k] = spec->in[k];
        s->in_type[k] = k == 0 && spec->logits ? DT_F32 : spec->type;
        s->wants_d_in[k] = spec->mode == DT_TRAIN;
    }
    assert_ok(spec->op->infer(&t->node, s->in_shape, &s->out_shape));
    test_step_params(t);
    if (spec->op->prepare)
        assert_ok(spec->op->prepare(s, &t->model));
    test_step_buffers(t, spec->second);
}

/* Call it after the last write to the parameters. */
static inline void test_step_pack(test_step *t)
{
    dt_model_pack(&t->model, 0, 1);
}

/* A whole pass, of this one shard; without the weights' half of backward. */
static inline void test_step_run(test_step *t, dt_way way)
{
    const dt_op *op = t->step.op;

    if (op->local[way] && t->step.mode == DT_TRAIN)
        op->local[way](&t->call);
    void (*const pass)(const dt_call *c) = way == DT_FORWARD ? op->forward : op->backward;
    if (pass)
        pass(&t->call);
}

static inline void test_step_destroy(test_step *t)
{
    for (int pass = 0; pass < DT_PASS_COUNT; pass++)
        dt_kernel_close(t->step.tiles[pass]);
    for (int k = 0; k < DT_MAX_IN; k++) {
        free(t->in[k]);
        if (t->d_in[k] != t->d_out)
            free(t->d_in[k]);
    }
    free(t->out);
    free(t->d_out);
    free(t->d_out2);
    free(t->running_mean);
    free(t->running_var);
    free(t->moments);
    free(t->call.saved);
    free(t->call.scratch);
    for (int way = 0; way < DT_WAYS; way++)
        free(t->call.sums[way]);
    free(t->labels);
    free(t->grad);
    free(t->model.weights.master);
    free(t->model.packed);
}
#endif

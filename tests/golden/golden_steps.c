/* golden_steps.c - the real networks in bf16, at their own initialisation: every result and
 * every gradient of every step against naive double precision, and the memory that values share
 * changes no bit of it. And no wrong gradient passes: each tensor in turn is zeroed, negated,
 * halved, or swapped with another, and each is seen. */
#include "golden_steps.h"

static golden_case cases[] = {
    {"vgg11-real", DT_BF16},
    {"resnet50-cifar-real", DT_BF16},
    {"resnet50-mindspore-real", DT_BF16},
};

/* The next tensor, in a circle, of the same size; p itself if it is the only one. */
static const dt_param *twin(const dt_net *net, size_t i)
{
    const size_t count = net->params, size = net->param[i].count;
    size_t k = (i + 1) % count;

    while (net->param[k].count != size)
        k = (k + 1) % count;
    return &net->param[k];
}

static void scale(float *grad, const dt_param *p, float factor)
{
    for (size_t e = p->offset; e < p->offset + p->count; e++)
        grad[e] *= factor;
}

static void swap(float *grad, const dt_param *p, const dt_param *q)
{
    for (size_t e = 0; e < p->count; e++) {
        const float x = grad[p->offset + e];
        grad[p->offset + e] = grad[q->offset + e];
        grad[q->offset + e] = x;
    }
}

/* Two tensors of the network with the gradient of the other. Of one without a twin, the
 * elements in the opposite order. */
static void exchange(float *grad, const dt_param *p, const dt_param *q)
{
    if (p != q) {
        swap(grad, p, q);
        return;
    }
    for (size_t e = 0; e < p->count / 2; e++) {
        float *a = grad + p->offset + e, *b = grad + p->offset + p->count - 1 - e;
        const float x = *a;
        *a = *b;
        *b = x;
    }
}

static void faults_are_seen(const steps *t)
{
    static const float factor[] = {0, -1, 0.5f};
    const float *good = t->g.grad.mem;
    float *bad = NULL;

    assert_ok(dt_calloc(&bad, t->g.floats, sizeof *bad, "spoiled gradients"));
    memcpy(bad, good, t->g.floats * sizeof *bad);
    for (size_t i = 0; i < t->g.n.net->params; i++) {
        const dt_param *p = &t->g.n.net->param[i], *q = twin(t->g.n.net, i);
        for (size_t k = 0; k < DT_COUNT_OF(factor); k++) {
            scale(bad, p, factor[k]);
            if (steps_off(t, bad, i) <= STEPS_GRADIENT)
                fail_msg("the gradient of %s times %g is taken", p->name, (double)factor[k]);
            memcpy(bad + p->offset, good + p->offset, p->count * sizeof *bad);
        }
        exchange(bad, p, q);
        if (steps_off(t, bad, i) <= STEPS_GRADIENT)
            fail_msg("%s with the gradient of %s is taken", p->name, q->name);
        exchange(bad, p, q);
    }
    assert_int_equal(steps_wrong(t, bad), 0);
    free(bad);
}

static void every_step_is_right(void **state)
{
    steps t;

    steps_open(&t, *state);
    assert_int_equal(steps_wrong(&t, t.g.grad.mem), 0);
    faults_are_seen(&t);

    golden shared;
    golden_open(&shared, *state, NULL);
    assert_true(dt_plan_ask(shared.plan).arena_bytes < dt_plan_ask(t.g.plan).arena_bytes);
    golden_forward_backward(&shared);
    for (size_t i = 0; i < t.g.n.net->params; i++) {
        const dt_param *p = &t.g.n.net->param[i];
        assert_memory_equal((const float *)shared.grad.mem + p->offset,
                            (const float *)t.g.grad.mem + p->offset, p->count * sizeof(float));
    }
    golden_close(&shared);
    steps_close(&t);
}

int main(void)
{
    return golden_tests(cases, sizeof cases / sizeof *cases, every_step_is_right);
}

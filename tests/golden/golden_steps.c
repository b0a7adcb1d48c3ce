/* golden_steps.c - the real networks in bf16, at their own initialisation: every result and
 * every gradient of every step against naive double precision, and the memory that values share
 * changes no bit of it. tests/self/golden_faults.c shows that no wrong gradient passes. */
#include "golden_steps.h"

static golden_case cases[] = {
    {"vgg11-real", DT_BF16, "auto"},
    {"resnet50-cifar-real", DT_BF16, "auto"},
    {"resnet50-mindspore-real", DT_BF16, "auto"},
};

static void every_step_is_right(void **state)
{
    steps t;

    golden_needs(*state);
    steps_open(&t, *state);
    assert_int_equal(steps_wrong(&t, t.g.grad.mem, true), 0);

    golden shared = {.spec = *state};
    golden_load(&shared);
    golden_build(&shared);
    golden_bind(&shared);
    assert_true(dt_plan_arena_bytes(shared.plan) < dt_plan_arena_bytes(t.g.plan));
    golden_weights(&shared);
    golden_batch(&shared, shared.exec);
    golden_forward_backward(&shared);
    for (size_t i = 0; i < dt_net_param_count(t.g.net); i++) {
        const dt_param *p = dt_net_param(t.g.net, i);
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

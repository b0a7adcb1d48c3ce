/* op_add.c - the sum of two values of one shape. Both gradients are copies of the output's. */
#include "loops.h"

static dt_status add_infer(const dt_node *n, const dt_shape *in, dt_shape *out)
{
    if (memcmp(&in[0], &in[1], sizeof in[0]) != 0)
        return dt_fail(DT_SHAPE, "add '%s': [%lld, %lld, %lld, %lld] and [%lld, %lld, %lld, %lld]",
                       n->name, (long long)in[0].n, (long long)in[0].h, (long long)in[0].w,
                       (long long)in[0].c, (long long)in[1].n, (long long)in[1].h,
                       (long long)in[1].w, (long long)in[1].c);
    *out = in[0];
    return DT_OK;
}

static dt_status add_forward(const dt_call *c)
{
    dt_loop_elements(c, dt_loops_current()->add_forward);
    return DT_OK;
}

static dt_status add_backward(const dt_call *c)
{
    dt_loop_elements(c, dt_loops_current()->add_backward);
    return DT_OK;
}

const dt_op dt_op_add = {
    .name = "add",
    .n_in_min = 2,
    .n_in_max = 2,
    .infer = add_infer,
    .prepare = dt_loops_prepare,
    .forward = add_forward,
    .backward = add_backward,
};

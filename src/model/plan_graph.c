/* plan_graph.c - the passes of a plan that rewrite its nodes: fusion, and forks where a value fans
 * out. */
#include "plan.h"

#include <stdio.h>

static int uses_of(const dt_plan *p, int value)
{
    int uses = 0;
    for (int i = 0; i < p->steps; i++)
        for (int k = 0; k < p->node[i].n_in; k++)
            uses += p->node[i].in[k] == value;
    return uses;
}

static int producer_of(const dt_plan *p, int value)
{
    for (int i = 0; i < p->steps; i++)
        if (p->node[i].out == value)
            return i;
    return -1;
}

/* The batch norm that makes `value` for its one reader, not fused with anything yet. */
static int lone_norm(const dt_plan *p, int value)
{
    const int i = producer_of(p, value);
    const bool plain = i >= 0 && p->node[i].op == &dt_op_batchnorm && !p->node[i].attr.relu &&
                       !p->node[i].attr.add;
    return plain && uses_of(p, value) == 1 ? i : -1;
}

static void remove_node(dt_plan *p, int i)
{
    memmove(&p->node[i], &p->node[i + 1], (size_t)(--p->steps - i) * sizeof p->node[0]);
}

/* batchnorm -> relu, and batchnorm -> add -> relu, become one batch norm in the place of
 * the ReLU, where the other summand is there. */
void dt_plan_fuse(dt_plan *p)
{
    for (int i = 0; i < p->steps; i++) {
        if (p->node[i].op != &dt_op_relu)
            continue;
        int norm = lone_norm(p, p->node[i].in[0]), add = -1;
        if (norm < 0) {
            add = producer_of(p, p->node[i].in[0]);
            if (add < 0 || p->node[add].op != &dt_op_add || uses_of(p, p->node[add].out) != 1)
                continue;
            norm = lone_norm(p, p->node[add].in[0]);
            if (norm < 0)
                continue;
        }
        dt_node fused = p->node[norm];
        fused.attr.relu = true;
        if (add >= 0) {
            fused.attr.add = true;
            fused.in[1] = p->node[add].in[1];
            fused.n_in = 2;
        }
        fused.out = p->node[i].out;
        p->node[i] = fused;
        if (add >= 0)
            remove_node(p, add);
        remove_node(p, norm);
        i -= add >= 0 ? 2 : 1;
    }
}

static dt_status insert_fork(dt_plan *p, int at, int value)
{
    if (p->steps == DT_MAX_NODES || p->values + 2 > DT_MAX_VALUES)
        return dt_fail(DT_BUG, "more than %d steps in a plan", DT_MAX_NODES);
    memmove(&p->node[at + 1], &p->node[at], (size_t)(p->steps - at) * sizeof p->node[0]);
    memmove(&p->second_out[at + 1], &p->second_out[at],
            (size_t)(p->steps - at) * sizeof p->second_out[0]);
    p->steps++;
    p->node[at] =
        (dt_node){.op = &dt_op_fork, .in = {value, -1}, .n_in = 1, .norm = -1, .out = p->values++};
    p->second_out[at] = p->values++;
    return DT_OK;
}

/* A batch norm that adds makes a pass over its output's gradient in any case. */
static bool adds_gradients(const dt_plan *p, int i)
{
    return i >= 0 && p->node[i].op == &dt_op_batchnorm && p->node[i].attr.add &&
           p->second_out[i] < 0;
}

/* Two readers' values instead of `value`, behind step `at`. */
static void tell_apart(dt_plan *p, int at, int value, int first, int second)
{
    int taken = 0;

    for (int i = at + 1; i < p->steps; i++)
        for (int k = 0; k < p->node[i].n_in; k++)
            if (p->node[i].in[k] == value)
                p->node[i].in[k] = taken++ == 0 ? first : second;
}

/* A value with two readers gets a fork right after its producer, if that does not add gradients
 * itself; with more, a chain of them. Afterwards every value has one reader, so backward writes and
 * never adds. */
dt_status dt_plan_fork(dt_plan *p)
{
    for (int i = 0; i < DT_MAX_NODES; i++)
        p->second_out[i] = -1;
    for (int v = 0; v < p->values; v++) {
        if (uses_of(p, v) < 2)
            continue;
        const int maker = producer_of(p, v);
        if (adds_gradients(p, maker) && p->values < DT_MAX_VALUES) {
            p->second_out[maker] = p->values++;
            tell_apart(p, maker, v, v, p->second_out[maker]);
            continue;
        }
        int at = maker + 1;
        for (int i = 0; i < p->steps; i++)
            if (p->second_out[i] == v)
                at = i + 1;
        DT_TRY(insert_fork(p, at, v));
        tell_apart(p, at, v, p->node[at].out, p->second_out[at]);
    }
    return DT_OK;
}

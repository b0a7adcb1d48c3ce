/* contexts.c - plans bound to memory, one place for each shard of a wave. */
#include "run.h"

dt_status dt_contexts_add(dt_run *r, dt_contexts *c, int64_t images, dt_mode mode)
{
    int i = 0;

    while (c->plan[i])
        if (dt_plan_ask(c->plan[i++]).batch == images)
            return DT_OK;
    DT_TRY(dt_plan_create(&c->plan[i], r->model, images, mode, false));
    return dt_grid_cuts(r) ? dt_plan_create(&c->remote[i], r->model, images, mode, true) : DT_OK;
}

static size_t arena_bytes(const dt_contexts *c, int k)
{
    dt_plan *const *plan = dt_contexts_home(c, k) ? c->plan : c->remote;
    size_t largest = 0;

    for (int i = 0; i < DT_MAX_PLANS && plan[i]; i++)
        largest = DT_MAX(largest, dt_plan_ask(plan[i]).arena_bytes);
    return dt_align(largest, 64);
}

/* The test has no moments. */
static size_t place_bytes(const dt_run *r, const dt_contexts *c, int k)
{
    const size_t moments = c == &r->contexts ? r->net->norm_channels * sizeof(dt_moment) : 0;

    return arena_bytes(c, k) + dt_align(moments, 64);
}

size_t dt_contexts_bytes(const dt_run *r, const dt_contexts *c)
{
    size_t bytes = 0;

    for (int k = 0; k < c->wave.count; k++)
        bytes += place_bytes(r, c, k);
    return bytes;
}

size_t dt_contexts_scratch(const dt_contexts *c)
{
    size_t most = 0;

    for (int i = 0; i < DT_MAX_PLANS && c->plan[i]; i++)
        most = DT_MAX(most, dt_plan_ask(c->plan[i]).scratch_bytes);
    return most;
}

static dt_status open_place(dt_run *r, dt_contexts *c, int k, char *at)
{
    dt_plan *const *plan = dt_contexts_home(c, k) ? c->plan : c->remote;

    c->moments[k] = (dt_moment *)(at + arena_bytes(c, k));
    for (int i = 0; i < DT_MAX_PLANS && plan[i]; i++) {
        dt_exec **e = &c->exec[k * DT_MAX_PLANS + i];
        DT_TRY(dt_exec_create(e, plan[i], at, r->scratch.mem));
    }
    return DT_OK;
}

dt_status dt_contexts_open(dt_run *r, dt_contexts *c)
{
    const size_t width = (size_t)c->wave.count;
    static const char what[] = "the shards of a wave";
    char *at = r->arena.mem;

    DT_TRY(dt_calloc(&c->exec, width * DT_MAX_PLANS, sizeof(dt_exec *), what));
    DT_TRY(dt_calloc(&c->moments, width, sizeof(dt_moment *), what));
    DT_TRY(dt_calloc(&c->now, width, sizeof(dt_exec *), what));
    DT_TRY(dt_calloc(&c->which, width, sizeof *c->which, what));
    for (int d = 0; d < DT_DOMAINS; d++)
        DT_TRY(dt_calloc(&c->grad[d], width, sizeof(float *), what));
    DT_TRY(dt_calloc(&c->result, width, sizeof *c->result, what));
    c->wave.plan = c->plan[0];
    c->wave.exec = c->now;
    c->wave.cut_grad = c->grad[DT_SLAB_CUT];
    for (int k = 0; k < c->wave.count; k++) {
        DT_TRY(open_place(r, c, k, at));
        at += place_bytes(r, c, k);
    }
    return DT_OK;
}

void dt_contexts_close(dt_contexts *c)
{
    for (int i = 0; c->exec && i < c->wave.count * DT_MAX_PLANS; i++)
        dt_exec_destroy(c->exec[i]);
    DT_FREE(c->exec, c->moments, c->now, c->which, c->grad[DT_SLAB_HOME], c->grad[DT_SLAB_CUT],
            c->result);
    for (int i = 0; i < DT_MAX_PLANS; i++) {
        dt_plan_destroy(c->plan[i]);
        dt_plan_destroy(c->remote[i]);
    }
    *c = (dt_contexts){0};
}

dt_status dt_contexts_find(dt_contexts *c, int k, int64_t images)
{
    c->now[k] = NULL;
    if (images == 0)
        return DT_OK;
    for (int i = 0; i < DT_MAX_PLANS && c->plan[i]; i++)
        if (dt_plan_ask(c->plan[i]).batch == images) {
            c->now[k] = c->exec[k * DT_MAX_PLANS + i];
            c->which[k] = i;
        }
    return c->now[k] ? DT_OK
                     : dt_fail(DT_BUG, "no plan for a shard of %lld images", (long long)images);
}

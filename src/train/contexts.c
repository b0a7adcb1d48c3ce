/* contexts.c - training's plans bound to memory, one place for each shard of a wave. */
#include "run.h"

#include <stdlib.h>

static size_t arena_bytes(const dt_run *r)
{
    size_t largest = 0;

    for (int i = 0; i < DT_MAX_PLANS && r->contexts.plan[i]; i++)
        largest = DT_MAX(largest, dt_plan_arena_bytes(r->contexts.plan[i]));
    return dt_align(largest, 64);
}

static size_t place_bytes(const dt_run *r)
{
    return arena_bytes(r) + dt_align(r->net->norm_channels * sizeof(dt_moment), 64);
}

size_t dt_contexts_bytes(const dt_run *r)
{
    return r->contexts.plan[0] ? (size_t)r->contexts.width * place_bytes(r) : 0;
}

static dt_status open_place(dt_run *r, int k)
{
    dt_contexts *c = &r->contexts;
    char *at = (char *)r->arena.mem + (size_t)k * place_bytes(r);

    c->moments[k] = (dt_moment *)(at + arena_bytes(r));
    for (int i = 0; i < DT_MAX_PLANS && c->plan[i]; i++) {
        dt_exec **e = &c->exec[k * DT_MAX_PLANS + i];
        DT_TRY(dt_exec_create(e, c->plan[i], at, r->scratch.mem));
    }
    return DT_OK;
}

dt_status dt_contexts_open(dt_run *r)
{
    dt_contexts *c = &r->contexts;
    const size_t width = (size_t)c->width;
    static const char what[] = "the shards of a wave";

    DT_TRY(dt_calloc(&c->exec, width * DT_MAX_PLANS, sizeof(dt_exec *), what));
    DT_TRY(dt_calloc(&c->moments, width, sizeof(dt_moment *), what));
    DT_TRY(dt_calloc(&c->now, width, sizeof(dt_exec *), what));
    DT_TRY(dt_calloc(&c->grad, width, sizeof(float *), what));
    DT_TRY(dt_calloc(&c->result, width, sizeof *c->result, what));
    for (int k = 0; k < c->width; k++)
        DT_TRY(open_place(r, k));
    return DT_OK;
}

void dt_contexts_close(dt_contexts *c)
{
    for (int i = 0; c->exec && i < c->width * DT_MAX_PLANS; i++)
        dt_exec_destroy(c->exec[i]);
    free(c->exec);
    free(c->moments);
    free(c->now);
    free(c->grad);
    free(c->result);
    for (int i = 0; i < DT_MAX_PLANS; i++)
        dt_plan_destroy(c->plan[i]);
    *c = (dt_contexts){0};
}

dt_status dt_contexts_find(const dt_contexts *c, int k, int64_t images, dt_exec **e)
{
    *e = NULL;
    if (images == 0)
        return DT_OK;
    for (int i = 0; i < DT_MAX_PLANS && c->plan[i]; i++)
        if (dt_plan_batch(c->plan[i]) == images)
            *e = c->exec[k * DT_MAX_PLANS + i];
    return *e ? DT_OK : dt_fail(DT_BUG, "no plan for a shard of %lld images", (long long)images);
}

/* flip.c - --flip WHAT:RANK:STEP:TENSOR[:BIT]: one bit goes wrong once, to see the checks
 * find it. BIT counts from the lowest of the first four bytes. */
#include "check_internal.h"

#include <stdio.h>

/* ---- The option ---------------------------------------------------------------------------- */

static bool flip_exists(const dt_checks *c, dt_flip_what what, size_t tensor)
{
    size_t bytes;
    return what != DT_FLIP_packed || dt_model_packed_copy(c->s.model, tensor, &bytes) != NULL;
}

static dt_status find_tensor(const dt_checks *c, const char *name, dt_flip *f)
{
    for (size_t i = 0; i < dt_net_param_count(c->s.net); i++)
        if (strcmp(dt_net_param(c->s.net, i)->name, name) == 0 && flip_exists(c, f->what, i)) {
            f->tensor = i;
            return DT_OK;
        }
    return dt_fail(DT_CONFIG,
                   "--flip: no %s of tensor '%s'; a tensor has its name in model.safetensors, and "
                   "weights of convolutions and linear layers alone have packed copies",
                   dt_flip_name[f->what], name);
}

dt_status dt_flip_open(dt_checks *c, dt_flip *f)
{
    dt_option_form form;

    DT_TRY(dt_flip_parse(c->s.o->flip, &form));
    if (form.flip.step == 0)
        return DT_OK;
    if (form.flip.rank >= dt_comm_world(c->s.comm))
        return dt_fail(DT_CONFIG, "--flip '%s': RANK is %lld, and there are %d ranks", c->s.o->flip,
                       (long long)form.flip.rank, dt_comm_world(c->s.comm));
    *f = (dt_flip){.here = form.flip.rank == dt_comm_rank(c->s.comm),
                   .what = form.flip.what,
                   .step = form.flip.step,
                   .bit = (unsigned)form.flip.bit};
    DT_TRY(find_tensor(c, form.flip.tensor, f));
    dt_warn("--flip: bit %lld of the %s of '%s' on rank %lld will go wrong in step %lld: THE "
            "RESULT OF THIS RUN IS WORTHLESS; this option is for testing the checks",
            (long long)form.flip.bit, dt_flip_name[form.flip.what], form.flip.tensor,
            (long long)form.flip.rank, (long long)form.flip.step);
    return DT_OK;
}

/* ---- The flip -------------------------------------------------------------------------------- */

static bool flip_now(const dt_checks *c)
{
    return c->flip.here && c->flip.step == c->step;
}

/* A rank may still be hashing what the update before wrote and the node shares: it would
 * take the flip for the update's work. */
dt_status dt_flip_begin(dt_checks *c)
{
    dt_flip *f = &c->flip;
    size_t bytes;

    f->grad = NULL;
    if (f->step == c->step)
        DT_TRY(dt_comm_barrier(c->s.comm));
    if (!flip_now(c))
        return DT_OK;
    const size_t offset = dt_net_param(c->s.net, f->tensor)->offset;
    if (f->what == DT_FLIP_weight)
        dt_flip_bit(c->s.weights.master + offset, f->bit);
    else if (f->what == DT_FLIP_momentum)
        dt_flip_bit(c->s.momentum + offset, f->bit);
    else if (f->what == DT_FLIP_packed)
        dt_flip_bit(dt_model_packed_copy(c->s.model, f->tensor, &bytes), f->bit);
    return DT_OK;
}

/* A gradient or an activation is that of the rank's first shard. */
void dt_flip_shard(dt_checks *c, int shard, dt_exec *e, float *grad)
{
    dt_flip *f = &c->flip;

    if (!flip_now(c) || shard != c->s.first_shard)
        return;
    if (f->what == DT_FLIP_gradient)
        f->grad = grad;
    else if (f->what == DT_FLIP_activation)
        dt_exec_flip(e, f->tensor, f->bit);
}

void dt_flip_gradient(dt_checks *c, size_t floats_done)
{
    dt_flip *f = &c->flip;
    const dt_param *p = dt_net_param(c->s.net, f->tensor);

    if (!f->grad || p->offset + p->count > floats_done)
        return;
    dt_flip_bit(f->grad + p->offset, f->bit);
    f->grad = NULL;
}

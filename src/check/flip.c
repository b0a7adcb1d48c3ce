/* flip.c - --flip WHAT:RANK:STEP:TENSOR[:BIT]: one bit goes wrong once, to see the checks
 * find it. BIT counts from the lowest of the first four bytes. */
#include "check_internal.h"

#include <stdio.h>

/* The top bit of a float32's fraction (in bf16 that of the second number): changes a number
 * by a quarter to a half of it, so that nothing overflows and training goes on unnoticed. */
enum { DEFAULT_BIT = 22, BITS = 32 };

static const char *const flip_name[DT_FLIP_COUNT] = {
#define X(name) #name,
    DT_FLIP_LIST(X)
#undef X
};

/* ---- The option's text --------------------------------------------------------------------- */

static dt_status flip_syntax(const dt_checks *c)
{
    return dt_fail(DT_CONFIG,
                   "--flip '%s': want WHAT:RANK:STEP:TENSOR[:BIT], where WHAT is one "
                   "of%s, RANK is below %d, STEP counts from 1 and BIT is below %d, such as "
                   "weight:0:50:%s",
                   c->s.o->flip, DT_FLIP_LIST(DT_WORD), dt_comm_world(c->s.comm), (int)BITS,
                   dt_net_param(c->s.net, 0)->name);
}

/* The field up to the next ':' or the end; false: there is none, or it is too long. */
static bool next_field(const char **at, char *out, size_t size)
{
    const size_t n = strcspn(*at, ":");

    if (n == 0 || n >= size)
        return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n + ((*at)[n] == ':');
    return true;
}

static bool next_number(const char **at, int64_t low, int64_t high, int64_t *out)
{
    char text[32];
    const char *end;

    return next_field(at, text, sizeof text) && dt_whole_parse(text, &end, out) && *end == '\0' &&
           *out >= low && *out <= high;
}

static bool flip_exists(const dt_checks *c, dt_flip_what what, size_t tensor)
{
    size_t bytes;
    return what != DT_FLIP_packed || dt_model_packed_copy(c->s.model, tensor, &bytes) != NULL;
}

/* All names at once: they are those of the state_dict. */
static dt_status flip_unknown(const dt_checks *c, dt_flip_what what, const char *name)
{
    char list[7000] = "";
    size_t used = 0;

    for (size_t i = 0; i < dt_net_param_count(c->s.net) && used + 65 < sizeof list; i++)
        if (flip_exists(c, what, i))
            used += (size_t)snprintf(list + used, sizeof list - used, " %s",
                                     dt_net_param(c->s.net, i)->name);
    return dt_fail(DT_CONFIG, "--flip: no %s of tensor '%s'; there are:%s", flip_name[what], name,
                   list);
}

static dt_status find_tensor(const dt_checks *c, const char *name, dt_flip *f)
{
    for (size_t i = 0; i < dt_net_param_count(c->s.net); i++)
        if (strcmp(dt_net_param(c->s.net, i)->name, name) == 0 && flip_exists(c, f->what, i)) {
            f->tensor = i;
            return DT_OK;
        }
    return flip_unknown(c, f->what, name);
}

dt_status dt_flip_open(dt_checks *c, dt_flip *f)
{
    const char *at = c->s.o->flip;
    char what[32], tensor[64];
    int64_t rank = 0, step = 0, bit = DEFAULT_BIT;
    int kind = 0;

    if (!at[0])
        return DT_OK;
    if (!next_field(&at, what, sizeof what))
        return flip_syntax(c);
    while (kind < DT_FLIP_COUNT && strcmp(what, flip_name[kind]) != 0)
        kind++;
    if (kind == DT_FLIP_COUNT || !next_number(&at, 0, dt_comm_world(c->s.comm) - 1, &rank) ||
        !next_number(&at, 1, INT64_MAX, &step) || !next_field(&at, tensor, sizeof tensor) ||
        (*at && !next_number(&at, 0, BITS - 1, &bit)) || *at)
        return flip_syntax(c);
    *f = (dt_flip){.here = rank == dt_comm_rank(c->s.comm),
                   .what = (dt_flip_what)kind,
                   .step = step,
                   .bit = (unsigned)bit};
    DT_TRY(find_tensor(c, tensor, f));
    dt_warn("--flip: bit %lld of the %s of '%s' on rank %lld will go wrong in step %lld: THE "
            "RESULT OF THIS RUN IS WORTHLESS; this option is for testing the checks",
            (long long)bit, flip_name[kind], tensor, (long long)rank, (long long)step);
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

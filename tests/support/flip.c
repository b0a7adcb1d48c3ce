/* flip.c - linked with --wrap of dt_observer_add: one bit of a run goes wrong once, to see the
 * checks find it. The variable FLIP="WHAT RANK STEP TENSOR BIT" says which: the first number of
 * the tensor's master weight, of its packed copy, of its momentum, of the gradient of the rank's
 * first shard; or the first number of that shard's images. BIT counts from the lowest of the first
 * four bytes, STEP from 1. */

#include "flip_bit.h"
#include "train/run.h"

static struct {
    dt_run *run;
    char what[16], tensor[64];
    int rank;
    long long step; /* 0: never */
    unsigned bit;
    bool now;          /* on this rank, in this step */
    size_t param;      /* that has the name */
    const float *grad; /* of the shard, until the bit is flipped */
} flip;
static dt_run_observer checks, flipped; /* the same, with a flip around them */
static void *inner;                     /* the state of the checks; NULL: none are on */

static dt_status open_flip(void **state, dt_run *r)
{
    const char *text = getenv("FLIP");

    memset(&flip, 0, sizeof flip);
    flip.run = r;
    if (text && sscanf(text, "%15s %d %lld %63s %u", flip.what, &flip.rank, &flip.step, flip.tensor,
                       &flip.bit) != 5)
        abort();
    while (text && strcmp(r->net->param[flip.param].name, flip.tensor) != 0)
        if (++flip.param == r->net->params)
            abort();
    inner = NULL;
    const dt_status st = checks.open(&inner, r);
    *state = inner ? inner : text ? &flip : NULL; /* a bit goes wrong without checks, too */
    return st;
}

static bool flips(const char *what)
{
    return flip.now && strcmp(flip.what, what) == 0;
}

/* Others of the node may still be hashing what the update before wrote: they are waited for. */
static void begin(void *state, int64_t epoch, int64_t step)
{
    (void)state;
    dt_run *r = flip.run;
    const dt_piece x = dt_model_piece(r->model, flip.param);
    const dt_domain *own = &r->domain[x.cut ? DT_SLAB_CUT : DT_SLAB_HOME];
    const bool now = flip.step == epoch * r->steps_per_epoch + step + 1;
    size_t bytes;

    flip.now = now && flip.rank == r->comm->rank;
    flip.grad = NULL;
    if (inner)
        checks.begin(inner, epoch, step);
    if (now && dt_comm_barrier(r->comm) != DT_OK)
        abort();
    if (flips("weight") || flips("momentum"))
        flip_bit((float *)(flips("weight") ? own->master : own->momentum).mem + x.offset, flip.bit);
    else if (flips("packed"))
        flip_bit(packed_copy(r->model, flip.param, &bytes), flip.bit);
}

/* Once: the replay has the shard's images again. */
void __real_dt_loader_train(const dt_loader *l, int64_t epoch, int64_t step, int shard,
                            void *images, int32_t *labels);
void __wrap_dt_loader_train(const dt_loader *l, int64_t epoch, int64_t step, int shard,
                            void *images, int32_t *labels)
{
    __real_dt_loader_train(l, epoch, step, shard, images, labels);
    if (flips("images") && shard == flip.run->first_shard) {
        flip_bit(images, flip.bit);
        flip.now = false;
    }
}

static void take(void *state, int shard, const float *grad)
{
    (void)state;
    if (flips("gradient") && shard == flip.run->first_shard)
        flip.grad = grad;
    if (inner)
        checks.shard(inner, shard, grad);
}

/* Before the replay hashes it: it stands for a gradient that was computed wrongly. */
static void gradient(void *state, size_t floats_done)
{
    (void)state;
    const dt_param *p = &flip.run->net->param[flip.param];

    if (flip.grad && p->offset + p->count <= floats_done) {
        flip_bit((void *)(uintptr_t)(flip.grad + p->offset), flip.bit);
        flip.grad = NULL;
    }
    if (inner)
        checks.gradient(inner, floats_done);
}

static void loss(void *state, int shard, const dt_result *result)
{
    (void)state;
    if (inner)
        checks.loss(inner, shard, result);
}

static dt_status check(void *state, dt_check_when when)
{
    (void)state;
    return inner ? checks.check(inner, when) : DT_OK;
}

static void updated(void *state, int64_t step)
{
    (void)state;
    if (inner)
        checks.updated(inner, step);
}

static void close_flip(void *state, int code)
{
    (void)state;
    if (inner)
        checks.close(inner, code);
    inner = NULL;
}

void __real_dt_observer_add(const dt_run_observer *o);
void __wrap_dt_observer_add(const dt_run_observer *o)
{
    if (o->check) {
        flipped = checks = *o;
        flipped.open = open_flip;
        flipped.begin = begin;
        flipped.shard = take;
        flipped.gradient = gradient;
        flipped.loss = loss;
        flipped.check = check;
        flipped.updated = updated;
        flipped.close = close_flip;
    }
    __real_dt_observer_add(o->check ? &flipped : o);
}

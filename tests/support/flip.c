/* flip.c - linked with --wrap of the checks' places: one bit of a run goes wrong once, to see the
 * checks find it. The variable FLIP="WHAT RANK STEP TENSOR BIT" says which: the first number of
 * the tensor's master weight, of its packed copy, of its momentum, of the gradient of the rank's
 * first shard; or the first number of that shard's images. BIT counts from the lowest of the first
 * four bytes, STEP from 1. */
#include <stdio.h>
#include <stdlib.h>

#include "check/check.h"
#include "flip_bit.h"

static struct {
    dt_check_subject s;
    char what[16], tensor[64];
    int rank;
    long long step; /* 0: never */
    unsigned bit;
    bool now;          /* on this rank, in this step */
    size_t param;      /* that has the name */
    const float *grad; /* of the shard, until the bit is flipped */
} flip;

dt_status __real_dt_checks_open(dt_checks **c, const dt_check_subject *s);
void __real_dt_checks_begin(dt_checks *c, int64_t epoch, int64_t step);
void __real_dt_loader_train(const dt_loader *l, int64_t epoch, int64_t step, int shard,
                            void *images, int32_t *labels);
void __real_dt_checks_shard(dt_checks *c, int shard, const float *grad);
void __real_dt_checks_gradient(dt_checks *c, size_t floats_done);

dt_status __wrap_dt_checks_open(dt_checks **c, const dt_check_subject *s)
{
    const char *text = getenv("FLIP");

    memset(&flip, 0, sizeof flip);
    flip.s = *s;
    if (text && sscanf(text, "%15s %d %lld %63s %u", flip.what, &flip.rank, &flip.step, flip.tensor,
                       &flip.bit) != 5)
        abort();
    while (text && strcmp(s->net->param[flip.param].name, flip.tensor) != 0)
        if (++flip.param == s->net->params)
            abort();
    return __real_dt_checks_open(c, s);
}

static bool flips(const char *what)
{
    return flip.now && strcmp(flip.what, what) == 0;
}

/* Others of the node may still be hashing what the update before wrote: they are waited for. */
void __wrap_dt_checks_begin(dt_checks *c, int64_t epoch, int64_t step)
{
    const dt_check_subject *s = &flip.s;
    const dt_piece x = dt_model_piece(s->model, flip.param);
    const bool now = flip.step == epoch * s->steps_per_epoch + step + 1;
    size_t bytes;

    flip.now = now && flip.rank == s->comm->rank;
    flip.grad = NULL;
    __real_dt_checks_begin(c, epoch, step);
    if (now && dt_comm_barrier(s->comm) != DT_OK)
        abort();
    if (flips("weight"))
        flip_bit((x.cut ? s->piece[0] : s->weights.master) + x.offset, flip.bit);
    else if (flips("momentum"))
        flip_bit((x.cut ? s->piece[1] : s->momentum) + x.offset, flip.bit);
    else if (flips("packed"))
        flip_bit(packed_copy(s->model, flip.param, &bytes), flip.bit);
}

/* Once: the replay has the shard's images again. */
void __wrap_dt_loader_train(const dt_loader *l, int64_t epoch, int64_t step, int shard,
                            void *images, int32_t *labels)
{
    __real_dt_loader_train(l, epoch, step, shard, images, labels);
    if (flips("images") && shard == flip.s.first_shard) {
        flip_bit(images, flip.bit);
        flip.now = false;
    }
}

void __wrap_dt_checks_shard(dt_checks *c, int shard, const float *grad)
{
    if (flips("gradient") && shard == flip.s.first_shard)
        flip.grad = grad;
    __real_dt_checks_shard(c, shard, grad);
}

/* Before the replay hashes it: it stands for a gradient that was computed wrongly. */
void __wrap_dt_checks_gradient(dt_checks *c, size_t floats_done)
{
    const dt_param *p = &flip.s.net->param[flip.param];

    if (flip.grad && p->offset + p->count <= floats_done) {
        flip_bit((void *)(uintptr_t)(flip.grad + p->offset), flip.bit);
        flip.grad = NULL;
    }
    __real_dt_checks_gradient(c, floats_done);
}

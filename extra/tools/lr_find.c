/* lr_find.c - the range test of learning rates (Smith 2017): the rate grows by the same factor each
 * step, and the loss tells from where on, and up to where, it helps. */
#include "tools.h"
#include "train/run.h"

static dt_status find_steps(dt_run *r)
{
    const double keep = 0.9; /* of the sum of losses, from step to step */
    /* A mean of few losses follows each of them. */
    const int64_t settled = DT_MAX(1, DT_MIN(10, r->o.max_steps / 4));
    double sum = 0, weights = 0, before = 0, least = HUGE_VAL, fall = 0, best = 0, lr_before = 0;
    dt_step_result result;

    for (int64_t i = 0; i < r->o.max_steps; i++) {
        const dt_status st =
            dt_run_step(r, i / r->steps_per_epoch, i % r->steps_per_epoch, false, &result);
        if (st != DT_OK) /* that the loss is not finite has been printed */
            return st == DT_NUMERIC && i > 0 ? DT_OK : st;
        sum = keep * sum + result.record.loss;
        weights = keep * weights + 1;
        const double smoothed = sum / weights;
        if (i >= settled && before - smoothed > fall) {
            fall = before - smoothed;
            best = lr_before; /* the loss precedes the update by its own rate */
        }
        lr_before = result.record.lr;
        if (r->comm->rank == 0)
            printf(r->o.json ? "{\"step\": %lld, \"lr\": %.9g, \"loss\": %.9g, \"smoothed\": %.9g, "
                               "\"suggested\": %.9g}\n"
                             : "step %3lld: learning rate %.3g, loss %.4f, smoothed %.4f; the loss "
                               "fell fastest at --lr %.3g\n",
                   (long long)i + 1, result.record.lr, result.record.loss, smoothed, best);
        if (smoothed > 4 * least)
            break;
        before = smoothed;
        least = fmin(least, smoothed);
    }
    return DT_OK;
}

dt_status dt_lr_find(dt_comm *c, const dt_options *o)
{
    dt_options own = *o;
    dt_run r;

    own.max_steps = own.schedule_steps = o->max_steps > 0 ? o->max_steps : 100;
    own.schedule = "exponential";
    own.lr_scale = "none";
    own.lr = o->lr_to / 1e5;
    own.warmup = 0;
    own.lookahead = 0; /* it would draw weights back just where the loss rises */
    if (strcmp(o->decay, "decoupled") == 0 && o->lr > 0) /* the run's factor, not this rate's */
        own.weight_decay *= own.lr / o->lr;
    DT_TRY(dt_run_open(&r, c, &own, DT_FOR_TRAINING));
    dt_status st = dt_run_init(&r);
    if (st == DT_OK)
        st = find_steps(&r);
    dt_run_close(&r);
    return st;
}

/* schedule.c - learning-rate schedules: one function each, named like it, after a linear warm-up
 * that climbs to the schedule's own first rate. A run that is longer keeps the last rate. */
#include "schedule.h"

#include <assert.h>

/* Half a cosine from `from` (fraction 0) to `to` (fraction 1). */
static double schedule_anneal(double from, double to, double fraction)
{
    return to + (from - to) / 2 * (dt_cos_turns(fraction / 2) + 1);
}

static double schedule_constant(const dt_schedule *s, int64_t step)
{
    (void)step;
    return s->lr;
}

/* Milestones are fractions of the whole run, warm-up included. */
static double schedule_step(const dt_schedule *s, int64_t step)
{
    double lr = s->lr;
    for (int i = 0; i < s->milestones; i++)
        if (step >= s->milestone[i])
            lr *= s->gamma;
    return lr;
}

/* SGDR without restarts (Loshchilov & Hutter 2017). */
static double schedule_cosine(const dt_schedule *s, int64_t step)
{
    return schedule_anneal(s->lr, 0, (double)(step - s->warmup) / (double)s->steps);
}

/* Super-convergence (Smith & Topin 2018) as torch.optim.lr_scheduler.OneCycleLR draws
 * it: the last step has the lowest rate, hence the -1s. */
static double schedule_onecycle(const dt_schedule *s, int64_t step)
{
    const double low = s->lr / 25, end = low / 1e4;
    const double at = (double)(step - s->warmup);
    const double top = s->peak * (double)s->steps - 1, last = (double)s->steps - 1;

    if (at <= top)
        return schedule_anneal(low, s->lr, top > 0 ? at / top : 1);
    return schedule_anneal(s->lr, end, last > top ? (at - top) / (last - top) : 1);
}

/* From 0.2 of the rate up to it, and down to 0.07 of it, which a step behind the last would have
 * (get_lr in airbench94 of github.com/KellerJordan/cifar10-airbench). */
static double schedule_triangle(const dt_schedule *s, int64_t step)
{
    const double first = 0.2, last = 0.07, at = (double)(step - s->warmup);
    const double top = floor(s->peak * (double)s->steps);
    const double up = at / top, down = (at - top) / ((double)s->steps - top);

    return s->lr * (at < top ? first * (1 - up) + up : (1 - down) + last * down);
}

static double schedule_exponential(const dt_schedule *s, int64_t step)
{
    const double last = (double)DT_MAX(s->steps - 1, 1);

    return s->lr > 0 ? s->lr * dt_exp((double)(step - s->warmup) / last * dt_log(s->to / s->lr))
                     : 0;
}

void dt_schedule_open(dt_schedule *s, const dt_options *o, int64_t steps_per_epoch,
                      int64_t total_steps)
{
    dt_schedule made = {.to = o->lr_to,
                        .gamma = o->gamma,
                        .peak = o->peak,
                        .warmup = llround(o->warmup * (double)steps_per_epoch)};
    const dt_option_form scale = dt_option_meaning(&dt_lr_scale_syntax, o->lr_scale);
    const dt_option_form f = dt_option_meaning(&dt_milestones_syntax, o->milestones);

#define X(name)                                                                                    \
    if (strcmp(o->schedule, #name) == 0)                                                           \
        made.rate = schedule_##name;
    DT_SCHEDULE_LIST(X)
#undef X
    assert(made.rate);
    const bool scales = strcmp(scale.worded.word, "none") != 0;
    const bool linear = strcmp(scale.worded.word, "linear") == 0;
    const double ratio = (double)o->global_batch / scale.worded.number;
    made.milestones = f.milestones.count;
    for (int i = 0; i < made.milestones; i++)
        made.milestone[i] = llround(f.milestones.fraction[i] * (double)total_steps);
    made.lr = o->lr * (linear ? ratio : scales ? sqrt(ratio) : 1);
    made.steps = total_steps > made.warmup ? total_steps - made.warmup : 1;
    *s = made;
}

double dt_schedule_lr(const dt_schedule *s, int64_t step)
{
    if (step >= s->warmup)
        return s->rate(s, DT_MIN(step, s->warmup + s->steps - 1));
    return s->rate(s, s->warmup) * (double)(step + 1) / (double)s->warmup;
}

/* optimizer.c - an optimizer of the program's, called when the sums of a step's gradients are
 * complete. */
#include "lib.h"

#include <stdlib.h>

struct dtd_optimizer {
    dtd_ddp *ddp; /* borrowed */
    int (*step)(void *state);
    void *state; /* borrowed */
    int calls;   /* since the last step */
    bool due;    /* all rounds are done, or there were as many calls */
};

static dt_status optimizer_new(dtd_optimizer **o, dtd_ddp *d, int (*step)(void *state), void *state)
{
    dtd_group *g = NULL;

    DT_TRY(dtd_enter(DTD_IN_optimizer_new, &g));
    if (o)
        *o = NULL;
    if (!o || !d || !step)
        return dt_fail(DT_USAGE, "dtd_optimizer_new: o, d or step is NULL");
    DT_TRY(dt_calloc(o, 1, sizeof **o, "an optimizer"));
    **o = (struct dtd_optimizer){.ddp = d, .step = step, .state = state};
    return DT_OK;
}

int dtd_optimizer_new(dtd_optimizer **o, dtd_ddp *d, int (*step)(void *state), void *state)
{
    return dtd_leave(optimizer_new(o, d, step, state));
}

static dt_status optimizer_count(dtd_optimizer *o)
{
    dtd_group *g = NULL;

    DT_TRY(dtd_enter(DTD_IN_optimizer_step, &g));
    if (!o)
        return dt_fail(DT_USAGE, "dtd_optimizer_step: o is NULL");
    const int rounds = dtd_ddp_rounds(o->ddp, &o->due);
    o->due = o->due || ++o->calls == rounds;
    return DT_OK;
}

int dtd_optimizer_step(dtd_optimizer *o)
{
    int code = dtd_leave(optimizer_count(o));

    if (code != DTD_OK || !o->due)
        return code;
    o->calls = 0;
    code = dtd_ddp_wait(o->ddp);
    return code == DTD_OK ? o->step(o->state) : code;
}

void dtd_optimizer_free(dtd_optimizer *o)
{
    free(o);
}

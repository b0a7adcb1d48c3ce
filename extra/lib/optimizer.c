/* optimizer.c - an optimizer of the program's, called when the sums of a step's gradients are
 * complete. */
#include "lib.h"

#include <stdlib.h>

struct dtd_optimizer {
    dtd_ddp *ddp; /* borrowed */
    int (*step)(void *state);
    void *state; /* borrowed */
    int calls;   /* since the last step, which is due after as many as there are rounds */
};

int dtd_optimizer_new(dtd_optimizer **o, dtd_ddp *d, int (*step)(void *state), void *state)
{
    dtd_group *g = NULL;

    DTD_TRY(dtd_enter(DTD_IN_optimizer_new, &g));
    if (o)
        *o = NULL;
    if (!o || !d || !step)
        return dtd_leave(dt_fail(DT_USAGE, "dtd_optimizer_new: o, d or step is NULL"));
    DTD_TRY(dt_calloc(o, 1, sizeof **o, "an optimizer"));
    **o = (struct dtd_optimizer){.ddp = d, .step = step, .state = state};
    return dtd_leave(DT_OK);
}

int dtd_optimizer_step(dtd_optimizer *o)
{
    dtd_group *g = NULL;
    bool due;

    DTD_TRY(dtd_enter(DTD_IN_optimizer_step, &g));
    if (!o)
        return dtd_leave(dt_fail(DT_USAGE, "dtd_optimizer_step: o is NULL"));
    const int rounds = dtd_ddp_rounds(o->ddp, &due);
    if (!due && ++o->calls < rounds)
        return dtd_leave(DT_OK);
    o->calls = 0;
    const int code = dtd_ddp_wait(o->ddp);
    return code == DTD_OK ? o->step(o->state) : code;
}

void dtd_optimizer_free(dtd_optimizer *o)
{
    free(o);
}

/* look.c - work that is done now and then in the middle of other work. */
#include "base.h"

static _Thread_local struct {
    void (*run)(void *context);
    void *context;
    int64_t every_ns, last_ns;
} look;

void dt_look_set(double every_s, void (*run)(void *context), void *context)
{
    look.run = run;
    look.context = context;
    look.every_ns = (int64_t)(1e9 * every_s);
    look.last_ns = dt_place_clock();
}

void dt_look(void)
{
    if (!look.run || dt_place_clock() - look.last_ns < look.every_ns)
        return;
    look.run(look.context);
    look.last_ns = dt_place_clock();
}

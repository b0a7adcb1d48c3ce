/* small_run.h - options of a run that is over in a moment. */
#ifndef DT_SMALL_RUN_H
#define DT_SMALL_RUN_H
#include "train/run.h"

static inline dt_options small_run(const char *net)
{
    dt_options o;

    dt_options_init(&o);
    o.data = "synthetic:64";
    o.net = net;
    o.width_divisor = 16;
    o.shards = 8;
    o.batch = 4;
    o.precision = "fp32";
    o.threads = 1;
    return o;
}
#endif

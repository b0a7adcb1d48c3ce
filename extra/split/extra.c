/* extra.c - src/model and the run get what extra/split adds. */
#include "split.h"

void dt_extra_split(void)
{
    dt_plan_split = &dt_plan_cuts;
    dt_run_split = &dt_grid_split;
    dt_options_mode = dt_mode_take;
}

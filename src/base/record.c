/* record.c - what took how long on this rank, the one record from which every report of times is
 * made: sums since the start, and where something asks for them the latest events. */
#include "base.h"

static int64_t sum_ns[DT_LANES][DT_RECORD_KINDS];
static int64_t waited_ns[DT_ACTIVITY_COUNT];
static dt_ring ring[DT_LANES]; /* their pages are there once used */
static bool keeps;

int64_t dt_record(dt_lane lane, int what, uint64_t size, int64_t began)
{
    const int64_t ended = dt_activity_clock();

    sum_ns[lane][what] += ended - began;
    if (lane == DT_LANE_WAIT)
        waited_ns[dt_activity_now()] += ended - began;
    if (keeps) {
        ring[lane].at[ring[lane].count % DT_RECORD_EVENTS] = (dt_event){began, ended, size, what};
        ring[lane].count++;
    }
    return ended;
}

double dt_record_seconds(dt_lane lane, int first, int step)
{
    int64_t ns = 0;

    for (int k = first; k < DT_RECORD_KINDS; k += step)
        ns += sum_ns[lane][k];
    return 1e-9 * (double)ns;
}

double dt_record_waited(int phase)
{
    return 1e-9 * (double)waited_ns[phase];
}

void dt_record_restart(void)
{
    memset(waited_ns, 0, sizeof waited_ns);
    memset(sum_ns, 0, sizeof sum_ns);
}

const dt_ring *dt_record_keep(void)
{
    keeps = true;
    return ring;
}

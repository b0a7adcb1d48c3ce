/* activity.c - where this rank is: a few stores a layer, no lock, no call. A reader may see half of
 * a change; the next one completes it. One order is kept: a reader that sees the end of a rank's
 * waiting sees the time of that change, too. */
#include "base.h"
#include <time.h>

int64_t dt_activity_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double dt_seconds(void)
{
    return 1e-9 * (double)dt_activity_clock();
}

double dt_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static dt_activity unread;
static dt_activity *mine = &unread;

const char *const dt_activity_word[DT_ACTIVITY_COUNT] = {DT_ACTIVITY_LIST(DT_NAME_OF)};

#define get(member) atomic_load_explicit(&mine->member, memory_order_relaxed)
#define put(member, value) atomic_store_explicit(&mine->member, value, memory_order_relaxed)

/* A change ends the waiting. */
static void changed(void)
{
    const int64_t now = dt_activity_clock(), waits = get(waits_ns), took = now - get(changed_ns);

    if (!waits && took > get(longest_ns))
        put(longest_ns, took);
    put(changed_ns, now);
    if (waits)
        atomic_store_explicit(&mine->waits_ns, 0, memory_order_release);
}

void dt_activity_use(dt_activity *place)
{
    mine = place ? place : &unread;
    put(layer, -1);
    put(changed_ns, dt_activity_clock());
}

void dt_activity_step(int64_t step)
{
    const int64_t now = dt_activity_clock(), began = get(began_ns);

    changed();
    if (began)
        put(step_ns, now - began);
    put(began_ns, now);
    put(before_ns, get(longest_ns));
    put(longest_ns, 0);
    put(step, step);
}

void dt_activity_behind(int64_t step)
{
    put(began_ns, 0);
    put(step, step);
}

double dt_activity_phase(dt_activity_name phase)
{
    static int64_t began;

    changed();
    began = began ? dt_record(DT_LANE_PHASE, get(phase), 0, began) : dt_activity_clock();
    put(layer, -1);
    put(phase, (int)phase);
    return 1e-9 * (double)began;
}

dt_activity_name dt_activity_now(void)
{
    return (dt_activity_name)get(phase);
}

void dt_activity_layer(int layer)
{
    changed();
    put(layer, layer);
}

void dt_activity_slice(int64_t slice)
{
    changed();
    put(slice, slice);
}

void dt_activity_sent(size_t bytes)
{
    put(sent_bytes, get(sent_bytes) + (int64_t)bytes);
}

void dt_activity_waits(void)
{
    if (!get(waits_ns))
        put(waits_ns, dt_activity_clock());
}

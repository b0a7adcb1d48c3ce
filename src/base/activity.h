/* activity.h - where this rank is, and what took how long; a part of base.h. */
#ifndef DT_ACTIVITY_H
#define DT_ACTIVITY_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define DT_ACTIVITY_LIST(X)                                                                        \
    X(begin, "the beginning")                                                                      \
    X(data, "loading images")                                                                      \
    X(forward, "forward")                                                                          \
    X(backward, "backward")                                                                        \
    X(exchange, "the exchange")                                                                    \
    X(checks, "the checks")                                                                        \
    X(update, "the update")                                                                        \
    X(test, "the test")                                                                            \
    X(save, "saving a checkpoint")                                                                 \
    X(between, "between two steps")                                                                \
    X(end, "the end")
typedef enum dt_activity_name {
#define X(name, text) DT_AT_##name,
    DT_ACTIVITY_LIST(X)
#undef X
        DT_ACTIVITY_COUNT
} dt_activity_name;
extern const char *const dt_activity_word[DT_ACTIVITY_COUNT]; /* "forward" */

/* One rank's place. Only its main thread writes it; others read it at any time, also after the
 * process is gone. Times are in nanoseconds of the monotonic clock. */
typedef struct dt_activity {
    _Atomic int64_t step;                 /* of the run, from 1; 0: before the first */
    _Atomic int phase, layer;             /* a dt_activity_name; a step of the plan, -1: none */
    _Atomic int64_t slice;                /* bucket, or tensor, that the exchange waits for */
    _Atomic int64_t changed_ns, waits_ns; /* the last change; since when it waits, 0: it does not */
    _Atomic int64_t sent_bytes;           /* of gradients, to other ranks, in all */
    _Atomic int64_t began_ns, step_ns;    /* this step; how long the last one took */
    _Atomic int64_t longest_ns, before_ns; /* longest time between changes: in this step, in the
                                            * last */
} dt_activity;

int64_t dt_activity_clock(void);
/* From now on changes are written to `place`, which is borrowed; NULL: nowhere. */
void dt_activity_use(dt_activity *place);
void dt_activity_step(int64_t step);
/* The rank is after that step and before the next one. */
void dt_activity_behind(int64_t step);
/* Returns dt_seconds() of the change. */
double dt_activity_phase(dt_activity_name phase);
dt_activity_name dt_activity_now(void); /* the phase */
void dt_activity_layer(int layer);
void dt_activity_slice(int64_t slice);
/* So many bytes were handed to MPI. */
void dt_activity_sent(size_t bytes);
/* The rank waits for others until the next change. */
void dt_activity_waits(void);

/* Lanes of the record: in each, one thread writes events that follow one another. What an event's
 * `what` and `size` are: */
typedef enum dt_lane {
    DT_LANE_STEP,   /* 0; the step of the run, from 1 */
    DT_LANE_PHASE,  /* a dt_activity_name; 0 */
    DT_LANE_LAYER,  /* see DT_CLOCKED (model/model.h); 0 */
    DT_LANE_WAIT,   /* one of DT_COLLECTIVE_LIST (dist/dist.h) that this rank was in; bytes */
    DT_LANE_BUCKET, /* the oldest bucket of the gradient that was under way; bytes */
    DT_LANE_WRITER, /* 0: a checkpoint that was written; its step */
    DT_LANES
} dt_lane;
typedef struct dt_event {
    int64_t began, ended; /* by dt_activity_clock */
    uint64_t size;
    int what; /* below DT_RECORD_KINDS */
} dt_event;
enum { DT_RECORD_KINDS = 2048, DT_RECORD_EVENTS = 1 << 16 };
/* An event that ends now: the time is returned. */
int64_t dt_record(dt_lane lane, int what, uint64_t size, int64_t began);
/* The time in a lane's events of kinds first, first + step, ... since the start or
 * dt_record_restart. */
double dt_record_seconds(dt_lane lane, int first, int step);
/* The same of DT_LANE_WAIT's events that ended in a phase. */
double dt_record_waited(int phase);
void dt_record_restart(void);
typedef struct dt_ring {
    _Atomic int64_t count; /* of events; event i, one of the latest, is at[i % DT_RECORD_EVENTS] */
    dt_event at[DT_RECORD_EVENTS];
} dt_ring;
/* Keep the latest events of each lane from now on, in these rings [DT_LANES]. */
const dt_ring *dt_record_keep(void);
#endif

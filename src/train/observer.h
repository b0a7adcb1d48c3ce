/* observer.h - what looks at a run while it trains, and is no part of it: the table that extras add
 * to. An observer has a state in each run for training (dt_run.observed) and one in dt_train. Hooks
 * with `void **state` make the state, which is NULL before; hooks with `void *state` are called
 * only once it is made. Any hook may be NULL. */
#ifndef DT_RUN_OBSERVER_H
#define DT_RUN_OBSERVER_H
#include "report/report.h"
#include "store/store.h"

typedef struct dt_run dt_run;

typedef enum dt_check_when {
    DT_CHECK_STEP, /* between the end of the exchange and the update: no rank reads weights of the
                    * step any more, and none writes them before this returns */
    DT_CHECK_SAVE, /* before a checkpoint is saved: what is wrong must not outlive the run */
    DT_CHECK_END,  /* before a loss that is not finite is blamed on the recipe, and at the end */
} dt_check_when;

/* Where dt_train is when it calls `mark`. */
typedef enum dt_mark {
    DT_MARK_BEGIN, /* before the first step of this start */
    DT_MARK_STEP,  /* its line has been written; Local */
    DT_MARK_EPOCH, /* after its test, whose line has been written */
    DT_MARK_END    /* the model has been written */
} dt_mark;

typedef struct dt_run_observer {
    const char *options; /* that it carries out, a space before each; NULL: none */

    /* ---- Of a run ---- */
    /* Bytes of r->check_room that a rank's hooks use as they run. After plans are made. Local. */
    size_t (*bytes)(const dt_run *r);
    /* Once memory is bound and the exchange open. Local, not agreed. */
    dt_status (*open)(void **state, dt_run *r);
    /* The hooks of a step. All but `check` are Local. Before the first shard: */
    void (*begin)(void *state, int64_t epoch, int64_t step);
    /* The shard's images are in place, its gradient will be written to grad [slab]; not called for
     * a shard without images. */
    void (*shard)(void *state, int shard, const float *grad);
    /* The first `floats_done` floats of the gradient of the running shard (in lockstep: of each)
     * are final, and not yet folded. */
    void (*gradient)(void *state, size_t floats_done);
    void (*loss)(void *state, int shard, const dt_result *result); /* after backward */
    dt_status (*check)(void *state, dt_check_when when);           /* Agreed. Collective */
    void (*updated)(void *state, int64_t step); /* its weights and packed copies are visible */

    /* ---- Of dt_train, Collective ---- */
    /* Called twice: before the run is open (r NULL), and just before the first step (not of
     * --dry-run). folder: the run's, the second time, on rank 0; else NULL. Agreed. */
    dt_status (*set_up)(void **state, dt_comm *c, const dt_options *o, const dt_run *r,
                        const char *folder);
    /* Its run is open and is to train; not of --dry-run. Agreed. */
    dt_status (*ready)(void **state, const dt_run *r);
    /* Before each step, and after the last one (over). done: steps since this start (same). */
    dt_status (*between)(void *state, int64_t done, bool over);
    /* After an epoch's steps, which took `seconds` (same); this rank was in collectives for
     * `waited` of them. */
    dt_status (*epoch)(void *state, dt_comm *c, double waited, double seconds);

    /* On rank 0 `report` has the last line, and writes others; what is put into at->chain goes into
     * checkpoints. Not of --dry-run. Agreed, except DT_MARK_STEP, which is Local. */
    dt_status (*mark)(void **state, dt_run *r, dt_mark when, dt_report *report, dt_position *at);

    /* The run is over (code 0), or dt_train (code: its exit code). Local. */
    void (*close)(void *state, int code);
} dt_run_observer;

enum { DT_OBSERVERS = 8 };
extern const dt_run_observer *dt_run_observers[DT_OBSERVERS]; /* NULL behind the last */
/* Before the first run is open; borrowed. Local. */
void dt_observer_add(const dt_run_observer *o);

/* Call a hook of all that have it and a state; with _TRY, until one fails, which is returned. */
#define DT_OBSERVERS_WITH(observed, hook)                                                          \
    for (int o_ = 0; o_ < DT_OBSERVERS; o_++)                                                      \
        if ((observed)[o_] && dt_run_observers[o_]->hook)
#define DT_OBSERVE(observed, hook, ...)                                                            \
    DT_OBSERVERS_WITH(observed, hook) dt_run_observers[o_]->hook((observed)[o_], __VA_ARGS__)
#define DT_OBSERVE_TRY(observed, hook, ...)                                                        \
    DT_OBSERVERS_WITH(observed, hook)                                                              \
    DT_TRY(dt_run_observers[o_]->hook((observed)[o_], __VA_ARGS__))
/* The same of a hook that may make the state, while st is DT_OK. */
#define DT_OBSERVE_OPEN(st, observed, hook, ...)                                                   \
    for (int o_ = 0; (st) == DT_OK && o_ < DT_OBSERVERS && dt_run_observers[o_]; o_++)             \
        if (dt_run_observers[o_]->hook)                                                            \
    st = dt_run_observers[o_]->hook(&(observed)[o_], __VA_ARGS__)

void dt_observers_close(void **observed, int code); /* Local */
/* DT_CONFIG: no observer of this build carries out an option that is set. Local. */
dt_status dt_observers_check(const dt_options *o) DT_MUST_CHECK;
#endif

/* follow.c - dtrain status and dtrain tensorboard: what runs are at, once or until they are
 * over. Of a run nothing is changed. */
#include "convert/convert.h"
#include "view.h"
#include "watch/watch.h"
#include <libgen.h>
#include <time.h>

typedef struct follow {
    const dt_options *o;
    const char *const *run; /* [runs] */
    size_t runs;
    dt_events *events;  /* [runs], owned; NULL: it is for status */
    const char *folder; /* of TensorBoard's files */
} follow;

/* On a terminal each look takes the place of the one before. */
static dt_status show(const follow *f, size_t i, bool going)
{
    const char *run = f->run[i];
    char name[DT_CHECKPOINT_NAME];
    double age_s = 0;

    if (f->o->watch)
        printf(isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "\n");
    DT_TRY(dt_watch_status(run, going, stdout));
    DT_TRY(dt_checkpoint_last(run, name, &age_s));
    printf(name[0] ? "last checkpoint: %s, %.0f s ago\n" : "no checkpoint\n", name, age_s);
    return DT_OK;
}

/* Once, or with --watch every two seconds, until no run goes on. What a run has recorded before it
 * was seen to be over is taken. While runs are on, what fails is tried again. */
static dt_status follow_all(const follow *f)
{
    for (;; nanosleep(&(struct timespec){.tv_sec = 2}, NULL)) {
        dt_status st = DT_OK;
        bool goes_on = false;
        for (size_t i = 0; i < f->runs; i++) {
            const bool going = dt_rundir_held(f->run[i]) || dt_watch_writes(f->run[i]);
            const dt_status one = f->events ? dt_events_update(&f->events[i]) : show(f, i, going);
            st = st == DT_OK ? one : st;
            goes_on = goes_on || (going && f->o->watch);
        }
        if (!goes_on)
            return st;
        if (st != DT_OK) /* it has not begun its first step */
            printf("%s\n", dt_fail_text());
        dt_fail_clear();
        if (fflush(stdout) != 0)
            return DT_OK; /* main says why */
    }
}

dt_status dt_status_show(const dt_options *o, const char *const *run, size_t runs)
{
    return follow_all(&(follow){.o = o, .run = run, .runs = runs});
}

/* Into D/NAME, by the folder's own name. */
static dt_status events_of(const follow *f, size_t i)
{
    dt_events *e = &f->events[i];
    char own[PATH_MAX];

    if (!realpath(f->run[i], own))
        return dt_fail(DT_NOINPUT, "%s: there is no such run folder", f->run[i]);
    DT_TRY(dt_path_join(e->metrics, f->run[i], "metrics.jsonl"));
    DT_TRY(dt_path_join(e->folder, f->folder, basename(own)));
    for (size_t k = 0; k < i; k++)
        if (strcmp(f->events[k].folder, e->folder) == 0)
            return dt_fail(DT_USAGE,
                           "%s and %s would both be written to %s: rename one, or "
                           "give each another --out",
                           f->run[k], f->run[i], e->folder);
    return DT_OK;
}

dt_status dt_tensorboard(const dt_options *o, const char *const *run, size_t runs)
{
    follow f = {.o = o, .run = run, .runs = runs, .folder = o->out[0] ? o->out : "tensorboard"};
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&f.events, runs, sizeof *f.events, "the list of runs"));
    for (size_t i = 0; i < runs; i++)
        DT_GO(st, events_of(&f, i), out);
    printf("look at them with: tensorboard --logdir %s\n", f.folder);
    fflush(stdout);
    st = follow_all(&f);

out:
    free(f.events);
    return st;
}

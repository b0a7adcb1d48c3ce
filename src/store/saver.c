/* saver.c - a thread for each checkpoint, which writes it while training goes on. It works on a
 * copy, calls no MPI, takes no signal, and hands its outcome over by value: failures are recorded
 * per thread. */
#include "store.h"

#include <sys/resource.h>

enum { FAILURE_ROOM = 2 * PATH_MAX };

struct dt_saver {
    dt_rundir *run;
    dt_keep keep;
    dt_slab slab; /* momentum; of the model and of what is trained master, running statistics */
    pthread_t thread;
    bool busy;     /* there is a thread, which has all below */
    dt_snapshot s; /* of the copy */
    dt_options options;
    dt_status outcome;
    char failure[FAILURE_ROOM];
};

size_t dt_saver_bytes(const dt_net *net, bool averages)
{
    const size_t floats = net->slab_floats;
    const size_t weights = floats + 2 * dt_align(net->norm_channels, 16);
    return sizeof(float) * (floats + (averages ? 2 : 1) * weights);
}

/* Where mpirun binds a rank to its cores, the thread would take them from it: it may run on
 * any core that the job has, and only where training leaves room. Both may be refused. */
static void saver_step_back(void)
{
    enum { POLITE = 10 };
    cpu_set_t all;

    memset(&all, 0xff, sizeof all); /* the kernel takes away what the job has not */
    (void)sched_setaffinity(0, sizeof all, &all);
    (void)setpriority(PRIO_PROCESS, 0, POLITE); /* of this thread alone, on Linux */
}

static void *saver_main(void *context)
{
    dt_saver *v = context;

    saver_step_back();
    const int64_t began = dt_activity_clock();
    dt_status st = dt_checkpoint_save(v->run, &v->s);
    dt_record(DT_LANE_WRITER, 0, (uint64_t)v->s.at.run_step, began);
    if (st == DT_OK) {
        v->keep.unproved = !v->s.proved;
        st = dt_checkpoint_prune(v->run, v->s.at.run_step, &v->keep);
    }
    v->outcome = st;
    snprintf(v->failure, sizeof v->failure, "%s", dt_fail_text());
    return NULL;
}

dt_status dt_saver_open(dt_saver **out, dt_rundir *run, const dt_net *net, bool averages,
                        const dt_keep *keep)
{
    dt_saver *v = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&v, 1, sizeof *v, "saving checkpoints"));
    v->run = run;
    v->keep = *keep;
    DT_GO(st,
          dt_slab_create(&v->slab, dt_saver_bytes(net, averages),
                         "the copy that checkpoints are written from"),
          out);
    memset(v->slab.mem, 0, v->slab.bytes); /* its pages are taken now, not in a step */
    *out = v;
    v = NULL;

out:
    dt_saver_close(v);
    return st;
}

dt_status dt_saver_wait(dt_saver *v)
{
    if (v->busy)
        pthread_join(v->thread, NULL);
    v->busy = false;
    const dt_status st = v->outcome;
    v->outcome = DT_OK;
    return st == DT_OK ? DT_OK : dt_fail(st, "%s", v->failure);
}

/* *at becomes where the copy ends. */
static float *copy_floats(float **at, const float *from, size_t count)
{
    float *to = *at;

    if (count > 0) /* a network without batch norm has no statistics */
        memcpy(to, from, count * sizeof *from);
    *at += dt_align(count, 16);
    return to;
}

static dt_weights copy_weights(float **at, const dt_weights *w)
{
    const size_t floats = w->net->slab_floats, channels = w->net->norm_channels;
    float *master = copy_floats(at, w->master, floats);
    float *mean = copy_floats(at, w->running_mean, channels);
    return (dt_weights){w->net, master, mean, copy_floats(at, w->running_var, channels)};
}

static void saver_copy(dt_saver *v, const dt_snapshot *s)
{
    float *at = v->slab.mem;

    v->options = *s->options;
    v->s = *s;
    v->s.momentum = copy_floats(&at, s->momentum, s->model.net->slab_floats);
    v->s.model = copy_weights(&at, &s->model);
    if (s->trained.net)
        v->s.trained = copy_weights(&at, &s->trained);
    v->s.options = &v->options;
}

dt_status dt_saver_save(dt_saver *v, const dt_snapshot *s)
{
    DT_TRY(dt_snapshot_finite(s));
    const dt_status before = dt_saver_wait(v);
    saver_copy(v, s);
    const dt_status st = dt_thread_start(&v->thread, saver_main, v, "write checkpoints");
    v->busy = st == DT_OK;
    return before == DT_OK ? st : before;
}

void dt_saver_close(dt_saver *v)
{
    if (!v)
        return;
    if (v->busy)
        pthread_join(v->thread, NULL);
    dt_slab_destroy(&v->slab);
    free(v);
}

/* The training loop: epochs of steps, a test after each, and at the end the model, its
 * hashes and the last record. Every rank runs it; rank 0 writes and prints. */
#include "run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "metrics.h"
#include "modelfile.h"
#include "report.h"
#include "rundir.h"

typedef struct session { /* rank 0's outputs; closed and silent on the others */
    bool leads;
    dt_rundir folder;
    dt_metrics metrics;
    dt_report report;
    char metrics_path[PATH_MAX], model_path[PATH_MAX];
} session;

/* ---- Outputs ------------------------------------------------------------------------- */

static dt_status save_options(const session *s, const dt_run *r)
{
    char path[PATH_MAX];
    FILE *f = fopen(dt_rundir_file(&s->folder, "options.yaml", path), "w");

    if (!f)
        return dt_fail(DT_CANTCREATE, "cannot create '%s': %s", path, strerror(errno));
    dt_options_yaml(f, &r->o);
    const bool bad = fflush(f) != 0 || ferror(f);
    if (fclose(f) != 0 || bad)
        return dt_fail(DT_IO, "cannot write '%s': is the disk full?", path);
    return DT_OK;
}

/* A run that ends on a full disk has trained for nothing: look before the first step. */
static dt_status check_room(const session *s, const dt_run *r)
{
    const uint64_t model = 4 * (uint64_t)dt_net_weight_total(r->net) +
                           8 * (uint64_t)dt_net_norm_channels(r->net) + (1u << 20);
    struct statvfs v;

    if (statvfs(s->folder.path, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize < model)
        return dt_fail(DT_IO, "the disk of run folder '%s' has %llu bytes left, but the model "
                       "needs %llu: make room or choose another --out", s->folder.path,
                       (unsigned long long)v.f_bavail * v.f_frsize, (unsigned long long)model);
    return DT_OK;
}

/* Nothing stays of a run that could not begin. */
static void session_undo(session *s)
{
    char path[PATH_MAX];
    unlink(dt_rundir_file(&s->folder, "options.yaml", path));
    if (s->metrics.path)
        unlink(s->metrics_path);
}

static dt_status session_open(session *s, const dt_run *r)
{
    const dt_report_setup setup = {.style = r->o.log_style, .out = stdout,
                                   .epochs = r->o.epochs,
                                   .steps_per_epoch = r->steps_per_epoch,
                                   .total_steps = r->total_steps,
                                   .log_every = r->o.log_every};

    s->leads = true;
    DT_TRY(dt_rundir_open(&s->folder, &r->o, dt_comm_world(r->comm)));
    dt_rundir_file(&s->folder, "metrics.jsonl", s->metrics_path);
    dt_rundir_file(&s->folder, "model.safetensors", s->model_path);
    dt_status st = check_room(s, r);
    if (st == DT_OK)
        st = save_options(s, r);
    if (st == DT_OK)
        st = dt_metrics_open(&s->metrics, s->metrics_path);
    if (st != DT_OK) {
        session_undo(s);
        return st;
    }
    if (strcmp(r->o.log_style, "auto") == 0)
        dt_options_print(stdout, &r->o);
    dt_run_print_memory(r);
    dt_note("effective learning rate %g, %d shards of %lld images in all, %s, %s, %d threads "
            "per rank, exchange %s, run folder %s", r->schedule.lr, (int)r->o.shards,
            (long long)r->global_batch, dt_dtype_name(r->precision),
            dt_isa_name(dt_isa_current()), r->threads, dt_exchange_name(r->exchange),
            s->folder.path);
    DT_TRY(dt_report_open(&s->report, &setup));
    dt_report_start(&s->report);
    return DT_OK;
}

static void session_close(session *s)
{
    if (!s->leads)
        return;
    dt_metrics_close(&s->metrics);
    dt_rundir_close(&s->folder);
}

/* ---- Epochs ---------------------------------------------------------------------------- */

/* A full disk under metrics.jsonl is rank 0's alone: it ends the run through main. */
static dt_status record_step(session *s, const dt_step_record *record)
{
    if (!s->leads)
        return DT_OK;
    dt_report_step(&s->report, record);
    return dt_metrics_step(&s->metrics, record);
}

static dt_status train_epoch(dt_run *r, session *s, int64_t epoch, dt_epoch_record *sum)
{
    const double start = dt_seconds();
    double loss = 0;

    *sum = (dt_epoch_record){.epoch = epoch + 1};
    for (int64_t step = 0; step < r->steps_per_epoch; step++) {
        const int64_t run_step = epoch * r->steps_per_epoch + step;
        const double began = dt_seconds();
        dt_step_result result;
        if (run_step == r->total_steps)
            break;
        DT_TRY(dt_run_step(r, epoch, step, &result));
        loss += result.loss * (double)result.images;
        sum->images += result.images;
        DT_TRY(record_step(s, &(dt_step_record){.epoch = epoch + 1, .step = step + 1,
                                                .run_step = run_step + 1,
                                                .loss = result.loss, .lr = result.lr,
                                                .images = result.images,
                                                .seconds = dt_seconds() - began}));
    }
    sum->train_loss = loss / (double)sum->images;
    sum->seconds = dt_seconds() - start;
    return DT_OK;
}

static dt_status train_epochs(dt_run *r, session *s)
{
    for (int64_t epoch = 0; epoch * r->steps_per_epoch < r->total_steps; epoch++) {
        dt_epoch_record record;
        dt_test_result test;
        DT_TRY(train_epoch(r, s, epoch, &record));
        DT_TRY(dt_run_test(r, &test));
        record.test_loss = test.loss;
        record.correct = test.correct;
        record.test_images = test.images;
        if (s->leads) {
            dt_report_epoch(&s->report, &record);
            DT_TRY(dt_metrics_epoch(&s->metrics, &record));
        }
    }
    return DT_OK;
}

/* ---- The end ------------------------------------------------------------------------------ */

static dt_status save_model(const dt_run *r, const session *s)
{
    const dt_model_state state = dt_run_state(r);
    const dt_model_file_opts opts = {.names = r->o.names, .normalize = r->o.normalize,
                                     .steps = r->total_steps};
    return s->leads ? dt_model_save(&state, s->model_path, &opts) : DT_OK;
}

/* The loss of a step is looked at before its update: the last update has no later loss. */
static dt_status check_finite(const dt_run *r)
{
    const float *w = r->master.mem;
    for (size_t i = 0; i < dt_net_slab_floats(r->net); i++)
        if (!isfinite(w[i]))
            return dt_fail(DT_NUMERIC, "after the last step float %zu of the weights is %g; "
                           "lower --lr or use --warmup", i, (double)w[i]);
    return DT_OK;
}

static dt_status hashes(const dt_run *r, dt_end_record *end)
{
    const dt_model_state state = dt_run_state(r);
    const int64_t epochs = r->total_steps / r->steps_per_epoch;
    dt_digest weights, all;

    DT_TRY(dt_model_weights_hash(r->model, &weights));
    DT_TRY(dt_state_hash(&state, r->momentum.mem, epochs,
                         r->total_steps - epochs * r->steps_per_epoch, &all));
    dt_digest_text(weights, end->weights_hash);
    dt_digest_text(all, end->state_hash);
    return DT_OK;
}

/* Every rank holds the weights: that they are the same ones is checked before they are
 * called the result. */
static dt_status finish(dt_run *r, session *s, double seconds, dt_end_record *end)
{
    *end = (dt_end_record){.steps = r->total_steps, .seconds = seconds,
                           .folder = s->folder.path};
    DT_TRY(dt_comm_agree(r->comm, check_finite(r)));
    DT_TRY(dt_comm_agree(r->comm, hashes(r, end)));
    const dt_field field[] = {{"weights at the end", end->weights_hash},
                              {"state at the end", end->state_hash}};
    DT_TRY(dt_comm_same(r->comm, field, 2));
    DT_TRY(dt_comm_agree(r->comm, save_model(r, s)));
    end->ok = true;
    return dt_comm_agree(r->comm, s->leads ? dt_metrics_end(&s->metrics, end) : DT_OK);
}

/* The last words of a run that ended before its first: log styles promise them. */
static void report_refused(const dt_options *o)
{
    const dt_report_setup setup = {.style = o->log_style, .out = stdout};
    const dt_end_record end = {.ok = false};
    dt_report report;
    if (dt_report_open(&report, &setup) == DT_OK)
        dt_report_finish(&report, &end);
}

dt_status dt_train(dt_comm *c, const dt_options *o)
{
    dt_run r;
    session s = {.leads = false};
    dt_end_record end = {.ok = false};
    dt_status st = DT_OK;

    if (o->model[0])
        dt_warn("--model is for eval; to start from a model file give --init");
    st = dt_run_open(&r, c, o, DT_FOR_TRAINING);
    if (st != DT_OK && dt_comm_rank(c) == 0)
        report_refused(o);
    DT_TRY(st);
    const double start = dt_seconds();
    if (o->init[0])
        DT_GO(st, dt_run_load(&r, o->init), out);
    st = dt_comm_agree(c, dt_comm_rank(c) == 0 ? session_open(&s, &r) : DT_OK);
    if (st != DT_OK && dt_comm_rank(c) == 0)
        report_refused(o);
    if (st != DT_OK)
        goto out;
    st = train_epochs(&r, &s);
    if (st == DT_OK)
        st = finish(&r, &s, dt_seconds() - start, &end);
    if (s.leads)
        dt_report_finish(&s.report, &end);

out:
    session_close(&s);
    dt_run_close(&r);
    return st;
}

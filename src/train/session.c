/* session.c - everything that a run leaves behind, written by rank 0. */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/store.h"
#include "run.h"

/* ---- Opening ------------------------------------------------------------------------- */

dt_status dt_session_take(dt_session *s, const dt_run *r)
{
    s->leads = true;
    DT_TRY(dt_rundir_open(&s->folder, &r->o, dt_comm_world(r->comm)));
    dt_log_alias(s->folder.at, s->folder.path);
    dt_rundir_file(&s->folder, "model.safetensors", s->model_path);
    return DT_OK;
}

/* On disk before anything else of the run, for they tell a run folder from any other. */
static dt_status place_options(const dt_session *s, const dt_run *r)
{
    char path[PATH_MAX];
    const dt_target t = dt_target_path(dt_rundir_file(&s->folder, "options.yaml", path));

    return dt_options_put(&t, &r->o, NULL);
}

static dt_model_file_opts model_opts(const dt_run *r)
{
    return (dt_model_file_opts){
        .names = r->o.names, .normalize = r->o.normalize, .steps = r->total_steps};
}

/* A run that ends on a full disk has trained for nothing: look before the first step. */
static dt_status check_room(const dt_session *s, const dt_run *r)
{
    const uint64_t model = 4 * (uint64_t)dt_net_weight_total(r->net) +
                           8 * (uint64_t)dt_net_norm_channels(r->net) + (1u << 20);
    /* Of checkpoints, the two that are kept while a third is written. */
    const bool none = strcmp(r->o.save_every, "0") == 0 && !r->o.keep_best;
    const uint64_t saves = none ? 0 : 3 * 2 * model;
    struct statvfs v;

    if (statvfs(s->folder.at, &v) != 0)
        return DT_OK;
    const uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;
    if (left < model)
        return dt_fail(DT_IO,
                       "the disk of run folder '%s' has %llu bytes left, but the model "
                       "needs %llu, 1 MiB for the run's other files included: make room or choose "
                       "another --out",
                       s->folder.path, (unsigned long long)left, (unsigned long long)model);
    if (left < model + saves)
        dt_warn("the disk of run folder '%s' has %llu bytes left; the model and its checkpoints "
                "need %llu: make room, choose another --out, or keep none with --save-every 0%s",
                s->folder.path, (unsigned long long)left, (unsigned long long)(model + saves),
                r->o.keep_best ? " and without --keep-best" : "");
    return DT_OK;
}

/* Nothing stays of a run that could not begin. */
static void session_undo(dt_session *s)
{
    char path[PATH_MAX];

    if (!s->folder.created)
        return;
    unlink(dt_rundir_file(&s->folder, "options.yaml", path));
    unlink(dt_rundir_file(&s->folder, "metrics.jsonl", path));
}

/* The options of this run in place of those of an older one, whose work is put aside before where
 * it is not gone on with. */
static dt_status take_over(const dt_session *s, const dt_run *r, bool anew)
{
    if (s->folder.resumed && anew)
        DT_TRY(dt_rundir_aside(&s->folder));
    return place_options(s, r);
}

/* What may refuse the run comes before what changes the folder. */
static dt_status session_open(dt_session *s, const dt_run *r, const dt_progress *at,
                              const char *from)
{
    const dt_keep keep = {.last = r->o.keep_last, .every = r->o.keep_every, .best = r->o.keep_best};
    char sinks[64];
    const dt_report_setup setup = {.out = stdout,
                                   .epochs = r->o.epochs,
                                   .steps_per_epoch = r->steps_per_epoch,
                                   .total_steps = r->total_steps,
                                   .log_every = r->o.log_every,
                                   .folder = s->folder.folder,
                                   .path = s->folder.path,
                                   .keep_bytes = s->folder.resumed ? at->metrics_bytes : 0};

    const dt_target model = dt_target_path(s->model_path);
    DT_TRY(dt_target_check(&model));
    DT_TRY(check_room(s, r));
    if (s->folder.resumed)
        DT_TRY(dt_report_check(&setup));
    DT_TRY(dt_saver_open(&s->saver, s->folder.at, r->net, &keep));
    DT_TRY(take_over(s, r, !from[0]));
    if (s->folder.resumed && from[0])
        DT_TRY(dt_checkpoint_rewind(from));
    snprintf(sinks, sizeof sinks, "%s jsonl", r->o.log_style);
    return dt_report_open(&s->report, sinks, &setup);
}

dt_status dt_session_begin(dt_session *s, const dt_run *r, const dt_progress *at, const char *from)
{
    const dt_status st = session_open(s, r, at, from);

    if (st != DT_OK) {
        session_undo(s);
        return st;
    }
    if (strcmp(r->o.resume, "auto") == 0 && !from[0])
        dt_note("no checkpoint in %s to go on from: beginning at the first step", s->folder.path);
    /* The other styles' output is for parsers that know it. */
    FILE *head = strcmp(r->o.log_style, "auto") == 0 ? stdout : stderr;
    dt_head_print(head, r, s->folder.path);
    if (r->o.verbose) {
        dt_options_print(head, &r->o);
        dt_run_print_memory(head, r);
    }
    return DT_OK;
}

void dt_session_close(dt_session *s)
{
    if (!s->leads)
        return;
    dt_saver_close(s->saver);
    dt_report_close(&s->report);
    dt_log_alias(NULL, NULL);
    dt_rundir_close(&s->folder);
}

/* ---- What may fail while training goes on ---------------------------------------------- */

/* The disk's failure ends the run, or is said once and passed over; numbers that are none
 * always end it. */
static dt_status disk_failed(const dt_run *r, dt_status st, const char *what)
{
    if (st == DT_OK || st == DT_NUMERIC || strcmp(r->o.on_save_error, "stop") == 0)
        return st;
    dt_warn("%s: %s; training goes on (--on-save-error continue)", what, dt_fail_text());
    dt_fail_clear();
    return DT_OK;
}

static dt_status line_written(const dt_run *r, dt_status st)
{
    return disk_failed(r, st, "a line of metrics.jsonl is lost");
}

dt_status dt_session_step(dt_session *s, const dt_run *r, const dt_step_record *record)
{
    if (!s->leads)
        return DT_OK;
    return line_written(r, dt_report_step(&s->report, record));
}

/* Files that others have removed meanwhile. */
static dt_status restore_files(dt_session *s, const dt_run *r)
{
    char path[PATH_MAX];

    DT_TRY(dt_rundir_find(&s->folder));
    if (dt_path_exists(dt_rundir_file(&s->folder, "options.yaml", path)))
        return DT_OK;
    DT_TRY(place_options(s, r));
    dt_warn("%s was removed while the run goes on: it is written again", path);
    return DT_OK;
}

/* Said once: what stands in the way stays there. */
static dt_status keep_files(dt_session *s, const dt_run *r)
{
    const dt_status st = restore_files(s, r);
    const bool said = s->files_lost && strcmp(r->o.on_save_error, "continue") == 0;

    s->files_lost = st != DT_OK;
    if (st == DT_OK || !said)
        return disk_failed(r, st, "a file of the run folder is lost");
    dt_fail_clear();
    return DT_OK;
}

dt_status dt_session_epoch(dt_session *s, const dt_run *r, const dt_epoch_record *record)
{
    if (!s->leads)
        return DT_OK;
    DT_TRY(keep_files(s, r));
    return line_written(r, dt_report_epoch(&s->report, record));
}

static dt_status start_save(dt_session *s, const dt_run *r, const dt_progress *at, dt_save_how how)
{
    char data[DT_DIGEST_CHARS], class[DT_BITS_CLASS_CHARS];
    dt_snapshot snapshot = {
        .model = dt_run_weights(r),
        .momentum = r->momentum.mem,
        .at = *at,
        .options = &r->o,
        .data_digest = data,
        .bits_class = class,
        .best = how.best,
        .proved = how.proved,
    };

    int fd = -1;

    DT_TRY(keep_files(s, r));
    DT_TRY(dt_report_records(&s->report, &snapshot.at.metrics_bytes, &fd));
    dt_digest_text(dt_source_digest(r->source), data);
    dt_bits_class(r, class);
    return dt_saver_save(s->saver, &snapshot, fd);
}

/* Of the write under way, or of the pruning behind it. */
dt_status dt_session_settle(dt_session *s, const dt_run *r)
{
    return s->leads ? disk_failed(r, dt_saver_wait(s->saver), "saving a checkpoint") : DT_OK;
}

dt_status dt_session_save(dt_session *s, const dt_run *r, const dt_progress *at, dt_save_how how)
{
    if (!s->leads)
        return DT_OK;
    DT_TRY(dt_session_settle(s, r));
    DT_TRY(disk_failed(r, start_save(s, r, at, how), "saving a checkpoint"));
    return how.wait ? dt_session_settle(s, r) : DT_OK;
}

/* ---- The end ------------------------------------------------------------------------------ */

/* Something that is no file has come to where the model is to be: the training is not lost. */
static dt_status save_beside(const dt_session *s, const dt_weights *state,
                             const dt_model_file_opts *opts)
{
    char path[PATH_MAX], why[2 * PATH_MAX];

    snprintf(why, sizeof why, "%s", dt_fail_text());
    if (dt_path_taken(dt_rundir_file(&s->folder, "model-2.safetensors", path)))
        return dt_fail(DT_CANTCREATE, "%s", why);
    dt_fail_clear();
    DT_TRY(dt_model_save(state, path, opts));
    return dt_fail(DT_CANTCREATE, "%s; the model of this run is %s", why, path);
}

dt_status dt_session_model(dt_session *s, const dt_run *r)
{
    const dt_weights state = dt_run_weights(r);
    const dt_model_file_opts opts = model_opts(r);
    char undone[PATH_MAX];

    if (!s->leads)
        return DT_OK;
    DT_TRY(dt_rundir_find(&s->folder));
    const dt_status st = dt_model_save(&state, s->model_path, &opts);
    if (st == DT_CANTCREATE)
        return save_beside(s, &state, &opts);
    DT_TRY(st);
    unlink(
        dt_rundir_file(&s->folder, ".undone-model.safetensors", undone)); /* there is one again */
    return DT_OK;
}

dt_status dt_session_end(dt_session *s, const dt_run *r, const dt_end_record *end)
{
    if (!s->leads)
        return DT_OK;
    DT_TRY(keep_files(s, r));
    return line_written(r, dt_report_end(&s->report, end));
}

/* session.c - everything that a run leaves behind, written by rank 0. */
#include "session.h"

#include <sys/statvfs.h>

const struct dt_session_pieces *dt_session_pieces;

/* ---- Opening ------------------------------------------------------------------------- */

dt_status dt_session_take(dt_session *s, const dt_run *r)
{
    const int64_t steps = dt_option_meaning(&dt_keep_every_syntax, r->o.keep_every).keep_every;

    s->leads = true;
    const int64_t every = steps < 0 ? r->steps_per_epoch : steps;
    s->keep = (dt_keep){.last = r->o.keep_last, .every = every, .best = r->o.keep_best};
    return dt_rundir_open(&s->folder, &r->o, r->comm->world);
}

/* A file of the run folder; `shown` has room for its path. */
static dt_target target_of(const dt_session *s, const char *name, char shown[PATH_MAX])
{
    snprintf(shown, PATH_MAX, "%s/%.60s", s->folder.path, name);
    return (dt_target){.folder = s->folder.folder, .name = name, .shown = shown};
}

/* A run that ends on a full disk has trained for nothing: look before the first step. */
static dt_status check_room(const dt_session *s, const dt_run *r, const dt_position *at)
{
    const uint64_t model =
        4 * (uint64_t)r->net->weight_total + 8 * (uint64_t)r->net->norm_channels + (1u << 20);
    const int64_t left_steps = r->total_steps - at->run_step;
    const int64_t due = dt_option_meaning(&dt_save_every_syntax, r->o.save_every).save_every.steps;
    const bool epochs = strcmp(r->o.keep_every, "epoch") == 0;
    const bool none = strcmp(r->o.save_every, "0") == 0 && !r->o.keep_best && !epochs;
    /* Of checkpoints, those that are kept while another is written. By the clock few steps of
     * --keep-every's are saved. */
    int64_t kept = 1 + DT_MAX(DT_MIN(s->keep.last, left_steps / DT_MAX(due, 1)), 2) + s->keep.best;
    if (s->keep.every > 0 && (epochs || due > 0))
        kept += left_steps / (epochs ? s->keep.every : DT_MAX(due, s->keep.every));
    const uint64_t saves =
        none ? 0 : (uint64_t)kept * (dt_options_average(&r->o) ? 3u : 2u) * model;
    struct statvfs v;

    if (fstatvfs(s->folder.folder, &v) != 0 || v.f_blocks == 0) /* the disk does not tell */
        return DT_OK;
    const uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;
    if (left < model)
        return dt_fail(DT_IO,
                       "the disk of run folder '%s' has %.4f GiB left, but the model needs %.4f, 1 "
                       "MiB for the run's other files included: make room or choose another --out",
                       s->folder.path, dt_gib(left), dt_gib(model));
    if (left < model + saves)
        dt_warn("the disk of run folder '%s' has %.4f GiB left; the model and its checkpoints "
                "need %.4f: make room, choose another --out, or keep fewer with --save-every, "
                "--keep-last, --keep-every, --keep-best",
                s->folder.path, dt_gib(left), dt_gib(model + saves));
    return DT_OK;
}

/* A file, no pipe to mpirun and no terminal: lines of other ranks are not among those there. */
static bool own_output(void)
{
    struct stat info;

    return fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode);
}

/* What may refuse the run comes before what changes the folder; options.yaml is there before
 * anything else of the run, for it tells a run folder from any other. */
static dt_status session_open(dt_session *s, const dt_run *r, const dt_position *at)
{
    char shown[PATH_MAX];
    const dt_target model = target_of(s, "model.safetensors", shown);
    const dt_report_setup setup = {.out = stdout,
                                   .own = own_output(),
                                   .epochs = r->o.epochs,
                                   .steps_per_epoch = r->steps_per_epoch,
                                   .total_steps = r->total_steps,
                                   .folder = s->folder.folder,
                                   .path = s->folder.path,
                                   .keep_bytes = at->metrics_bytes};

    DT_TRY(dt_target_check(&model));
    DT_TRY(dt_checkpoints_check(&s->folder));
    DT_TRY(check_room(s, r, at));
    DT_TRY(dt_report_check(&setup));
    if (!r->o.save_shards)
        DT_TRY(dt_saver_open(&s->saver, &s->folder, r->net, dt_options_average(&r->o), &s->keep));
    const dt_target options = target_of(s, "options.yaml", shown);
    DT_TRY(dt_options_put(&options, &r->o, NULL));
    return dt_report_open(&s->report, r->o.log_style, &setup);
}

dt_status dt_session_begin(dt_session *s, const dt_run *r, const dt_position *at, const char *from)
{
    const bool prints = strcmp(r->o.log_style, "mindspore") == 0 && own_output();

    if (!s->leads) /* the Ascend tutorial's devices have a log each */
        return prints ? dt_report_open(&s->report, r->o.log_style,
                                       &(dt_report_setup){.out = stdout, .own = true})
                      : DT_OK;
    const dt_status st = session_open(s, r, at);

    if (st != DT_OK && s->folder.created) { /* nothing stays of a run that could not begin */
        unlinkat(s->folder.folder, "options.yaml", 0);
        unlinkat(s->folder.folder, "metrics.jsonl", 0);
    }
    DT_TRY(st);
    if (strcmp(r->o.resume, "auto") == 0 && !from[0])
        dt_note("no checkpoint in %s to resume from: beginning at the first step", s->folder.path);
    /* The other styles' output is for parsers that know it. */
    if (s->report.style)
        dt_banner_print(strcmp(r->o.log_style, "auto") == 0 ? stdout : stderr, r, s->folder.path);
    return DT_OK;
}

void dt_session_close(dt_session *s)
{
    if (!s->leads)
        return;
    dt_saver_close(s->saver);
    dt_report_close(&s->report);
    dt_rundir_close(&s->folder);
}

/* ---- What may fail while training goes on ---------------------------------------------- */

/* --on-save-error: the disk's failure ends the run, or is a warning. Numbers that are not finite
 * always end it. */
static dt_status disk_failed(const dt_run *r, dt_status st, const char *what)
{
    if (st == DT_OK || st == DT_NUMERIC || strcmp(r->o.on_save_error, "stop") == 0)
        return st;
    dt_warn("%s: %s; training goes on (--on-save-error continue)", what, dt_fail_text());
    dt_fail_clear();
    return DT_OK;
}

dt_status dt_session_line(const dt_run *r, dt_status st)
{
    return disk_failed(r, st, "a line of metrics.jsonl is lost");
}

dt_status dt_session_snapshot(dt_session *s, const dt_run *r, const dt_position *at,
                              dt_save_how how, dt_snapshot *out)
{
    *out = dt_run_snapshot(r);
    out->at = *at;
    out->best = how.best;
    out->proved = how.proved;
    dt_digest_text(dt_source_digest(r->source), out->data_digest);
    dt_bits_class(r, out->bits_class);
    return s->leads ? dt_report_records(&s->report, &out->at.metrics_bytes, &out->metrics_fd)
                    : DT_OK;
}

/* Of the write under way, or of the pruning after it. */
dt_status dt_session_settle(dt_session *s, const dt_run *r)
{
    return s->saver ? disk_failed(r, dt_saver_wait(s->saver), "saving a checkpoint") : DT_OK;
}

dt_status dt_session_save(dt_session *s, const dt_run *r, const dt_position *at, dt_save_how how)
{
    dt_snapshot snapshot;

    if (!s->leads)
        return DT_OK;
    dt_status st = dt_session_snapshot(s, r, at, how, &snapshot);
    if (st == DT_OK)
        st = dt_saver_save(s->saver, &snapshot);
    DT_TRY(disk_failed(r, st, "saving a checkpoint"));
    return how.wait ? dt_session_settle(s, r) : DT_OK;
}

/* ---- The end ------------------------------------------------------------------------------ */

dt_status dt_session_model(dt_session *s, const dt_run *r)
{
    const dt_weights state = dt_run_snapshot(r).model;
    const dt_model_file_opts opts =
        dt_model_says(&r->o, dt_source_describe(r->source), r->total_steps);
    char shown[PATH_MAX], why[2 * PATH_MAX];

    if (!s->leads)
        return DT_OK;
    const dt_target model = target_of(s, "model.safetensors", shown);
    const dt_status st = dt_model_put(&state, &model, &opts, NULL);
    if (st == DT_OK || !s->folder.last[0])
        return st;
    snprintf(why, sizeof why, "%s", dt_fail_text());
    dt_fail_clear();
    return dt_fail(st, "%s; the last checkpoint is %s", why, s->folder.last);
}

/* verify.c - dtrain verify: what can be said of files without training. */
#include "proof/proof.h"
#include "report/report.h"
#include "store/checkpoint_internal.h"
#include "tools.h"

typedef struct verdict {
    dt_status first; /* DT_OK: nothing is wrong so far */
    char text[2 * PATH_MAX];
    size_t things;
    dt_folder in;       /* what is looked at */
    bool run;           /* it is a run folder, not a checkpoint */
    dt_options options; /* what --resume would read, else the given ones; texts are in saved */
    dt_layer saved;
    char newest[PATH_MAX]; /* of what is right */
    int64_t step;          /* of newest; -1: none */
} verdict;

/* Report what is wrong, and continue; what the machine lacks says nothing about a file. */
static dt_status verdict_add(void *context, dt_status st)
{
    verdict *v = context;

    v->things++;
    if (st == DT_OK || st == DT_DECLINED)
        return DT_OK;
    if (st == DT_NOMEM || st == DT_BUG)
        return st;
    printf("bad  %s\n", dt_fail_text());
    if (v->first == DT_OK) {
        v->first = st;
        snprintf(v->text, sizeof v->text, "%s", dt_fail_text());
    }
    dt_fail_clear();
    return DT_OK;
}

/* What is right, and how far it is; of two with the same step the later call counts. */
static void verdict_newest(verdict *v, const char *path, int64_t step)
{
    if (step < v->step)
        return;
    v->step = step;
    snprintf(v->newest, sizeof v->newest, "%s", path);
}

static dt_status verify_options(verdict *v)
{
    char path[PATH_MAX];

    DT_TRY(dt_path_join(path, v->in.path, dt_checkpoint_file_name[DT_CHECKPOINT_OPTIONS]));
    if (!dt_path_exists(path))
        return DT_OK;
    const dt_status st = dt_options_load(&v->options, &v->saved, path);
    if (st != DT_OK)
        dt_options_init(&v->options);
    v->things--; /* they make no run by themselves */
    return verdict_add(v, st);
}

static dt_status verify_model(const dt_options *given, const char *path, int64_t *steps)
{
    dt_model_read r = {.net = NULL};
    dt_options o = *given;
    dt_model_meta meta;
    dt_status st = DT_OK;

    DT_GO(st, dt_options_read_model(&r, path, &o, &meta), out);
    DT_GO(st, dt_model_load(&r.state, path, NULL, true), out);
    printf("ok   %s: all numbers are finite and fit %s\n", DT_SHOWN(path), r.net->spec.net);
    *steps = meta.steps;

out:
    dt_model_read_close(&r);
    return st;
}

/* One of a run, newest first: the run would resume from the first that is right, and then reads
 * its own records up to there. */
static dt_status verify_checkpoint(void *context, const dt_checkpoint *c)
{
    verdict *v = context;
    const bool newest = v->run && v->step < 0;

    DT_TRY(dt_checkpoint_check(c, &v->options, NULL, NULL));
    printf("ok   %s: step %lld (%lld epochs and %lld steps), ", DT_SHOWN(c->in.path),
           (long long)c->at.run_step, (long long)c->at.epoch, (long long)c->at.step);
    if (c->manifest.portions > 0)
        printf("in %d portions\n", c->manifest.portions);
    else
        printf("state_hash %.32s\n", c->state_hash);
    if (newest) {
        verdict_newest(v, c->in.path, c->at.run_step);
        DT_TRY(dt_report_check(&(dt_report_setup){
            .reads = true,
            .folder = v->in.fd,
            .path = v->in.path,
            .keep_bytes = c->at.metrics_bytes}));
    }
    return DT_DECLINED; /* and on to the one before */
}

/* Of the same step as a checkpoint, the model is the run's newest state. */
static dt_status verify_run_model(verdict *v)
{
    char path[PATH_MAX];
    int64_t step = -1;

    DT_TRY(dt_path_join(path, v->in.path, dt_checkpoint_file_name[DT_CHECKPOINT_MODEL]));
    if (!dt_path_taken(path))
        return DT_OK;
    const dt_status st = verify_model(&v->options, path, &step);
    if (st == DT_OK)
        verdict_newest(v, path, step);
    return verdict_add(v, st);
}

/* Whether the records are those that the run's chain binds; an older run has no chain. */
static dt_status verify_chain(verdict *v)
{
    dt_proof chain;
    dt_status st = dt_proof_open(&chain, v->in.path);

    if (st == DT_OK)
        st = dt_proof_holds(&chain);
    dt_proof_close(&chain);
    if (st == DT_NOINPUT)
        dt_fail_clear();
    v->things--; /* it makes no run by itself */
    return verdict_add(v, st == DT_NOINPUT ? DT_OK : st);
}

static dt_status verify_folder(verdict *v)
{
    const dt_query all = {
        .end = INT64_MAX, .take = verify_checkpoint, .judge = verdict_add, .context = v};
    char found[PATH_MAX];

    v->run = !dt_checkpoint_is(&v->in);
    if (v->run)
        DT_TRY(verify_options(v));
    const dt_status st = dt_checkpoint_find(v->in.path, &all, found);
    if (st != DT_OK)
        DT_TRY(verdict_add(v, st));
    if (v->run)
        DT_TRY(verify_run_model(v));
    if (v->run)
        DT_TRY(verify_chain(v));
    if (v->first != DT_OK)
        return dt_fail(v->first, "%s", v->text);
    if (v->things == 0)
        return dt_fail(DT_NOINPUT,
                       "%s has neither a model nor a checkpoint: name a run folder, a checkpoint "
                       "or a model file",
                       v->in.path);
    if (v->run)
        dt_newest_note(v->in.path, v->newest, v->step);
    return DT_OK;
}

/* A model in pieces by itself; PyTorch's writer counts them from 1. */
static bool is_model(const dt_folder *f)
{
    char name[DT_PORTION_NAME];

    return (dt_folder_has(f->fd, dt_portion_name(0, name)) ||
            dt_folder_has(f->fd, dt_portion_name(1, name))) &&
           !dt_folder_has(f->fd, "MANIFEST");
}

dt_status dt_verify(const dt_options *o, const char *const *path, size_t count)
{
    verdict v = {.first = DT_OK, .options = *o, .step = -1};
    int64_t steps = 0;
    struct stat info;

    (void)count;
    memset(v.options.given, 0, sizeof v.options.given); /* what a file says goes before */
    if (stat(path[0], &info) != 0)
        return dt_fail(DT_NOINPUT, "%s: %s", path[0], strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return verify_model(&v.options, path[0], &steps);
    DT_TRY(dt_folder_open(&v.in, AT_FDCWD, "", path[0]));
    const dt_status st =
        is_model(&v.in) ? verify_model(&v.options, path[0], &steps) : verify_folder(&v);
    dt_layer_release(&v.saved);
    dt_folder_close(&v.in);
    return st;
}

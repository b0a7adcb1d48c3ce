/* verify.c - dtrain verify: what can be said of files without training. */
#include "checkpoint_internal.h"
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct verdict {
    dt_status first; /* DT_OK: nothing is wrong so far */
    char text[2 * PATH_MAX];
    size_t things;
    const dt_options *options; /* what --resume would read; NULL: there is nothing to read */
    char newest[PATH_MAX];     /* of what is right */
    int64_t step;              /* of newest; -1: none */
} verdict;

/* Report what is wrong, and continue; what the machine lacks says nothing about a file. */
static dt_status verdict_add(verdict *v, dt_status st)
{
    v->things++;
    if (st == DT_OK || st == DT_NOMEM || st == DT_BUG)
        return st;
    printf("bad  %s\n", dt_fail_text());
    if (v->first == DT_OK) {
        v->first = st;
        snprintf(v->text, sizeof v->text, "%s", dt_fail_text());
    }
    dt_fail_clear();
    return DT_OK;
}

static dt_status verify_options(verdict *v, const char *folder, const dt_options_reader *read)
{
    char path[PATH_MAX];

    DT_TRY(dt_path_join(path, folder, dt_checkpoint_file_name[DT_CHECKPOINT_OPTIONS]));
    if (!dt_path_exists(path))
        return DT_OK;
    const dt_status st = verdict_add(v, read->read(read->context, path, &v->options));
    v->things--; /* they make no run by themselves */
    return st;
}

static dt_status verify_model(const char *path)
{
    dt_safetensors *f = NULL;
    dt_model_meta meta;
    dt_model_read r = {.net = NULL};
    dt_options o;
    dt_status st = DT_OK;

    DT_TRY(dt_safetensors_open(&f, path));
    st = dt_finite_file(f, path);
    const bool named = dt_safetensors_metadata(f, "dtrain.net") != NULL;
    dt_safetensors_close(f);
    DT_TRY(st);
    if (!named) {
        printf("ok   %s: all numbers are finite; it names no network to fit\n", path);
        return DT_OK;
    }
    dt_options_init(&o);
    DT_GO(st, dt_options_read_model(&r, path, &o, &meta), out);
    DT_GO(st, dt_model_load(&r.state, path, NULL, true), out);
    printf("ok   %s: all numbers are finite and fit %s\n", path, dt_net_spec_of(r.net)->net);

out:
    dt_model_read_close(&r);
    return st;
}

/* One of a run, whose options are read; or (`in` is NULL) the path of one by itself, whose options
 * are read when it is known that all its files are there. */
static dt_status verify_checkpoint(verdict *v, const dt_folder *in, const char *name,
                                   const dt_options_reader *read, dt_progress *at)
{
    char hash[DT_DIGEST_CHARS];
    dt_checkpoint *c = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_checkpoint_open(&c, in, name));
    if (!in)
        DT_GO(st, verify_options(v, name, read), out);
    DT_GO(st, dt_checkpoint_check(c, v->options, at, hash), out);
    printf("ok   %s: step %lld (epoch %lld after %lld steps), state_hash %s\n", c->in.path,
           (long long)at->run_step, (long long)at->epoch + 1, (long long)at->step, hash);

out:
    dt_checkpoint_close(c);
    return st;
}

/* ---- A run folder -------------------------------------------------------------------------- */

/* The records up to the checkpoint, as a run that resumes from it looks at them. */
static dt_status verify_records(const dt_folder *run, int64_t bytes)
{
    return dt_report_check(
        &(dt_report_setup){.folder = run->fd, .path = run->path, .keep_bytes = bytes});
}

/* Newest first. Of a run that is on, one that is pruned meanwhile is not bad. */
static dt_status verify_list(verdict *v, const dt_folder *run, const dt_folder *in)
{
    dt_checkpoint_name *list = NULL;
    size_t count = 0;
    dt_status st = dt_checkpoint_list(in, &list, &count);

    if (st != DT_OK)
        return verdict_add(v, st);
    for (size_t i = count; i-- > 0;) {
        char path[PATH_MAX];
        dt_progress at;
        DT_GO(st, dt_path_join(path, in->path, list[i].text), out);
        dt_status one = verify_checkpoint(v, in, list[i].text, NULL, &at);
        if (one != DT_OK && !dt_folder_has(in->fd, list[i].text)) {
            dt_fail_clear();
            continue;
        }
        if (one == DT_OK && v->step < 0) { /* a run resumes from this one */
            v->step = at.run_step;
            memcpy(v->newest, path, sizeof path);
            one = verify_records(run, at.metrics_bytes);
        }
        DT_GO(st, verdict_add(v, one), out);
    }

out:
    free(list);
    return st;
}

static dt_status verify_checkpoints(verdict *v, const dt_folder *run)
{
    dt_folder in;
    const dt_status st = dt_checkpoints_open(&in, run->fd, run->path);

    if (st != DT_OK)
        return verdict_add(v, st);
    for (int look = 0; look < DT_CHECKPOINT_LOOKS && in.fd >= 0 && v->things == 0; look++) {
        const dt_status one = verify_list(v, run, &in);
        if (one != DT_OK) {
            dt_folder_close(&in);
            return one;
        }
    }
    dt_folder_close(&in);
    return DT_OK;
}

/* Of the same step as a checkpoint, the model is the run's newest state. */
static dt_status verify_run_model(verdict *v, const dt_folder *run)
{
    char path[PATH_MAX];
    int64_t step = -1;

    DT_TRY(dt_path_join(path, run->path, dt_checkpoint_file_name[DT_CHECKPOINT_MODEL]));
    if (!dt_path_taken(path))
        return DT_OK;
    dt_status st = verify_model(path);
    if (st == DT_OK)
        st = dt_model_read_steps(path, &step);
    if (st == DT_OK && step >= v->step) {
        v->step = step;
        memcpy(v->newest, path, sizeof path);
    }
    return verdict_add(v, st);
}

static dt_status verify_run(verdict *v, const dt_folder *run, const dt_options_reader *read)
{
    DT_TRY(verify_options(v, run->path, read));
    DT_TRY(verify_checkpoints(v, run));
    DT_TRY(verify_run_model(v, run));
    if (v->things == 0 && v->first == DT_OK)
        return dt_fail(DT_NOINPUT,
                       "%s has neither a model nor a checkpoint: name a run folder, a checkpoint "
                       "or a model file",
                       run->path);
    if (v->first == DT_OK)
        dt_newest_note(run->path, v->newest, v->step);
    return DT_OK;
}

dt_status dt_verify(const char *path, const dt_options_reader *read)
{
    verdict v = {.first = DT_OK, .step = -1};
    dt_folder in;
    dt_progress at;
    struct stat info;
    dt_status st = DT_OK;

    if (stat(path, &info) != 0)
        return dt_fail(DT_NOINPUT, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return verify_model(path);
    DT_TRY(dt_folder_open(&in, AT_FDCWD, "", path));
    if (dt_checkpoint_is(&in))
        DT_GO(st, verdict_add(&v, verify_checkpoint(&v, NULL, path, read, &at)), out);
    else
        DT_GO(st, verify_run(&v, &in, read), out);
    if (v.first != DT_OK)
        st = dt_fail(v.first, "%s", v.text);

out:
    dt_folder_close(&in);
    return st;
}

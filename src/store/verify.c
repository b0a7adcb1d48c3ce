/* verify.c - dtrain verify: what can be said of files without training. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_internal.h"
#include "store.h"

/* ---- One thing --------------------------------------------------------------------------- */

static dt_status verify_numbers(const char *path, bool *named)
{
    dt_safetensors *f = NULL;

    DT_TRY(dt_safetensors_open(&f, path));
    const dt_status st = dt_finite_file(f, path);
    *named = dt_safetensors_metadata(f, "dtrain.net") != NULL;
    dt_safetensors_close(f);
    return st;
}

/* *weights: their hash, "" where the file names no network. */
static dt_status verify_model(const char *path, char weights[DT_DIGEST_CHARS])
{
    dt_digest hash, all;
    dt_options o;
    dt_model_meta meta;
    dt_model_read r = {.net = NULL};
    bool named = false;
    dt_status st = DT_OK;

    weights[0] = '\0';
    DT_TRY(verify_numbers(path, &named));
    if (!named) {
        printf("ok   %s: all numbers are finite; it names no network to fit\n", path);
        return DT_OK;
    }
    dt_options_init(&o);
    DT_GO(st, dt_options_read_model(&r, path, &o, &meta), out);
    DT_GO(st, dt_model_load(&r.state, path, NULL), out);
    DT_GO(st, dt_state_hashes(&r.state, NULL, 0, 0, &hash, &all), out);
    dt_digest_text(hash, weights);
    printf("ok   %s: all numbers are finite and fit %s\n", path, dt_net_spec_of(r.net)->net);

out:
    dt_model_read_close(&r);
    return st;
}

static dt_status verify_checkpoint(const char *path, dt_progress *at)
{
    char hash[DT_DIGEST_CHARS];

    DT_TRY(dt_checkpoint_try(path, at, hash));
    printf("ok   %s: step %lld (epoch %lld after %lld steps), state_hash %s\n", path,
           (long long)at->run_step, (long long)at->epoch + 1, (long long)at->step, hash);
    return DT_OK;
}

/* ---- A run folder -------------------------------------------------------------------------- */

typedef struct verdict {
    dt_status first; /* DT_OK: nothing is wrong so far */
    char text[2 * PATH_MAX];
    size_t things;
    bool bare;             /* there are no records to count on, and that is said */
    char newest[PATH_MAX]; /* of what is right */
    int64_t step;          /* of newest; -1: none */
} verdict;

/* What the machine lacks says nothing about a file. */
static bool is_verdict(dt_status st)
{
    return st == DT_FORMAT || st == DT_IO || st == DT_NOINPUT || st == DT_UNSUPPORTED ||
           st == DT_CONFIG || st == DT_CANTCREATE;
}

/* Say what is wrong, and go on. */
static dt_status verdict_add(verdict *v, dt_status st)
{
    v->things++;
    if (st == DT_OK)
        return DT_OK;
    if (!is_verdict(st))
        return st;
    printf("bad  %s\n", dt_fail_text());
    if (v->first == DT_OK) {
        v->first = st;
        snprintf(v->text, sizeof v->text, "%s", dt_fail_text());
    }
    dt_fail_clear();
    return DT_OK;
}

/* Of what was verified and not of a second look: a run that is on has newer ones by then. */
static void verdict_newest(verdict *v, const char *path, int64_t step)
{
    snprintf(v->newest, sizeof v->newest, "%s", path);
    v->step = step;
}

/* Records that a checkpoint counts on, as a run that goes on from it looks at them. */
static dt_status verify_metrics(verdict *v, const char *run, const dt_progress *at)
{
    char path[PATH_MAX];
    int64_t bytes = at->metrics_bytes;

    if (v->bare)
        return DT_OK;
    DT_TRY(dt_path_join(path, run, "metrics.jsonl"));
    const dt_status st = dt_metrics_check(path, &bytes);
    v->bare = st != DT_OK || bytes < at->metrics_bytes;
    return st;
}

/* Of a run that is on, one that goes meanwhile is not bad: *gone. */
static dt_status verify_list(verdict *v, const char *run, const char *folder, bool *gone)
{
    dt_checkpoint_name *list = NULL;
    size_t count = 0;
    dt_status st = DT_OK;

    st = dt_checkpoint_list(folder, &list, &count);
    if (st != DT_OK)
        return verdict_add(v, st);
    for (size_t i = count; i-- > 0;) {
        char path[PATH_MAX];
        dt_progress at;
        DT_GO(st, dt_path_join(path, folder, list[i].text), out);
        dt_status one = verify_checkpoint(path, &at);
        if (one == DT_OK && v->step < 0) /* it is the one that a run goes on from */
            one = verify_metrics(v, run, &at);
        if (one != DT_OK && dt_checkpoint_gone(path)) {
            dt_fail_clear();
            *gone = true;
            continue;
        }
        if (one == DT_OK && list[i].step > v->step)
            verdict_newest(v, path, list[i].step);
        DT_GO(st, verdict_add(v, one), out);
    }

out:
    free(list);
    return st;
}

static dt_status verify_checkpoints(verdict *v, const char *run, const char *folder)
{
    bool gone = true;

    for (int look = 0; look < DT_CHECKPOINT_LOOKS && gone && v->things == 0; look++) {
        gone = false;
        DT_TRY(verify_list(v, run, folder, &gone));
    }
    return DT_OK;
}

/* What the records say of the run's end: steps -1, if nothing. A line that is no JSON is passed
 * over: of a run that is on, the last may be under way. */
typedef struct records_end {
    int64_t steps;
    char weights[DT_DIGEST_CHARS];
    int64_t step, lost; /* the last one, and steps that are missing between others */
} records_end;

static void records_line(records_end *end, const char *text)
{
    json_t *line = json_loads(text, 0, NULL);
    const char *kind = json_string_value(json_object_get(line, "kind"));
    const char *weights = json_string_value(json_object_get(line, "weights_hash"));

    if (kind && strcmp(kind, "end") == 0 && weights) {
        end->steps = json_integer_value(json_object_get(line, "steps"));
        snprintf(end->weights, sizeof end->weights, "%s", weights);
    }
    if (kind && strcmp(kind, "step") == 0) {
        const int64_t step = json_integer_value(json_object_get(line, "step"));
        end->lost += end->step >= 0 && step > end->step + 1 ? step - end->step - 1 : 0;
        end->step = step;
    }
    json_decref(line);
}

/* A longer line than a run writes is none of its records: what a power cut leaves at the end, as
 * long as it is no more than was on its way to the disk. */
static dt_status records_lines(records_end *end, FILE *f, const char *path)
{
    enum { LONGEST = 64 << 20 };
    char line[DT_METRICS_LINE];
    size_t used = 0;
    int c = 0;

    while (c != EOF) {
        c = getc(f);
        if (c != EOF && c != '\n') {
            if (used < sizeof line)
                line[used] = (char)c;
            if (++used > LONGEST)
                return dt_fail(DT_FORMAT,
                               "%s: more than %d MiB without a line's end: it is no "
                               "run's records; move the file away",
                               path, LONGEST >> 20);
            continue;
        }
        if (used < sizeof line && !ferror(f)) {
            line[used] = '\0';
            records_line(end, line);
        }
        used = 0;
    }
    return ferror(f) ? dt_fail(DT_IO, "reading %s: %s", path, strerror(errno)) : DT_OK;
}

static dt_status records_read(const char *run, bool bare, records_end *end)
{
    char path[PATH_MAX];
    struct stat info;
    dt_status st = DT_OK;

    *end = (records_end){.steps = -1, .step = -1};
    if (bare)
        return DT_OK;
    DT_TRY(dt_path_join(path, run, "metrics.jsonl"));
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return DT_OK; /* whether it should be there, a checkpoint knows */
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f || fstat(fd, &info) != 0)
        st = dt_fail(DT_IO, "%s: %s", path, strerror(errno));
    else
        st = S_ISREG(info.st_mode) ? records_lines(end, f, path)
                                   : dt_fail(DT_FORMAT, "%s is no regular file", path);
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    if (st == DT_OK && end->lost > 0)
        dt_warn("%s lacks the lines of %lld steps between others", path, (long long)end->lost);
    return st;
}

/* The model that the run ended with is the one that its last record tells of. */
static dt_status verify_end(const records_end *end, const char *path, int64_t steps,
                            const char *weights)
{
    if (!weights[0] || end->steps != steps || strcmp(end->weights, weights) == 0)
        return DT_OK;
    return dt_fail(DT_FORMAT,
                   "%s: its weights have the hash %s, but the run ended after the same "
                   "%lld steps with %s, as metrics.jsonl says: it is another model",
                   path, weights, (long long)steps, end->weights);
}

/* Of the same step as a checkpoint, the model is the run's newest state. */
static dt_status verify_run_model(verdict *v, const char *run)
{
    char path[PATH_MAX], weights[DT_DIGEST_CHARS];
    int64_t step = -1;
    records_end end;

    dt_status st = records_read(run, v->bare, &end);
    if (st != DT_OK)
        DT_TRY(verdict_add(v, st));
    DT_TRY(dt_path_join(path, run, dt_checkpoint_file_name[DT_CHECKPOINT_MODEL]));
    if (!dt_path_taken(path))
        return DT_OK;
    if (!dt_path_exists(path))
        return verdict_add(
            v, dt_fail(DT_NOINPUT, "%s is a link, and what it leads to is missing", path));
    st = verify_model(path, weights);
    if (st == DT_OK)
        st = dt_model_read_steps(path, &step);
    if (st == DT_OK)
        st = verify_end(&end, path, step, weights);
    if (st == DT_OK && step >= v->step)
        verdict_newest(v, path, step);
    return verdict_add(v, st);
}

static dt_status verify_options(verdict *v, const char *run, dt_status (*options)(const char *path))
{
    char path[PATH_MAX];

    DT_TRY(dt_path_join(path, run, dt_checkpoint_file_name[DT_CHECKPOINT_OPTIONS]));
    return dt_path_exists(path) ? verdict_add(v, options(path)) : DT_OK;
}

static dt_status verify_run(const char *run, dt_status (*options)(const char *path))
{
    verdict v = {.first = DT_OK, .step = -1};
    char path[PATH_MAX];

    DT_TRY(dt_path_join(path, run, "checkpoints"));
    DT_TRY(verify_checkpoints(&v, run, path));
    DT_TRY(verify_run_model(&v, run));
    if (v.things == 0)
        return dt_fail(DT_NOINPUT,
                       "%s has neither a model nor a folder 'checkpoints': name a "
                       "run folder, a checkpoint or a model file",
                       run);
    DT_TRY(verify_options(&v, run, options));
    if (v.first != DT_OK)
        return dt_fail(v.first, "%s", v.text);
    dt_newest_note(run, v.newest, v.step);
    return DT_OK;
}

dt_status dt_verify(const char *path, dt_status (*options)(const char *path))
{
    char file[PATH_MAX], weights[DT_DIGEST_CHARS];
    dt_checkpoint_name name;
    dt_progress at;
    struct stat info;

    if (stat(path, &info) != 0)
        return dt_fail(DT_NOINPUT, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return verify_model(path, weights);
    DT_TRY(dt_path_join(file, path, "MANIFEST"));
    if (dt_path_exists(file) || dt_checkpoint_name_of(path, &name))
        return verify_checkpoint(path, &at);
    return verify_run(path, options);
}

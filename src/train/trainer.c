/* trainer.c - the training loop: epochs of steps, a test after each, checkpoints between, and
 * at the end the model, its hashes and the last record. Every rank runs it; rank 0 writes and
 * prints. */
#include <ctype.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"
#include "session.h"
#include "signals.h"
#include "watched.h"

typedef struct training {
    dt_run *run;
    dt_session session;
    dt_watch *watch;
    dt_straggler straggler;
    dt_progress at;
    int64_t save_steps;  /* --save-every as steps, or 0 */
    double save_s;       /* or as seconds, or 0 */
    double saved_s;      /* clock at the last checkpoint; rank 0's counts */
    char from[PATH_MAX]; /* the checkpoint that the run goes on from, "": none */
    int64_t from_step;
    int64_t first_save; /* the steps of the first checkpoint since, 0: none */
    bool other_class;   /* of bits, than that of `from` */
} training;

/* ---- Checkpoints --------------------------------------------------------------------------- */

static bool saves(const training *t)
{
    return t->save_steps > 0 || t->save_s > 0;
}

/* Every rank comes here at the same step; a failure of rank 0's disk is told to all. */
static dt_status save(training *t, dt_save_how how)
{
    dt_run *r = t->run;

    dt_place_phase(DT_AT_save);
    DT_TRY(dt_checks_replicas(r->checks)); /* what is wrong must not outlive the run */
    t->saved_s = dt_seconds();
    t->first_save = t->first_save ? t->first_save : t->at.run_step;
    return dt_comm_agree(r->comm, dt_session_save(&t->session, r, &t->at, how));
}

/* The clock is rank 0's; what it asks for, the next step tells the others. */
static bool save_asked(const training *t)
{
    const bool due = t->save_s > 0 && t->session.leads && dt_seconds() - t->saved_s > t->save_s;

    return dt_signals_save() || due;
}

/* Stopped from outside: the run is whole on the disk, and says how to go on. */
static dt_status preempted(training *t)
{
    char text[PATH_MAX] = "";
    dt_run *r = t->run;
    const char *why = dt_signals_name(r->stop.signal);
    char run[PATH_MAX];

    dt_place_behind(t->at.run_step);
    DT_TRY(save(t, (dt_save_how){.wait = true}));
    if (t->session.leads) {
        snprintf(text, sizeof text, "%s", dt_saver_last(t->session.saver));
        dt_log_shown(text, sizeof text); /* alike on all ranks */
    }
    DT_TRY(dt_comm_bcast(r->comm, text, sizeof text, 0));
    if (!text[0])
        return dt_comm_agree(r->comm, dt_fail(DT_IO,
                                              "stopped by %s after step %lld, and no "
                                              "checkpoint could be written",
                                              why, (long long)t->at.run_step));
    snprintf(run, sizeof run, "%s", text);
    const char *folder = dirname(dirname(run)); /* RUN/checkpoints/step-N */
    return dt_comm_agree(r->comm, dt_fail(DT_PREEMPTED,
                                          "stopped by %s after step %lld of %lld; "
                                          "checkpoint %s; to go on, start it again with --out %s "
                                          "--resume auto",
                                          why, (long long)t->at.run_step, (long long)r->total_steps,
                                          text, folder));
}

/* ---- Epochs ---------------------------------------------------------------------------- */

/* A disk failure under metrics.jsonl that ends the run is rank 0's alone: main tells. */
static dt_status train_step(training *t)
{
    dt_run *r = t->run;
    dt_progress *at = &t->at;
    const double began = dt_seconds();
    dt_step_result result;

    DT_TRY(dt_run_step(r, at->epoch, at->step, save_asked(t), &result));
    if (result.undone)
        return preempted(t);
    DT_TRY(dt_comm_log_step(r->comm, at->run_step + 1));
    dt_watched_step(&t->straggler, t->watch, r);
    at->step++;
    at->run_step++;
    at->loss_sum += result.loss * (double)result.images;
    at->images += result.images;
    DT_TRY(dt_session_step(&t->session, r,
                           &(dt_step_record){.epoch = at->epoch + 1,
                                             .step = at->step,
                                             .run_step = at->run_step,
                                             .loss = result.loss,
                                             .lr = result.lr,
                                             .images = result.images,
                                             .seconds = dt_seconds() - began}));
    if (result.stop)
        return preempted(t);
    if (result.save || (t->save_steps > 0 && at->run_step % t->save_steps == 0))
        return save(t, (dt_save_how){.wait = false});
    return DT_OK;
}

/* Training goes on with any weights; what it makes of them shows here, alike on all ranks. */
static dt_status test_finite(training *t, dt_test_result *test)
{
    dt_run *r = t->run;

    DT_TRY(dt_run_test(r, test));
    if (test->undone) /* a run that goes on from here begins with it */
        return preempted(t);
    if (isfinite(test->loss))
        return DT_OK;
    DT_TRY(dt_checks_now(r->checks));
    return dt_comm_agree(r->comm, dt_fail(DT_NUMERIC,
                                          "epoch %lld: after step %lld the test loss "
                                          "is %g; lower --lr or use --warmup",
                                          (long long)t->at.epoch + 1, (long long)t->at.run_step,
                                          test->loss));
}

/* The run ends in mid-epoch, where a longer one would go on without a test: the last
 * checkpoint is of before it. */
static dt_status save_place(training *t)
{
    if (!saves(t) || t->at.step == t->run->steps_per_epoch)
        return DT_OK;
    return save(t, (dt_save_how){.proved = true, .wait = true});
}

static dt_status end_epoch(training *t, double seconds)
{
    dt_run *r = t->run;
    dt_progress *at = &t->at;
    dt_test_result test;

    dt_watched_epoch(&t->straggler, r);
    dt_log_own("epoch %lld ends with step %lld: waited %.1f s for other ranks so far",
               (long long)at->epoch + 1, (long long)at->run_step, dt_place_waited());
    DT_TRY(test_finite(t, &test));
    DT_TRY(dt_comm_log_step(r->comm, at->run_step));
    DT_TRY(save_place(t));
    DT_TRY(dt_session_epoch(&t->session, r,
                            &(dt_epoch_record){.epoch = at->epoch + 1,
                                               .train_loss = at->loss_sum / (double)at->images,
                                               .test_loss = test.loss,
                                               .correct = test.correct,
                                               .test_images = test.images,
                                               .images = at->images,
                                               .seconds = seconds}));
    /* Of a run that ends in mid-epoch: the epoch is not over, save_place has its place. */
    const bool best = at->step == r->steps_per_epoch && test.accuracy > at->best_accuracy;
    if (best) {
        at->best_accuracy = test.accuracy;
        at->best_epoch = at->epoch;
    }
    at->epoch++;
    at->step = at->images = 0;
    at->loss_sum = 0;
    /* Not proved yet: the next step's loss may fail where the test's did not. */
    return best && r->o.keep_best ? save(t, (dt_save_how){.best = true}) : DT_OK;
}

/* A run resumed behind an epoch's last step begins with its test. */
static dt_status train_epochs(training *t)
{
    const dt_run *r = t->run;

    DT_TRY(dt_comm_log_step(r->comm, t->at.run_step)); /* of the set-up */
    while (t->at.run_step < r->total_steps || t->at.step > 0) {
        const double start = dt_seconds();
        while (t->at.step < r->steps_per_epoch && t->at.run_step < r->total_steps)
            DT_TRY(train_step(t));
        DT_TRY(end_epoch(t, dt_seconds() - start));
    }
    return DT_OK;
}

/* ---- The end ------------------------------------------------------------------------------ */

/* The loss of a step is looked at before its update: the last update has no later loss. */
static dt_status check_finite(const training *t)
{
    const dt_weights state = dt_run_weights(t->run);
    return dt_finite_state(&state, t->run->momentum.mem, t->at.run_step);
}

/* The newest checkpoint of fewer than `step` steps, newer ones put aside: "" for none. */
static void disown(const training *t, int64_t step, char proved[PATH_MAX])
{
    if (dt_saver_disown(t->session.saver, step, proved) == DT_OK)
        return;
    dt_warn("%s", dt_fail_text());
    dt_fail_clear();
}

/* The one before that which the run has gone on from, without another good one since: its finite
 * loss may have been the last, whatever the options. */
static const char *otherwise(const training *t, char text[PATH_MAX + 64])
{
    char run[PATH_MAX], older[PATH_MAX] = "";

    if (dt_checkpoint_run(t->from, run) != DT_OK ||
        (run[0] && dt_checkpoint_older(run, t->from_step, older) != DT_OK))
        dt_fail_clear();
    snprintf(text, PATH_MAX + 64, "; if it does so with them, %s%s",
             older[0] ? "--resume " : "begin anew", older);
    return text;
}

/* What a run that has gone astray still has: a checkpoint of its last step has finite numbers,
 * but would end it again at once; those before have been gone on from. So would perhaps one that
 * this run has gone on from, and that led here in its first step: those before it are better. */
static void name_last_good(training *t)
{
    dt_session *s = &t->session;
    char proved[PATH_MAX] = "", text[PATH_MAX + 64];

    if (!s->leads)
        return;
    const bool at_once = t->from[0] && t->at.run_step <= t->from_step + 1;
    const bool maybe = at_once && t->at.run_step > t->from_step;
    if (dt_session_settle(s, t->run) != DT_OK) /* the write under way; the cause is said */
        dt_fail_clear();
    disown(t, at_once ? t->from_step : t->at.run_step, proved);
    const bool before = proved[0] || !maybe;
    if (!before)
        disown(t, t->at.run_step, proved);
    if (!proved[0] && t->from_step < t->at.run_step)
        memcpy(proved, t->from, sizeof proved);
    const bool no_other = t->from[0] && (t->first_save == 0 || t->first_save >= t->at.run_step) &&
                          (!at_once || !before);
    const char *last = dt_saver_last(s->saver)[0] ? dt_saver_last(s->saver) : t->from;
    const char *which = !before ? "that gave a finite loss too, but went astray a step later"
                        : maybe ? "before the one that went astray in its first step"
                                : "that gave a finite loss too";
    if (proved[0])
        dt_note("dtrain: the last checkpoint %s: --resume %s, and --resume-force with the options "
                "that you change%s",
                which, proved, no_other ? otherwise(t, text) : "");
    else if (last[0])
        dt_note("dtrain: the last checkpoint %s has finite numbers alone, but leads there, and "
                "none before it is left: begin anew",
                last);
    else
        dt_note("dtrain: no checkpoint was saved before");
}

static dt_status hashes(const dt_run *r, dt_end_record *end)
{
    const dt_weights state = dt_run_weights(r);
    const int64_t epochs = r->total_steps / r->steps_per_epoch;
    dt_digest weights, all;

    DT_TRY(dt_state_hashes(&state, r->momentum.mem, epochs,
                           r->total_steps - epochs * r->steps_per_epoch, &weights, &all));
    dt_digest_text(weights, end->weights_hash);
    dt_digest_text(all, end->state_hash);
    return DT_OK;
}

/* Every rank holds the weights: that they are the same ones is checked before they are
 * called the result. */
static dt_status finish(training *t, double seconds, dt_end_record *end)
{
    dt_run *r = t->run;
    dt_session *s = &t->session;

    dt_place_phase(DT_AT_end);
    *end = (dt_end_record){.steps = r->total_steps, .seconds = seconds, .folder = s->folder.path};
    DT_TRY(dt_checks_now(r->checks)); /* names what the hashes below could only show */
    DT_TRY(dt_comm_agree(r->comm, check_finite(t)));
    DT_TRY(dt_comm_agree(r->comm, hashes(r, end)));
    const dt_field field[] = {{"weights at the end", end->weights_hash},
                              {"state at the end", end->state_hash}};
    DT_TRY(dt_comm_same(r->comm, field, 2));
    if (saves(t) && r->total_steps % r->steps_per_epoch == 0)
        DT_TRY(save(t, (dt_save_how){.proved = true, .wait = true}));
    DT_TRY(dt_comm_agree(r->comm, dt_session_settle(s, r))); /* one that SIGHUP asked for */
    DT_TRY(dt_comm_agree(r->comm, dt_session_model(s, r)));
    end->ok = true;
    return dt_comm_agree(r->comm, dt_session_end(s, r, end));
}

/* ---- The beginning ---------------------------------------------------------------------- */

/* A run that is refused has its last words, too: log styles promise them. */
static void report_refused(dt_comm *c, const dt_options *o)
{
    dt_report report;

    if (dt_comm_rank(c) != 0 ||
        dt_report_open(&report, o->log_style, &(dt_report_setup){.out = stdout}) != DT_OK)
        return;
    (void)!dt_report_end(&report, &(dt_end_record){.ok = false});
    dt_report_close(&report);
}

/* Whether this run passes through the checkpoint's place. */
static dt_status check_place(const dt_run *r, const char *path, const dt_progress *at)
{
    const int64_t steps = r->steps_per_epoch;

    if (at->run_step > r->total_steps)
        return dt_fail(DT_CONFIG,
                       "checkpoint %s is %lld steps into the run, but this one has "
                       "%lld; raise --epochs or --max-steps",
                       path, (long long)at->run_step, (long long)r->total_steps);
    if (at->step > steps || at->epoch > at->run_step / steps ||
        at->epoch * steps + at->step != at->run_step)
        return dt_fail(DT_CONFIG,
                       "checkpoint %s was saved after %lld steps, at epoch %lld step "
                       "%lld: its epochs do not have %lld steps like those of this run; take "
                       "its weights alone, with --init, or its own --global-batch and --subset",
                       path, (long long)at->run_step, (long long)at->epoch + 1,
                       (long long)at->step + 1, (long long)steps);
    return DT_OK;
}

/* The state of the checkpoint that the run goes on from; of another run that is still on, it
 * may be pruned while it is read: then the next. */
static dt_status load_newest(training *t, char path[PATH_MAX])
{
    dt_run *r = t->run;
    const dt_snapshot into = {
        .model = dt_run_weights(r), .momentum = r->momentum.mem, .options = &r->o};

    for (int look = 1;; look++) {
        dt_checkpoint *c = NULL;
        dt_status st = dt_resume_find(r, t->session.folder.at, path, &c, &t->other_class);
        if (st == DT_OK && c)
            st = dt_checkpoint_load(c, &into, &t->at);
        dt_checkpoint_close(c);
        if (st == DT_OK || !path[0] || look == DT_CHECKPOINT_LOOKS || !dt_checkpoint_gone(path))
            return st;
        dt_fail_clear();
    }
}

/* On rank 0: the folder, and where the run begins in it. */
static dt_status restore(training *t, char path[PATH_MAX])
{
    const dt_run *r = t->run;

    DT_TRY(dt_session_take(&t->session, t->run));
    DT_TRY(load_newest(t, path));
    if (!path[0])
        return DT_OK;
    DT_TRY(check_place(r, path, &t->at));
    if (!t->session.folder.resumed)
        t->at.metrics_bytes = 0; /* the lines before stay in the other folder */
    dt_note("resumed from %s at epoch %lld step %lld", path, (long long)t->at.epoch + 1,
            (long long)t->at.step + 1);
    return DT_OK;
}

/* Rank 0 reads and sends: the other nodes need not see its disk. A run that is gone on with
 * does not need the model file that it once began with. */
static dt_status begin(training *t)
{
    dt_run *r = t->run;
    char path[PATH_MAX] = "";
    const bool leads = dt_comm_rank(r->comm) == 0, resumes = strcmp(r->o.resume, "never") != 0;

    dt_signals_defer(); /* and all ranks have, before rank 0 writes anything */
    DT_TRY(
        dt_comm_agree(r->comm, dt_save_every_parse(r->o.save_every, &t->save_steps, &t->save_s)));
    t->at = (dt_progress){.best_accuracy = -1, .best_epoch = -1};
    DT_TRY(dt_comm_agree(r->comm, leads ? restore(t, path) : DT_OK));
    if (resumes)
        DT_TRY(dt_comm_bcast(r->comm, path, sizeof path, 0));
    if (r->o.init[0] && !path[0]) {
        char model[PATH_MAX];
        DT_TRY(dt_run_newest(r->comm, r->o.init, model));
        DT_TRY(dt_run_load(r, r->o.init, model, r->o.init_head));
    }
    if (r->o.broadcast || resumes) {
        DT_TRY(dt_comm_bcast(r->comm, &t->at, sizeof t->at, 0));
        DT_TRY(dt_run_broadcast(r));
    }
    t->saved_s = dt_seconds();
    memcpy(t->from, path, sizeof t->from);
    t->from_step = t->at.run_step;
    DT_TRY(dt_comm_agree(r->comm, leads ? dt_session_begin(&t->session, r, &t->at, path) : DT_OK));
    dt_watch_close(t->watch, 0); /* all at once: behind an agreement */
    t->watch = NULL;
    if (leads && path[0]) /* nothing refuses it any more */
        dt_resume_warn(r, t->other_class);
    DT_TRY(dt_watched_open(&t->watch, r, leads ? t->session.folder.at : NULL));
    dt_place_behind(t->at.run_step);
    return DT_OK;
}

/* A log in the run's folder must not stand where the run's own files come; of what is there
 * already, opening it tells. */
static dt_status refuse_log(const char *option, const char *path)
{
    static const char *const own[] = {"options.yaml", "metrics.jsonl", "model.safetensors",
                                      "checkpoints",  "progress",      "lock"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    for (size_t i = 0; i < DT_COUNT_OF(own); i++)
        if (strcmp(name, own[i]) == 0 && !dt_path_taken(path))
            return dt_fail(DT_CANTCREATE, "%s %s: a run has its own %s; choose another name",
                           option, path, name);
    return DT_OK;
}

static dt_status refuse_options(const dt_options *o)
{
    if (o->comm_log[0] && strcmp(o->comm_log, o->out) == 0)
        return dt_fail(DT_CANTCREATE, "--comm-log %s: --out is the run's folder; name a file",
                       o->comm_log);
    DT_TRY(refuse_log("--comm-log", o->comm_log));
    if (strcmp(o->exchange, "all") == 0 || strcmp(o->exchange, "none") == 0)
        return dt_fail(DT_CONFIG, "--exchange %s is for dtrain bench; choose from: auto%s",
                       o->exchange, DT_EXCHANGE_TRAINS_LIST(DT_WORD));
    if (strcmp(o->resume, "auto") == 0 && !o->out[0])
        return dt_fail(DT_CONFIG, "--resume auto needs --out DIR, the folder of the run");
    return DT_OK;
}

dt_status dt_train(dt_comm *c, const dt_options *o)
{
    dt_run r;
    training t = {.run = &r};
    dt_end_record end = {.ok = false};
    dt_status st = dt_comm_agree(c, refuse_options(o));

    if (o->model[0])
        dt_warn("--model is for eval; to start from a model file give --init");
    if (o->keep_every > 0 && strcmp(o->save_every, "0") == 0)
        dt_warn("--keep-every %lld keeps nothing: --save-every 0 saves at no step; give that, too",
                (long long)o->keep_every);
    if (st == DT_OK)
        st = dt_watched_setup(&t.watch, c, o);
    if (st == DT_OK)
        st = dt_run_open(&r, c, o, DT_FOR_TRAINING);
    if (st != DT_OK) {
        dt_watch_close(t.watch, dt_status_exit_code(st));
        report_refused(c, o);
        return st;
    }
    const double start = dt_seconds();
    if (o->comm_log[0])
        DT_GO(st, dt_comm_log_open(c, o->comm_log), out);
    st = begin(&t);
    if (st != DT_OK) {
        report_refused(c, o);
        goto out;
    }
    st = train_epochs(&t);
    if (st == DT_OK)
        st = finish(&t, dt_seconds() - start, &end);
    if (st == DT_NUMERIC)
        name_last_good(&t);
    if (t.session.leads && !end.ok)
        (void)!dt_report_end(&t.session.report, &end);

out:
    dt_watch_close(t.watch, dt_status_exit_code(st));
    dt_straggler_release(&t.straggler);
    dt_session_close(&t.session);
    dt_comm_log_close(c);
    dt_run_close(&r);
    return st;
}

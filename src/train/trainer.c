/* trainer.c - the training loop: epochs of steps, a test after each, checkpoints between, and
 * at the end the model, its hashes and the last record. Every rank runs it; rank 0 writes and
 * prints. */

#include "session.h"
#include "signals.h"

enum { FIRST_STEPS = 3 }; /* take longer: memory is new, and connections are */

typedef struct training {
    dt_run *run;
    dt_session session;
    void *observed[DT_OBSERVERS]; /* states of its observers */
    dt_position at;
    int64_t save_steps;  /* --save-every as steps, or 0 */
    double save_s;       /* or as seconds, or 0 */
    bool save_epochs;    /* --keep-every epoch */
    double steps_s;      /* in the steps after the first few of this start */
    int64_t steps;       /* these */
    double start;        /* clock when it began */
    double saved_s;      /* clock at the last checkpoint; rank 0's counts */
    char from[PATH_MAX]; /* the checkpoint that the run is resumed from, "": none */
    int64_t from_step;
    bool whole; /* it was complete already */
} training;

static dt_status mark(training *t, dt_mark when)
{
    dt_status st = DT_OK;

    DT_OBSERVE_OPEN(st, t->observed, mark, t->run, when, &t->session.report, &t->at);
    return st;
}

/* ---- Checkpoints --------------------------------------------------------------------------- */

static bool saves(const training *t)
{
    return t->save_steps > 0 || t->save_s > 0 || t->save_epochs;
}

/* Every rank comes here at the same step; a failure of rank 0's disk is agreed on. */
static dt_status save(training *t, dt_save_how how)
{
    dt_run *r = t->run;

    dt_activity_phase(DT_AT_save);
    DT_OBSERVE_TRY(r->observed, check, DT_CHECK_SAVE);
    t->saved_s = dt_seconds();
    if (r->o.save_shards)
        return dt_session_pieces->save(&t->session, r, &t->at, how);
    DT_TRY(dt_grid_collect(r));
    return dt_comm_agree(r->comm, dt_session_save(&t->session, r, &t->at, how));
}

/* The clock is rank 0's; the next step passes its request on to the others. */
static bool save_asked(const training *t)
{
    const bool due = t->save_s > 0 && t->session.leads && dt_seconds() - t->saved_s > t->save_s;

    return dt_signals_save() || due;
}

/* A rank was asked to stop, and all know it: the run is whole on the disk, and the message says how
 * to resume it. */
static dt_status preempted(training *t)
{
    const dt_session *s = &t->session;
    char text[2 * PATH_MAX] = "";
    dt_run *r = t->run;
    int64_t signal = dt_signals_stop();
    dt_status st = DT_PREEMPTED;

    DT_TRY(dt_comm_max_i64(r->comm, &signal, 1));
    dt_activity_behind(t->at.run_step);
    DT_TRY(save(t, (dt_save_how){.wait = true}));
    DT_OBSERVE_TRY(t->observed, between, t->at.run_step - t->from_step, true);
    if (s->leads && s->folder.last[0])
        snprintf(text, sizeof text,
                 "checkpoint %s; to resume, start it again with --out %s --resume auto",
                 s->folder.last, s->folder.path);
    DT_TRY(dt_comm_bcast(r->comm, text, sizeof text, 0));
    if (!text[0]) {
        snprintf(text, sizeof text, "no checkpoint could be written");
        st = DT_IO;
    }
    return dt_comm_agree(r->comm, dt_fail(st, "stopped by %s after step %lld of %lld; %s",
                                          dt_signals_name((int)signal), (long long)t->at.run_step,
                                          (long long)r->total_steps, text));
}

/* ---- Epochs ---------------------------------------------------------------------------- */

/* A disk failure under metrics.jsonl that ends the run is rank 0's alone: main reports it. */
static dt_status train_step(training *t)
{
    dt_run *r = t->run;
    dt_position *at = &t->at;
    const double began = dt_seconds();
    dt_step_result result;

    DT_TRY(dt_run_step(r, at->epoch, at->step, save_asked(t), &result));
    at->step++;
    at->run_step++;
    if (at->run_step - t->from_step > FIRST_STEPS) {
        t->steps_s += dt_seconds() - began;
        t->steps++;
    }
    at->loss_sum += result.record.loss * (double)result.record.images;
    at->images += result.record.images;
    result.record.seconds = dt_seconds() - began;
    result.record.time = dt_time();
    DT_TRY(dt_session_line(r, dt_report_step(&t->session.report, &result.record)));
    DT_TRY(mark(t, DT_MARK_STEP));
    if (result.stop)
        return preempted(t);
    if (result.save || (t->save_steps > 0 && at->run_step % t->save_steps == 0) ||
        (t->save_epochs && at->step == r->steps_per_epoch))
        return save(t, (dt_save_how){.wait = false});
    return DT_OK;
}

/* The last update of an epoch has no later loss than the test's, which is alike on all ranks. */
static dt_status test_finite(training *t, dt_test_result *test)
{
    dt_run *r = t->run;

    DT_TRY(dt_run_test(r, t->session.leads ? &t->session.report : NULL, test));
    if (test->stop) /* the resumed run begins with the test */
        return preempted(t);
    if (isfinite(test->loss))
        return DT_OK;
    DT_TRY(dt_grid_turned(r));
    DT_OBSERVE_TRY(r->observed, check, DT_CHECK_END);
    return dt_comm_agree(r->comm, dt_fail(DT_NUMERIC,
                                          "epoch %lld: after step %lld the test loss "
                                          "is %g; lower --lr or use --warmup",
                                          (long long)t->at.epoch + 1, (long long)t->at.run_step,
                                          test->loss));
}

static dt_status end_epoch(training *t, double seconds)
{
    dt_run *r = t->run;
    dt_position *at = &t->at;
    dt_test_result test;

    dt_log_own("epoch %lld ends with step %lld: waited %.1f s for other ranks so far",
               (long long)at->epoch + 1, (long long)at->run_step,
               dt_record_seconds(DT_LANE_WAIT, 0, 1));
    DT_TRY(test_finite(t, &test));
    /* Where the run ends in mid-epoch, a longer one would continue without a test: the last
     * checkpoint is of before it. */
    if (saves(t) && at->step < r->steps_per_epoch)
        DT_TRY(save(t, (dt_save_how){.proved = true, .wait = true}));
    const dt_epoch_record record = {.epoch = at->epoch + 1,
                                    .train_loss = at->loss_sum / (double)at->images,
                                    .test = test,
                                    .held_out = r->o.holdout > 0,
                                    .classes = r->net->spec.classes,
                                    .seconds = seconds,
                                    .time = dt_time()};
    DT_TRY(dt_session_line(r, dt_report_epoch(&t->session.report, &record)));
    /* Not of an epoch that the run's end cuts short: its place has been saved. */
    DT_TRY(mark(t, DT_MARK_EPOCH));
    const bool best = at->step == r->steps_per_epoch && test.accuracy > at->best_accuracy;
    if (best) {
        at->best_accuracy = test.accuracy;
        at->best_epoch = at->epoch;
    }
    at->epoch++;
    at->step = at->images = 0;
    at->loss_sum = 0;
    /* Not proved yet: the next step's loss may be infinite where the test's was not. */
    return best && r->o.keep_best ? save(t, (dt_save_how){.best = true}) : DT_OK;
}

/* A run that is resumed after an epoch's last step begins with its test. */
static dt_status train_epochs(training *t)
{
    const dt_run *r = t->run;

    while (t->at.run_step < r->total_steps || t->at.step > 0) {
        const double start = dt_seconds(), before = dt_record_seconds(DT_LANE_WAIT, 0, 1);
        while (t->at.step < r->steps_per_epoch && t->at.run_step < r->total_steps) {
            DT_OBSERVE_TRY(t->observed, between, t->at.run_step - t->from_step, false);
            DT_TRY(train_step(t));
        }
        const double seconds = dt_seconds() - start;
        const double waited = dt_record_seconds(DT_LANE_WAIT, 0, 1) - before;
        DT_OBSERVE_TRY(t->observed, epoch, r->comm, waited, seconds);
        DT_TRY(end_epoch(t, seconds));
    }
    DT_OBSERVE_TRY(t->observed, between, t->at.run_step - t->from_step, true);
    return DT_OK;
}

/* ---- The end ------------------------------------------------------------------------------ */

/* Names the checkpoint to resume from after a divergence. One of the last step has finite numbers,
 * but gives a loss that is not: an older one gave a finite loss, too. */
static void name_last_good(training *t)
{
    dt_session *s = &t->session;
    /* Into the run's own arrays, which a divergence has made worthless. */
    dt_snapshot into = dt_run_snapshot(t->run);
    const dt_query valid = {.end = t->at.run_step, .into = &into};
    char good[PATH_MAX] = "";

    if (!s->leads)
        return;
    if (dt_session_settle(s, t->run) != DT_OK || /* the write under way; the cause is reported */
        dt_checkpoint_newest(s->folder.folder, s->folder.path, &valid, good) != DT_OK)
        dt_fail_clear();
    if (!good[0] && t->from_step < t->at.run_step)
        memcpy(good, t->from, sizeof good);
    if (good[0])
        dt_note("dtrain: the last checkpoint that gave a finite loss, too: --resume %s --out NEW "
                "--resume-force, with other options",
                good);
    else
        dt_note("dtrain: no checkpoint was saved before the last finite loss: begin anew");
}

/* Every rank holds the weights: they are compared before they are called the result. */
static dt_status finish(training *t, dt_end_record *end)
{
    dt_run *r = t->run;
    dt_session *s = &t->session;
    dt_snapshot state = dt_run_snapshot(r);

    state.at = (dt_position){.epoch = r->total_steps / r->steps_per_epoch,
                             .step = r->total_steps % r->steps_per_epoch,
                             .run_step = r->total_steps};
    dt_activity_phase(DT_AT_end);
    *end = (dt_end_record){.steps = r->total_steps,
                           .made = r->total_steps - t->from_step,
                           .seconds = dt_seconds() - t->start,
                           .step_s = t->steps ? t->steps_s / (double)t->steps : 0,
                           .predicted_s = r->choice.seconds,
                           .whole_s = r->choice.whole_s,
                           .folder = s->folder.path};
    DT_TRY(dt_grid_turned(r));
    DT_OBSERVE_TRY(r->observed, check, DT_CHECK_END); /* names what the hashes only show */
    DT_TRY(dt_grid_collect(r));
    /* The loss of a step is checked before its update: the last update has no later loss. */
    DT_TRY(dt_comm_agree(r->comm, dt_grid_knows(r) ? dt_snapshot_finite(&state) : DT_OK));
    DT_TRY(dt_run_hash(r, state.at, end->weights_hash, end->state_hash));
    const dt_field field[] = {{"weights at the end", end->weights_hash},
                              {"state at the end", end->state_hash}};
    DT_TRY(dt_comm_same(r->comm, field, 2));
    if (saves(t) && r->total_steps % r->steps_per_epoch == 0 && !t->whole)
        DT_TRY(save(t, (dt_save_how){.proved = true, .wait = true}));
    DT_TRY(dt_comm_agree(r->comm, dt_session_settle(s, r))); /* one that SIGHUP asked for */
    DT_TRY(dt_comm_agree(r->comm, dt_session_model(s, r)));
    DT_TRY(mark(t, DT_MARK_END));
    end->wall = dt_activity_phase(DT_AT_end) - t->start; /* one clock with the account */
    DT_TRY(dt_account_take(r->comm, end->account));
    end->ok = true;
    return dt_comm_agree(r->comm,
                         s->leads ? dt_session_line(r, dt_report_end(&s->report, end)) : DT_OK);
}

/* ---- The beginning ---------------------------------------------------------------------- */

/* Whether this run passes through the checkpoint's place. */
static dt_status check_place(const dt_run *r, const char *path, const dt_position *at)
{
    const int64_t steps = r->steps_per_epoch;

    if (at->run_step <= r->total_steps && at->step <= steps && at->epoch <= at->run_step / steps &&
        at->epoch * steps + at->step == at->run_step)
        return DT_OK;
    return dt_fail(DT_CONFIG,
                   "checkpoint %s was saved after %lld steps, at epoch %lld step %lld; this run of "
                   "%lld steps, %lld in each epoch, does not pass through there: raise --epochs or "
                   "--max-steps, give the checkpoint's --global-batch and --subset, or take its "
                   "weights alone, with --init",
                   path, (long long)at->run_step, (long long)at->epoch + 1, (long long)at->step + 1,
                   (long long)r->total_steps, (long long)steps);
}

/* On rank 0: the folder, and where the run begins in it. */
static dt_status restore(training *t)
{
    const dt_run *r = t->run;

    DT_TRY(dt_session_take(&t->session, r));
    DT_TRY(dt_resume(t->run, &t->session.folder, t->from, &t->at));
    if (!t->from[0])
        return DT_OK;
    DT_TRY(check_place(r, t->from, &t->at));
    if (!t->session.folder.resumed) { /* lines and the best checkpoint stay in the other folder */
        t->at.metrics_bytes = 0;
        t->at.best_accuracy = -1;
        t->at.best_epoch = -1;
    }
    dt_note("resumed from %s at epoch %lld step %lld", t->from, (long long)t->at.epoch + 1,
            (long long)t->at.step + 1);
    return DT_OK;
}

/* Rank 0 reads and sends: the other nodes need not see its disk. A resumed run does not need the
 * model file that it once began with. */
static dt_status begin(training *t)
{
    dt_run *r = t->run;
    const dt_option_form every = dt_option_meaning(&dt_save_every_syntax, r->o.save_every);
    const double stop_s =
        dt_option_meaning(&dt_stop_after_syntax, r->o.stop_after).save_every.seconds;
    const bool leads = r->comm->rank == 0, resumes = strcmp(r->o.resume, "never") != 0;

    dt_signals_defer(); /* and all ranks have, before rank 0 writes anything */
    DT_TRY(dt_comm_barrier(r->comm));
    t->save_steps = every.save_every.steps;
    t->save_s = every.save_every.seconds;
    t->save_epochs = strcmp(r->o.keep_every, "epoch") == 0;
    t->at = (dt_position){.best_accuracy = -1, .best_epoch = -1};
    DT_TRY(dt_comm_agree(r->comm, leads ? restore(t) : DT_OK));
    if (resumes)
        DT_TRY(dt_comm_bcast(r->comm, t->from, sizeof t->from, 0));
    if (!t->from[0]) {
        DT_TRY(dt_run_init(r));
        DT_TRY(dt_grid_collect(r));
    }
    if (resumes) {
        DT_TRY(dt_comm_bcast(r->comm, &t->at, sizeof t->at, 0));
        DT_TRY(dt_run_broadcast(r));
    }
    t->saved_s = dt_seconds();
    t->from_step = t->at.run_step;
    t->whole = strcmp(r->o.resume, "auto") == 0 && t->from[0] && t->at.step == 0 &&
               t->at.run_step == r->total_steps;
    if (r->o.save_shards)
        DT_TRY(dt_session_pieces->check(&t->session, r));
    DT_TRY(dt_comm_agree(r->comm, dt_session_begin(&t->session, r, &t->at, t->from)));
    dt_status st = DT_OK;
    DT_OBSERVE_OPEN(st, t->observed, set_up, r->comm, &r->o, r,
                    leads ? t->session.folder.path : NULL);
    DT_TRY(st);
    DT_TRY(mark(t, DT_MARK_BEGIN));
    if (leads && stop_s > 0)
        dt_signals_stop_after(stop_s);
    dt_activity_behind(t->at.run_step);
    return DT_OK;
}

/* Whether nothing says which run it is: only what belongs to this start is given. */
static bool says_no_recipe(const dt_options *o)
{
    for (size_t i = 0; i < DT_OPTIONS; i++)
        if (o->given[i] && dt_option_table[i].scope < DT_SCOPE_HERE)
            return false;
    return true;
}

dt_status (*dt_dry_run)(dt_run *r);

static dt_status refuse_options(const dt_comm *c, const dt_options *o)
{
    DT_TRY(dt_observers_check(o));
    if (o->save_shards && !dt_session_pieces)
        return dt_fail(DT_CONFIG, "this build cannot save in portions: --save-shards "
                                  "(DTRAIN_EXTRAS)");
    if (o->tensor_parallel > 1 && !o->strategy[0])
        return dt_fail(DT_CONFIG, "--tensor-parallel cuts no layer without --strategy: give "
                                  "--strategy all=out, or leave it out");
    if (o->dry_run && strcmp(o->resume, "never") != 0)
        return dt_fail(DT_CONFIG, "--dry-run begins at the first step: leave out --resume");
    if (strcmp(o->resume, "auto") != 0)
        return DT_OK;
    if (!o->out[0])
        return dt_fail(DT_CONFIG, "--resume auto needs --out DIR, the folder of the run");
    if (c->rank == 0 && !dt_path_taken(o->out) && says_no_recipe(o))
        return dt_fail(DT_NOINPUT,
                       "--resume auto: there is no run folder '%s', and no option says which run "
                       "to begin in it; is its name right?",
                       o->out);
    return DT_OK;
}

/* A run that is refused has its last words, too: log styles promise them. */
static void report_failed(training *t, const dt_comm *c, const dt_options *o)
{
    dt_report *report = &t->session.report;
    const dt_report_setup setup = {.out = stdout};

    if (c->rank == 0 &&
        (report->setup.out || dt_report_open(report, o->log_style, &setup) == DT_OK))
        (void)!dt_report_end(report, &(dt_end_record){.ok = false});
}

dt_status dt_train(dt_comm *c, const dt_options *o)
{
    dt_run r = {.comm = c};
    training t = {.run = &r};
    dt_end_record end = {.ok = false};
    dt_status st = dt_comm_agree(c, refuse_options(c, o));

    dt_banner_warn(o);
    DT_OBSERVE_OPEN(st, t.observed, set_up, c, o, NULL, NULL);
    if (st == DT_OK)
        st = dt_run_open(&r, c, o, DT_FOR_TRAINING);
    t.start = dt_activity_phase(DT_AT_begin);
    dt_record_restart();
    if (st == DT_OK && o->dry_run) {
        st = dt_dry_run(&r);
        goto out;
    }
    DT_OBSERVE_OPEN(st, t.observed, ready, &r);
    if (st == DT_OK)
        st = begin(&t);
    if (st == DT_OK)
        st = train_epochs(&t);
    if (st == DT_OK)
        st = finish(&t, &end);
    if (st == DT_NUMERIC)
        name_last_good(&t);
    if (!end.ok)
        report_failed(&t, c, o);

out:
    dt_observers_close(t.observed, dt_status_exit_code(st));
    dt_session_close(&t.session);
    dt_run_close(&r);
    if (st == DT_OK && dt_signals_stop()) /* dtrain launch looks for this */
        dt_note("dtrain: %s came after the last step: the run is complete all the same",
                dt_signals_name(dt_signals_stop()));
    return st;
}

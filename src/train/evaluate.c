/* evaluate.c - evaluation: chunk k of the test set is run by rank k mod np; the sums are taken
 * in tree order over chunks, so that the result is one number whatever the ranks. */
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"
#include "signals.h"

/* Of a chunk: its loss, as the bits of a float64, and its correct answers; 0 where another rank
 * runs it. */
typedef struct chunk_sums {
    int64_t loss_bits, correct;
} chunk_sums;

/* The tree of docs/numerics.md section 3 over the losses of chunks [a, b). */
static double tree_sum(const chunk_sums *s, int64_t a, int64_t b)
{
    int64_t half = 1;
    double loss;

    if (b - a == 1) {
        memcpy(&loss, &s[a].loss_bits, sizeof loss);
        return loss;
    }
    while (2 * half < b - a)
        half *= 2;
    return tree_sum(s, a, a + half) + tree_sum(s, a + half, b);
}

static dt_status test_chunk(dt_run *r, int64_t k, chunk_sums *s)
{
    const int64_t first = k * r->test_chunk;
    const int64_t left = dt_source_describe(r->source)->test - first;
    const bool full = left >= r->test_chunk;
    dt_exec *e = r->test[full ? 0 : 1].exec;
    dt_result result;

    dt_loader_test(r->loader, first, full ? r->test_chunk : left, dt_exec_input(e),
                   dt_exec_labels(e));
    DT_TRY(dt_exec_forward(&(dt_wave){.exec = &e, .count = 1}, NULL, &result));
    memcpy(&s->loss_bits, &result.loss_sum, sizeof s->loss_bits);
    s->correct = result.correct;
    return DT_OK;
}

/* Chunks in rounds, one of each rank. After a round all know whether one was asked to stop, or
 * has failed: *stop. */
static dt_status test_chunks(dt_run *r, dt_report *report, int64_t chunks, chunk_sums *s,
                             bool *stop)
{
    const int64_t images = dt_source_describe(r->source)->test;
    const double began = dt_seconds();
    const int64_t world = dt_comm_world(r->comm);
    dt_status st = DT_OK;

    dt_place_phase(DT_AT_test);
    *stop = false;
    for (int64_t first = 0; first < chunks && !*stop; first += world) {
        const int64_t k = first + dt_comm_rank(r->comm);
        if (k < chunks)
            st = test_chunk(r, k, &s[k]);
        int64_t ends = st != DT_OK || dt_signals_stop() != 0;
        DT_TRY(dt_comm_max_i64(r->comm, &ends, 1));
        *stop = ends != 0;
        if (report)
            dt_report_test(report, DT_MIN((first + world) * r->test_chunk, images), images,
                           dt_seconds() - began);
    }
    return st;
}

dt_status dt_run_test(dt_run *r, dt_report *report, dt_test_result *result)
{
    const int64_t images = dt_source_describe(r->source)->test;
    const int64_t chunks = (images + r->test_chunk - 1) / r->test_chunk;
    const size_t words = (size_t)chunks * sizeof(chunk_sums) / sizeof(int64_t);
    chunk_sums *s = NULL;
    int64_t correct = 0;
    bool stop;
    dt_status st = dt_calloc(&s, (size_t)chunks, sizeof *s, "evaluation");

    DT_GO(st, dt_comm_agree(r->comm, st), out);
    st = test_chunks(r, report, chunks, s, &stop);
    DT_GO(st, dt_comm_agree(r->comm, st), out);
    /* One rank holds a chunk's bits and all others 0: the integer sum passes them on. */
    DT_GO(st, dt_comm_sum_i64(r->comm, (int64_t *)(void *)s, words), out);
    for (int64_t k = 0; k < chunks; k++)
        correct += s[k].correct;
    *result = (dt_test_result){.stop = stop,
                               .loss = dt_nan_unsigned(tree_sum(s, 0, chunks) / (double)images),
                               .accuracy = (double)correct / (double)images,
                               .correct = correct,
                               .images = images};

out:
    free(s);
    return st;
}

dt_status dt_eval(dt_comm *c, const dt_options *o)
{
    const dt_report_setup setup = {.out = stderr, .log_every = o->log_every};
    dt_report report;
    dt_run r;
    dt_test_result t;
    dt_options own;
    dt_model_meta meta;
    char model[PATH_MAX];
    dt_status st = DT_OK;

    if (!o->model[0])
        return dt_comm_agree(c, dt_fail(DT_USAGE, "eval needs --model FILE, a model.safetensors "
                                                  "that a run has saved"));
    DT_TRY(dt_run_newest(c, o->model, model));
    own = *o;
    own.model = model;
    DT_TRY(dt_comm_agree(c, dt_options_from_model(model, &own, &meta)));
    DT_TRY(dt_run_open(&r, c, &own, DT_FOR_EVALUATION));
    DT_GO(st, dt_run_load(&r, model, true), out);
    if (dt_comm_rank(c) == 0) /* beside the result, which may be JSON */
        DT_GO(st, dt_report_open(&report, "auto", &setup), out);
    DT_GO(st, dt_run_test(&r, dt_comm_rank(c) == 0 ? &report : NULL, &t), out);
    if (!isfinite(t.loss)) {
        st = dt_comm_agree(c, dt_fail(DT_NUMERIC,
                                      "model file '%s': the loss of the test images is "
                                      "not finite (%g)",
                                      model, t.loss));
        goto out;
    }
    if (dt_comm_rank(c) == 0) {
        if (o->json)
            printf("{\"test_loss\": %.9g, \"test_accuracy\": %.9g, \"correct\": %lld, "
                   "\"images\": %lld}\n",
                   t.loss, t.accuracy, (long long)t.correct, (long long)t.images);
        else
            printf("test loss %.6f, accuracy %.2f %% (%lld of %lld)\n", t.loss, 100 * t.accuracy,
                   (long long)t.correct, (long long)t.images);
    }

out:
    dt_run_close(&r);
    return st;
}

/* evaluate.c - evaluation: chunk k of the test set is run by rank k mod np; the sums are taken
 * in tree order over chunks, so that the result is one number whatever the ranks. */
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

/* The tree of docs/numerics.md section 3 over [a, b). */
static double tree_sum(const double *x, int64_t a, int64_t b)
{
    if (b - a == 1)
        return x[a];
    int64_t half = 1;
    while (2 * half < b - a)
        half *= 2;
    return tree_sum(x, a, a + half) + tree_sum(x, a + half, b);
}

/* This rank's chunks: loss bits (float64) and counts; zero elsewhere. */
static dt_status test_chunks(dt_run *r, int64_t chunks, int64_t *loss_bits, int64_t *correct)
{
    const int64_t images = dt_source_describe(r->source)->test;

    for (int64_t k = dt_comm_rank(r->comm); k < chunks; k += dt_comm_world(r->comm)) {
        const int64_t first = k * r->test_chunk;
        const int64_t left = images - first;
        const bool full = left >= r->test_chunk;
        dt_exec *e = r->test[full ? 0 : 1].exec;
        dt_result result;

        DT_TRY(dt_stop_listen(r));
        dt_place_phase(DT_AT_test);
        dt_loader_test(r->loader, first, full ? r->test_chunk : left, dt_exec_input(e),
                       dt_exec_labels(e));
        DT_TRY(dt_exec_forward(&(dt_wave){.exec = &e, .count = 1}, NULL, &result));
        memcpy(&loss_bits[k], &result.loss_sum, sizeof loss_bits[k]);
        correct[k] = result.correct;
    }
    return DT_OK;
}

dt_status dt_run_test(dt_run *r, dt_test_result *result)
{
    const int64_t images = dt_source_describe(r->source)->test;
    const int64_t chunks = (images + r->test_chunk - 1) / r->test_chunk;
    const int64_t sums = 2 * chunks + 2; /* and who left off, and who hailed */
    int64_t *bits = NULL, correct = 0;
    double *loss = NULL;
    dt_status st = DT_OK;

    st = dt_calloc(&bits, (size_t)sums, sizeof *bits, "evaluation");
    if (st == DT_OK)
        st = dt_calloc(&loss, (size_t)chunks, sizeof *loss, "evaluation");
    r->stop.listens = true;
    if (st == DT_OK)
        st = test_chunks(r, chunks, bits, bits + chunks);
    r->stop.listens = false;
    const bool left = st == DT_PREEMPTED; /* no failure: the sums below say so */
    DT_GO(st, dt_comm_agree(r->comm, left ? DT_OK : st), out);
    bits[2 * chunks] = left;
    bits[2 * chunks + 1] = r->stop.hails;
    /* One rank holds a chunk's bits and all others 0: the integer sum passes them on. */
    DT_GO(st, dt_comm_sum_i64(r->comm, bits, (size_t)sums), out);
    DT_GO(st, dt_stop_settle(r, bits[2 * chunks + 1]), out);
    for (int64_t k = 0; k < chunks; k++) {
        memcpy(&loss[k], &bits[k], sizeof loss[k]);
        correct += bits[chunks + k];
    }
    *result = (dt_test_result){.undone = bits[2 * chunks] > 0,
                               .loss = dt_nan_unsigned(tree_sum(loss, 0, chunks) / (double)images),
                               .accuracy = (double)correct / (double)images,
                               .correct = correct,
                               .images = images};

out:
    free(bits);
    free(loss);
    return st;
}

/* The options that describe the newest model that --model means. */
static dt_status eval_describe(dt_comm *c, const dt_options *o, dt_options *own,
                               dt_model_meta *meta, char model[PATH_MAX])
{
    dt_looks l = {.looks = 0};

    DT_TRY(dt_run_newest(c, o->model, model));
    do {
        *own = *o;
        DT_TRY(dt_run_settle(c, dt_options_from_model(model, own, meta), o->model, model, &l));
    } while (l.again);
    own->model = model;
    return DT_OK;
}

dt_status dt_eval(dt_comm *c, const dt_options *o)
{
    dt_run r;
    dt_test_result t;
    dt_options own;
    dt_model_meta meta;
    char model[PATH_MAX];
    dt_status st = DT_OK;

    if (!o->model[0])
        return dt_comm_agree(c, dt_fail(DT_USAGE, "eval needs --model FILE, a model.safetensors "
                                                  "that a run has saved"));
    DT_TRY(eval_describe(c, o, &own, &meta, model));
    DT_TRY(dt_run_open(&r, c, &own, DT_FOR_EVALUATION));
    DT_GO(st, dt_run_load(&r, o->model, model, true), out);
    DT_GO(st, dt_run_test(&r, &t), out);
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

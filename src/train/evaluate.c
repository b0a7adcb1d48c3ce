/* evaluate.c - evaluation: chunk k of the test set is run by rank k mod np; the losses are summed
 * in tree order over chunks, so that the result is one number whatever the ranks. */
#include "signals.h"

/* The tree of docs/numerics.md section 3 over the losses of chunks [a, b). */
static double tree_sum(const int64_t *loss_bits, int64_t a, int64_t b)
{
    int64_t half = 1;
    double loss;

    if (b - a == 1) {
        memcpy(&loss, &loss_bits[a], sizeof loss);
        return loss;
    }
    while (2 * half < b - a)
        half *= 2;
    return tree_sum(loss_bits, a, a + half) + tree_sum(loss_bits, a + half, b);
}

/* What --tta adds to an image: its first views, and what their logits count. With all of them the
 * image and its mirror image count half together, both moved by a pixel up and left, or down and
 * right, the other half (Keller Jordan, arXiv 2404.00498, section 3.5). */
typedef struct view {
    int shift;
    bool flip;
    float weight;
} view;
static const view views[] = {{0, false, 2}, {0, true, 2},  {-1, false, 1},
                             {-1, true, 1}, {1, false, 1}, {1, true, 1}};

static size_t views_of(const dt_run *r)
{
    return strcmp(r->o.tta, "flip") == 0    ? 2
           : strcmp(r->o.tta, "crops") == 0 ? DT_COUNT_OF(views)
                                            : 1;
}

/* The wave's chunks through the network; this rank loads its own. Where no layer is cut, that is
 * all of it. */
static dt_status run_chunks(dt_run *r, int64_t first, int64_t count, const view *v)
{
    dt_contexts *c = &r->test;
    dt_exec *e = c->now[c->wave.first_home];

    if (e)
        dt_loader_test(r->loader, first, count, v->shift, v->flip, e->input, e->labels);
    return dt_exec_forward(&c->wave, NULL, c->result);
}

/* The other views of a chunk: the logits of all are added. */
static dt_status view_chunk(dt_run *r, dt_exec *e, int64_t first, int64_t count, int64_t *right)
{
    const int classes = r->net->spec.classes;
    const size_t logits = (size_t)(count * classes);
    dt_status st = DT_OK;
    float *sum = NULL;

    DT_TRY(dt_calloc(&sum, logits, sizeof *sum, "the logits of a chunk"));
    for (const view *v = views; v < views + views_of(r) && st == DT_OK; v++) {
        st = v > views ? run_chunks(r, first, count, v) : DT_OK; /* the first has been run */
        for (size_t i = 0; i < logits; i++)
            sum[i] += v->weight * e->logits[i];
    }
    for (int64_t i = 0; i < count; i++)
        *right += dt_logits_choose(sum + i * classes, classes) == e->labels[i];
    free(sum);
    return st;
}

static int64_t chunk_images(const dt_run *r, int64_t k)
{
    const int64_t left = dt_source_describe(r->source)->test - k * r->test_chunk;
    return DT_MAX(DT_MIN(left, r->test_chunk), 0);
}

/* The group's chunks of a round, of which chunk k is this rank's. */
static dt_status test_chunk(dt_run *r, int64_t k, dt_test_result *t)
{
    const int classes = r->net->spec.classes;
    const int64_t first = k * r->test_chunk, count = chunk_images(r, k);
    dt_contexts *c = &r->test;

    for (int i = 0; i < c->wave.count; i++)
        DT_TRY(dt_contexts_find(c, i, chunk_images(r, k - c->wave.first_home + i)));
    dt_exec *e = c->now[c->wave.first_home];
    DT_TRY(run_chunks(r, first, count, views));
    if (e)
        memcpy(&r->tally[k], &c->result[c->wave.first_home].loss_sum, sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        const int label = e->labels[i];
        const float *logits = e->logits + i * classes;
        const int64_t chosen = dt_logits_choose(logits, classes);
        if (r->answer)
            DT_TRY(r->answer(r, first + i, logits));
        if (label < 0) /* its class is not known */
            continue;
        t->class_images[label]++;
        t->class_correct[label] += chosen == label;
        if (t->confusion)
            t->confusion[label * classes + chosen]++;
    }
    return views_of(r) > 1 ? view_chunk(r, e, first, count, &t->viewed) : DT_OK;
}

/* Chunks in rounds, one of each rank. After a round all know whether one was asked to stop, or
 * has failed: t->stop. --dry-run ends with the first. */
static dt_status test_chunks(dt_run *r, dt_report *report, int64_t chunks, dt_test_result *t)
{
    const int64_t images = dt_source_describe(r->source)->test;
    const double began = dt_seconds();
    const int64_t world = r->comm->world;
    dt_status st = DT_OK;

    dt_activity_phase(DT_AT_test);
    for (int64_t first = 0; first < chunks && !t->stop; first += world) {
        const int64_t k = first + r->comm->rank;
        if (k - r->grid.part < chunks) /* the first of its group's */
            st = test_chunk(r, k, t);
        int64_t ends = st != DT_OK || dt_signals_stop() != 0;
        DT_TRY(dt_comm_max_i64(r->comm, &ends, 1));
        t->stop = ends != 0 || r->o.dry_run;
        if (report)
            dt_report_test(report, DT_MIN((first + world) * r->test_chunk, images), images,
                           dt_seconds() - began);
    }
    return st;
}

/* What the ranks find out, in one array of int64: an integer sum over ranks joins the counts, and
 * passes on a chunk's loss, whose bits (of a float64) are 0 on all ranks but one. Memory is taken
 * by the first test, used again by later ones. */
static dt_status take_tally(dt_run *r, int64_t chunks, dt_test_result *t, size_t *words)
{
    const size_t classes = (size_t)r->net->spec.classes;

    *words = (size_t)chunks + 1 + 2 * classes + (r->o.confusion ? classes * classes : 0);
    if (!r->tally)
        DT_TRY(dt_calloc(&r->tally, *words, sizeof *r->tally, "evaluation"));
    memset(r->tally, 0, *words * sizeof *r->tally);
    t->class_images = r->tally + chunks + 1; /* behind the losses and `viewed` */
    t->class_correct = t->class_images + classes;
    t->confusion = r->o.confusion ? t->class_correct + classes : NULL;
    return DT_OK;
}

dt_status dt_run_test(dt_run *r, dt_report *report, dt_test_result *result)
{
    const int64_t images = dt_source_describe(r->source)->test;
    const int64_t chunks = (images + r->test_chunk - 1) / r->test_chunk;
    dt_test_result t = {.images = images};
    size_t words = 0;

    DT_TRY(dt_comm_agree(r->comm, take_tally(r, chunks, &t, &words)));
    if (r->average.net)
        DT_TRY(dt_run_use(r, &r->average));
    DT_TRY(dt_comm_agree(r->comm, test_chunks(r, report, chunks, &t)));
    if (r->average.net)
        DT_TRY(dt_run_use(r, &r->weights));
    r->tally[chunks] = t.viewed;
    DT_TRY(dt_comm_sum_i64(r->comm, r->tally, words));
    t.viewed = r->tally[chunks];
    t.loss = dt_nan_unsigned(tree_sum(r->tally, 0, chunks) / (double)images);
    for (int c = 0; c < r->net->spec.classes; c++)
        t.correct += t.class_correct[c];
    t.accuracy = (double)t.correct / (double)images;
    *result = t;
    return DT_OK;
}

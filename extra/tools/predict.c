/* predict.c - what a trained model says of pictures: class names and probabilities, and where
 * folders are named like classes how often it is right. On rank 0 alone: a test whose answers are
 * printed. */
#include "images/images.h"
#include "tools.h"
#include "train/run.h"

/* ---- Answers ------------------------------------------------------------------------------- */

/* Of scaled logits. */
static void softmax(const float *z, double scale, int classes, double *p)
{
    const double max = (double)z[dt_logits_choose(z, classes)];
    double sum = 0;

    for (int c = 0; c < classes; c++)
        sum += p[c] = exp(scale * ((double)z[c] - max));
    for (int c = 0; c < classes; c++)
        p[c] /= sum;
}

/* End a line, which with --json is j, taken over. */
static void print_object(const dt_run *r, json_t *j)
{
    if (r->o.json)
        (void)json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(j);
}

/* probability [classes] is overwritten. */
static void print_answer(const dt_run *r, const char *path, double *probability)
{
    const dt_source_info *info = dt_source_describe(r->source);
    json_t *classes = json_array(), *probabilities = json_array();

    for (int64_t k = 0; k < DT_MIN(r->o.top, info->classes); k++) {
        int c = 0;
        for (int i = 1; i < info->classes; i++)
            c = probability[i] > probability[c] ? i : c;
        json_array_append_new(classes, json_string(info->class_name[c]));
        json_array_append_new(probabilities, json_real(probability[c]));
        if (!r->o.json)
            printf("%s%s %s %.2f %%", k ? "," : path, k ? "" : ":", info->class_name[c],
                   100 * probability[c]);
        probability[c] = -1;
    }
    print_object(r, json_pack("{s:s, s:o, s:o}", "file", path, "classes", classes, "probabilities",
                              probabilities));
}

static dt_status answer(const dt_run *r, int64_t image, const float *logits)
{
    const char *path = dt_source_picture(r->source, image);
    const int classes = r->net->spec.classes;
    double *probability = NULL;
    dt_status st = dt_calloc(&probability, (size_t)classes, sizeof *probability, "answers");

    if (st == DT_OK)
        softmax(logits, r->o.logit_scale, classes, probability);
    if (st == DT_OK && !isfinite(probability[0]))
        st = dt_fail(DT_NUMERIC, "'%s': the model's numbers are not finite", path);
    if (st == DT_OK)
        print_answer(r, DT_SHOWN(path), probability);
    free(probability);
    return st;
}

/* Those of the pictures that lie in a folder with the name of a class. */
static void print_accuracy(const dt_run *r, const dt_test_result *t)
{
    const dt_source_info *info = dt_source_describe(r->source);
    int64_t seen = 0;

    for (int c = 0; c < info->classes; c++)
        seen += t->class_images[c];
    if (seen == 0)
        return;
    const double accuracy = (double)t->correct / (double)seen;
    json_t *classes = json_object();
    if (!r->o.json)
        printf("accuracy %.2f %% (%lld of %lld)", 100 * accuracy, (long long)t->correct,
               (long long)seen);
    for (int c = 0; c < info->classes; c++) {
        if (t->class_images[c] == 0)
            continue;
        json_object_set_new(classes, info->class_name[c], json_real(dt_class_accuracy(t, c)));
        if (!r->o.json)
            printf("\n  %-20s %6.2f %% (%lld of %lld)", info->class_name[c],
                   100 * dt_class_accuracy(t, c), (long long)t->class_correct[c],
                   (long long)t->class_images[c]);
    }
    print_object(r, json_pack("{s:f, s:I, s:I, s:o}", "accuracy", accuracy, "correct",
                              (json_int_t)t->correct, "images", (json_int_t)seen, "class_accuracy",
                              classes));
}

/* ---- The command ------------------------------------------------------------------------- */

static dt_status predict(dt_comm *c, dt_options *o, const char *const *operand, size_t operands)
{
    dt_source *pictures = NULL;
    dt_model_meta meta;
    dt_test_result t;
    dt_run r;
    char model[PATH_MAX];

    DT_TRY(dt_run_newest(c, operand[0], model));
    dt_status st = dt_options_from_model(model, o, &meta);
    if (st == DT_OK && meta.classes < 2)
        st = dt_fail(DT_FORMAT, "%s holds no classifier", model);
    if (st == DT_OK)
        st = dt_source_open_pictures(&pictures, meta.classes, meta.class_names, operand + 1,
                                     operands - 1);
    DT_TRY(dt_comm_agree(c, st));
    o->data = "pictures";
    o->holdout = 0;
    o->confusion = false;
    o->tta = "none";
    r = (dt_run){.comm = c, .height = meta.height, .width = meta.width, .source = pictures};
    DT_TRY(dt_run_open_as(&r, o, DT_FOR_EVALUATION));
    r.answer = answer;
    st = dt_run_load(&r, model, true);
    if (st == DT_OK)
        st = dt_run_test(&r, NULL, &t);
    if (st == DT_OK) {
        print_accuracy(&r, &t);
        st = dt_comm_agree(c, dt_source_left_out(r.source));
    }
    dt_run_close(&r);
    return st;
}

dt_status dt_predict(dt_comm *c, const dt_settings *s)
{
    dt_options own = s->options;
    dt_comm *alone = NULL;

    own.threads = own.threads ? own.threads : dt_threads_auto(c);
    DT_TRY(dt_comm_split(&alone, c, c->rank == 0 ? 0 : -1));
    dt_status st = alone ? predict(alone, &own, s->operand, (size_t)s->operands) : DT_OK;
    dt_comm_close(alone);
    DT_TRY(dt_comm_bcast(c, &st, sizeof st, 0));
    return st;
}

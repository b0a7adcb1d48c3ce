/* eval.c - how well a saved model does on the test images. */
#include "tools.h"
#include "train/run.h"

static void print_text(const dt_run *r, const dt_test_result *t)
{
    const int classes = r->net->spec.classes;

    printf("%s loss %.6f, accuracy %.2f %% (%lld of %lld)\n", r->o.holdout ? "held-out" : "test",
           t->loss, 100 * t->accuracy, (long long)t->correct, (long long)t->images);
    if (strcmp(r->o.tta, "none") != 0)
        printf("with mirror images%s %.2f %% (%lld of %lld)\n",
               strcmp(r->o.tta, "flip") == 0 ? "" : " and crops",
               100 * (double)t->viewed / (double)t->images, (long long)t->viewed,
               (long long)t->images);
    if (!t->confusion)
        return;
    printf("\nrows: the class; columns: what it was taken for, in the rows' order\n");
    for (int c = 0; c < classes; c++) {
        char name[17]; /* cut before it is looked at: no half of a character stays */
        snprintf(name, sizeof name, "%s", dt_source_describe(r->source)->class_name[c]);
        dt_log_shown(name);
        printf("%-16s", name);
        for (int k = 0; k < classes; k++)
            printf(" %5lld", (long long)t->confusion[c * classes + k]);
        printf(t->class_images[c] ? "  %6.2f %%\n" : "       -\n", 100 * dt_class_accuracy(t, c));
    }
}

static void print_json(const dt_run *r, const dt_test_result *t)
{
    const int classes = r->net->spec.classes;
    json_t *accuracy = json_array(), *rows = t->confusion ? json_array() : NULL;

    for (int c = 0; c < classes; c++) {
        json_t *row = json_array();
        for (int k = 0; rows && k < classes; k++)
            json_array_append_new(row, json_integer(t->confusion[c * classes + k]));
        json_array_append_new(rows, row);
        json_array_append_new(accuracy, t->class_images[c] ? json_real(dt_class_accuracy(t, c))
                                                           : json_null());
    }
    json_t *viewed =
        strcmp(r->o.tta, "none") != 0 ? json_real((double)t->viewed / (double)t->images) : NULL;
    char name[40];

    snprintf(name, sizeof name, "tta_%s_accuracy", r->o.tta);
    json_t *j = json_pack("{s:f, s:f, s:I, s:I, s:b, s:o, s:o, s:o*, s:o*}", "test_loss", t->loss,
                          "test_accuracy", t->accuracy, "correct", (json_int_t)t->correct, "images",
                          (json_int_t)t->images, "held_out", r->o.holdout > 0, "class_names",
                          json_loads(dt_source_describe(r->source)->class_names, 0, NULL),
                          "class_accuracy", accuracy, "confusion", rows, name, viewed);
    if (j && json_dumpf(j, stdout, JSON_REAL_PRECISION(9)) == 0)
        putchar('\n');
    json_decref(j);
}

static void warn_data(const dt_settings *s)
{
    const dt_options *o = &s->options;
    const char *data = s->layer[DT_SAVED_LAYER].value[DT_ROW_data].text;

    if (data && strcmp(data, o->data) != 0 && !dt_path_same(dt_path_moved(data), o->data))
        dt_warn("the model was trained with --data %s, the figures below are of %s%s", data,
                o->data,
                o->holdout || o->subset
                    ? ", by the run's --subset and --holdout: give --subset 0 --holdout 0 for all"
                    : "");
}

dt_status dt_eval(dt_comm *c, const dt_settings *s)
{
    const dt_options *o = &s->options;
    dt_report report;
    dt_run r;
    dt_test_result t;
    dt_options own;
    dt_model_meta meta;
    char model[PATH_MAX];
    dt_status st = DT_OK;

    warn_data(s);
    DT_TRY(dt_run_newest(c, o->model, model));
    own = *o;
    own.model = model;
    DT_TRY(dt_comm_agree(c, dt_options_from_model(model, &own, &meta)));
    r = (dt_run){.comm = c, .height = meta.height, .width = meta.width};
    DT_TRY(dt_run_open_as(&r, &own, DT_FOR_EVALUATION));
    /* where they differ, even in their order alone, figures mean nothing */
    const char *classes = dt_source_describe(r.source)->class_names;
    if (meta.class_names[0] && strcmp(meta.class_names, classes) != 0)
        dt_warn("the model's classes are %.400s, those of --data %s are %.400s", meta.class_names,
                r.o.data, classes);
    DT_GO(st, dt_run_load(&r, model, true), out);
    if (c->rank == 0) /* beside the result, which may be JSON */
        DT_GO(st, dt_report_open(&report, "auto", &(dt_report_setup){.out = stderr}), out);
    DT_GO(st, dt_run_test(&r, c->rank == 0 ? &report : NULL, &t), out);
    if (!isfinite(t.loss))
        st = dt_fail(DT_NUMERIC, "model file '%s': the loss of the test images is not finite (%g)",
                     model, t.loss);
    DT_GO(st, dt_comm_agree(c, st), out);
    if (c->rank == 0)
        (o->json ? print_json : print_text)(&r, &t);
out:
    dt_run_close(&r);
    return st;
}

/* predict.c - what a trained model says of pictures: class names and probabilities, and where
 * folders are named like classes how often it is right. On rank 0 alone. */
#include "run.h"

#include <fts.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct picture {
    char *path; /* owned */
    int label;  /* its folder's; -1: none */
} picture;

typedef struct predictor {
    dt_options o;
    dt_model_meta meta;
    json_t *names; /* of all classes, or of none; owned, as all below */
    picture *picture;
    size_t pictures, folders; /* that were looked into for these */
    dt_model_read read;
    dt_model *model;
    dt_plan *plan;
    dt_exec *exec;
    dt_slab packed, arena, scratch;
    dt_reader *reader;
    size_t image_bytes;    /* as the network reads it */
    int64_t *seen, *right; /* [meta.classes] pictures of a class; those that were chosen so */
    dt_status broken;      /* of the first picture that cannot be read; DT_OK: all can */
    char reason[1024];     /* of the last one, not printed yet */
} predictor;

/* ---- What is asked ------------------------------------------------------------------------ */

static const char *class_name(const predictor *p, int c, char out[PATH_MAX])
{
    const char *name = json_string_value(json_array_get(p->names, (size_t)c));

    if (name)
        return dt_shown(name, out);
    snprintf(out, PATH_MAX, "%d", c);
    return out;
}

static dt_status add_picture(predictor *p, const char *path, const char *folder)
{
    const bool full = (p->pictures & (p->pictures - 1)) == 0;
    const size_t room = DT_MAX(2 * p->pictures, 1);
    picture *list = full ? realloc(p->picture, room * sizeof *list) : p->picture;
    picture added = {.path = list ? strdup(path) : NULL, .label = -1};
    char name[PATH_MAX];

    p->picture = list ? list : p->picture;
    if (!added.path)
        return dt_fail(DT_NOMEM, "no memory for a list of %zu pictures", p->pictures + 1);
    for (int c = 0; folder && c < p->meta.classes; c++)
        if (strcmp(class_name(p, c, name), folder) == 0)
            added.label = c;
    p->picture[p->pictures++] = added;
    return DT_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* A file is a picture, whatever its name; of a folder, those that are named so, also by links. */
static dt_status add_operand(predictor *p, const char *operand)
{
    enum { MOST_FOLDERS = 1 << 15 };
    char path[PATH_MAX], *const paths[] = {path, NULL};
    const size_t before = p->pictures;
    dt_status st = DT_OK;

    snprintf(path, sizeof path, "%s", operand);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0'; /* fts would take what follows for the folder's name */
    FTS *tree = fts_open(paths, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    if (!tree)
        return dt_fail(DT_NOMEM, "no memory to list '%s'", path);
    for (FTSENT *e = fts_read(tree); e && st == DT_OK; e = fts_read(tree)) {
        const bool hidden = e->fts_level > 0 && e->fts_name[0] == '.';
        if (e->fts_info == FTS_D && ++p->folders > MOST_FOLDERS)
            st = dt_fail(DT_NOINPUT, "'%s' has more than %d folders: do links lead to the same?",
                         operand, MOST_FOLDERS);
        else if (hidden || e->fts_info == FTS_D || e->fts_info == FTS_DP)
            hidden ? fts_set(tree, e, FTS_SKIP) : 0;
        else if (e->fts_level == 0)
            st = add_picture(p, e->fts_path, NULL);
        else if (dt_image_named(e->fts_name))
            st = add_picture(p, e->fts_path, e->fts_parent->fts_name);
    }
    fts_close(tree);
    DT_TRY(st);
    return p->pictures > before
               ? DT_OK
               : dt_fail(DT_NOINPUT, "'%s' holds no pictures (.png, .jpg, .jpeg)", operand);
}

/* ---- The model --------------------------------------------------------------------------- */

enum { BATCH = 32 };

static dt_status open_model(predictor *p, const char *path, int threads)
{
    const int64_t batch = DT_MIN((int64_t)p->pictures, BATCH);
    const size_t size = (size_t)p->read.net->spec.image_size;
    dt_model_opts opts = {.threads = threads};

    DT_TRY(dt_precision_choose(p->o.precision, &opts.precision));
    dt_options_resolve(&p->o, p->read.net);
    DT_TRY(dt_model_create(&p->model, p->read.net, &opts));
    DT_TRY(dt_plan_create(&p->plan, p->model, batch, DT_EVAL));
    DT_TRY(dt_slab_create(&p->packed, dt_model_packed_bytes(p->model), "packed weights"));
    DT_TRY(dt_slab_create(&p->arena, dt_plan_arena_bytes(p->plan), "activations"));
    DT_TRY(dt_slab_create(&p->scratch, dt_plan_scratch_bytes(p->plan), "scratch"));
    dt_model_bind(p->model, &p->read.state, p->packed.mem);
    DT_TRY(dt_model_load(&p->read.state, path, p->o.normalize, true));
    dt_model_pack(p->model, 0, 1);
    DT_TRY(dt_exec_create(&p->exec, p->plan, p->arena.mem, p->scratch.mem));
    memset(dt_exec_labels(p->exec), 0, (size_t)batch * sizeof(int32_t));
    const dt_reader_opts pictures = {.loader = {.augment = "none",
                                                .normalize = p->o.normalize,
                                                .resize = p->o.resize,
                                                .image_size = (int)size,
                                                .type = opts.precision},
                                     .height = p->meta.height,
                                     .width = p->meta.width};
    p->image_bytes = 3 * size * size * dt_dtype_bytes(opts.precision);
    return dt_reader_open(&p->reader, &pictures);
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* Of scaled logits. */
static void softmax(const float *z, double scale, int classes, double *p)
{
    double sum = 0, max = (double)z[0];

    for (int c = 1; c < classes; c++)
        max = DT_MAX(max, (double)z[c]);
    for (int c = 0; c < classes; c++)
        sum += p[c] = exp(scale * ((double)z[c] - max));
    for (int c = 0; c < classes; c++)
        p[c] /= sum;
}

static int likeliest(const double *p, int classes)
{
    int best = 0;

    for (int c = 1; c < classes; c++)
        best = p[c] > p[best] ? c : best;
    return best;
}

/* probability [classes] is overwritten. */
static void print_answer(const predictor *p, const picture *of, double *probability)
{
    json_t *classes = json_array(), *probabilities = json_array();
    char path[PATH_MAX], name[PATH_MAX];

    dt_shown(of->path, path);
    for (int64_t k = 0; k < DT_MIN(p->o.top, p->meta.classes); k++) {
        const int c = likeliest(probability, p->meta.classes);
        json_array_append_new(classes, json_string(class_name(p, c, name)));
        json_array_append_new(probabilities, json_real(probability[c]));
        if (!p->o.json)
            printf("%s%s %s %.2f %%", k ? "," : path, k ? "" : ":", name,
                   100 * probability[c]);
        probability[c] = -1;
    }
    json_t *j = json_pack("{s:s, s:o, s:o}", "file", path, "classes", classes, "probabilities",
                          probabilities);
    if (p->o.json)
        (void)json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(j);
}

/* Those of the pictures that lie in a folder with the name of a class. */
static void print_accuracy(const predictor *p)
{
    json_t *classes = json_object();
    int64_t seen = 0, right = 0;
    char name[PATH_MAX];

    for (int c = 0; c < p->meta.classes; c++) {
        seen += p->seen[c];
        right += p->right[c];
        if (p->seen[c] > 0)
            json_object_set_new(classes, class_name(p, c, name),
                                json_real((double)p->right[c] / (double)p->seen[c]));
    }
    const double accuracy = (double)right / (double)DT_MAX(seen, 1);
    json_t *j = json_pack("{s:f, s:I, s:I, s:o}", "accuracy", accuracy, "correct",
                          (json_int_t)right, "images", (json_int_t)seen, "class_accuracy", classes);
    if (seen > 0 && p->o.json)
        (void)json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    else if (seen > 0)
        printf("accuracy %.2f %% (%lld of %lld)", 100 * accuracy, (long long)right,
               (long long)seen);
    for (int c = 0; c < p->meta.classes && !p->o.json; c++)
        if (p->seen[c] > 0)
            printf("\n  %-20s %6.2f %% (%lld of %lld)", class_name(p, c, name),
                   100 * (double)p->right[c] / (double)p->seen[c], (long long)p->right[c],
                   (long long)p->seen[c]);
    if (seen > 0)
        putchar('\n');
    json_decref(j);
}

/* A picture that cannot be read costs one line, the last one's at the end. */
static dt_status read_failed(predictor *p, dt_status st)
{
    if (st != DT_FORMAT && st != DT_NOINPUT && st != DT_IO)
        return st;
    if (p->broken != DT_OK)
        dt_log_error("%s", p->reason);
    else
        p->broken = st;
    snprintf(p->reason, sizeof p->reason, "%s", dt_fail_text());
    dt_fail_clear();
    return DT_OK;
}

static dt_status answer_batch(predictor *p, picture *const *of, int64_t count, double *probability)
{
    dt_result result;

    DT_TRY(dt_exec_forward(&(dt_wave){.exec = &p->exec, .count = 1}, NULL, &result));
    for (int64_t k = 0; k < count; k++) {
        const int label = of[k]->label;
        softmax(dt_exec_logits(p->exec) + k * p->meta.classes, p->o.logit_scale, p->meta.classes,
                probability);
        if (!isfinite(probability[0]))
            return dt_fail(DT_NUMERIC, "'%s': the model's numbers are not finite", of[k]->path);
        if (label >= 0) {
            p->seen[label]++;
            p->right[label] += likeliest(probability, p->meta.classes) == label;
        }
        print_answer(p, of[k], probability);
    }
    return DT_OK;
}

static dt_status answer_all(predictor *p)
{
    const int64_t batch = dt_plan_batch(p->plan);
    picture *of[BATCH];
    double *probability = NULL;
    int64_t count = 0;
    dt_status st = dt_calloc(&probability, (size_t)p->meta.classes, sizeof *probability, "answers");

    for (size_t i = 0; st == DT_OK && i < p->pictures; i++) {
        char *to = (char *)dt_exec_input(p->exec) + (size_t)count * p->image_bytes;
        st = dt_reader_read(p->reader, p->picture[i].path, to);
        if (st == DT_OK)
            of[count++] = &p->picture[i];
        else
            st = read_failed(p, st);
        if (st == DT_OK && count > 0 && (count == batch || i + 1 == p->pictures)) {
            st = answer_batch(p, of, count, probability);
            count = 0;
        }
    }
    free(probability);
    return st;
}

/* ---- The command ------------------------------------------------------------------------- */

static void predictor_release(predictor *p)
{
    dt_reader_close(p->reader);
    dt_exec_destroy(p->exec);
    dt_plan_destroy(p->plan);
    dt_model_destroy(p->model);
    dt_model_read_close(&p->read);
    dt_slab_destroy(&p->packed);
    dt_slab_destroy(&p->arena);
    dt_slab_destroy(&p->scratch);
    for (size_t i = 0; i < p->pictures; i++)
        free(p->picture[i].path);
    free(p->picture);
    json_decref(p->names);
    free(p->seen);
    free(p);
}

static dt_status predict(const dt_options *o, const char *const *operand, size_t operands,
                         int threads)
{
    predictor *p = NULL;
    char path[PATH_MAX];
    dt_status st = DT_OK;

    DT_TRY(dt_newest_model(operand[0], path));
    DT_TRY(dt_calloc(&p, 1, sizeof *p, "the predictor"));
    p->o = *o;
    DT_GO(st, dt_options_read_model(&p->read, path, &p->o, &p->meta), out);
    if (p->meta.classes < 2)
        DT_GO(st, dt_fail(DT_FORMAT, "%s holds no classifier", path), out);
    p->names = json_loads(p->meta.class_names, 0, NULL);
    if (json_array_size(p->names) != (size_t)p->meta.classes)
        json_array_clear(p->names); /* a file that does not name all of its classes has numbers */
    DT_GO(st, dt_calloc(&p->seen, 2 * (size_t)p->meta.classes, sizeof *p->seen, "counts"), out);
    p->right = p->seen + p->meta.classes;
    for (size_t i = 1; i < operands; i++)
        DT_GO(st, add_operand(p, operand[i]), out);
    DT_GO(st, open_model(p, path, threads), out);
    DT_GO(st, answer_all(p), out);
    print_accuracy(p);
    if (p->broken != DT_OK)
        st = dt_fail(p->broken, "%s", p->reason);
out:
    predictor_release(p);
    return st;
}

dt_status dt_predict(dt_comm *c, const dt_options *o, const char *const *operand, size_t operands)
{
    const int threads = o->threads ? (int)o->threads : dt_threads_auto(c);
    const bool leads = c->rank == 0;

    return dt_comm_agree(c, leads ? predict(o, operand, operands, threads) : DT_OK);
}

/* modelfile.c - a network's numbers to and from safetensors: one list of what belongs in the file
 * (model_list.c) serves both ways. */
#include "data/data.h"
#include "model_list.h"
#include "tensors.h"

/* ---- Saving ---------------------------------------------------------------------- */

static dt_status list_fill(const void *context, size_t i, void *data)
{
    const dt_model_list *list = context;
    const dt_model_entry *e = &list->entry[i];

    if (e->data)
        dt_param_to_file(&e->param, e->data, data);
    else
        memcpy(data, &list->steps, sizeof list->steps);
    return DT_OK;
}

static dt_status content_put(const dt_target *t, const dt_safetensors_content *c, dt_written *w)
{
    const char *name = c->opts->format ? c->opts->format : "safetensors";
    const dt_format *other = dt_format_find(name, NULL);

    if (c->opts->portion)
        return dt_pieces->put(t, c, w);
    if (other)
        return other->put(t, c, w);
    if (strcmp(name, "safetensors") != 0)
        return dt_fail(DT_CONFIG, "%s: this build cannot write the format '%s'", t->shown, name);
    return dt_safetensors_put(t, c, w);
}

/* Three numbers as a JSON array. */
enum { TRIPLE_CHARS = 64 };
static const char *triple_text(const float x[3], char out[TRIPLE_CHARS])
{
    snprintf(out, TRIPLE_CHARS, "[%.8g,%.8g,%.8g]", (double)x[0], (double)x[1], (double)x[2]);
    return out;
}

dt_status dt_model_put(const dt_weights *s, const dt_target *t, const dt_model_file_opts *opts,
                       dt_written *w)
{
    const dt_net_spec *spec = &s->net->spec;
    char image_size[16], classes[16], width_divisor[16], steps[24], source_size[32], scale[32];
    const bool named = opts->class_names && strlen(opts->class_names) < DT_CLASS_NAMES;
    char mean_text[TRIPLE_CHARS], std_text[TRIPLE_CHARS];
    float mean[3] = {0}, std[3] = {0};
    const bool normal = dt_normalize_find(opts->normalize, mean, std);
    const bool resizes = opts->resize && strcmp(opts->resize, "auto") != 0;
    const dt_field metadata[] = {
        {"format", "pt"},
        {"dtrain.net", spec->net},
        {"dtrain.variant", spec->variant},
        {"dtrain.stem", spec->stem},
        {"dtrain.normalize", opts->normalize},
        {"dtrain.mean", normal ? triple_text(mean, mean_text) : NULL},
        {"dtrain.std", normal ? triple_text(std, std_text) : NULL},
        {"dtrain.image_size", image_size},
        {"dtrain.width_divisor", width_divisor},
        {"dtrain.classes", classes},
        {"dtrain.steps", steps},
        {"dtrain.resize", resizes ? opts->resize : NULL},
        {"dtrain.logit_scale", opts->logit_scale > 0 ? scale : NULL},
        {"dtrain.source_size", opts->height > 0 ? source_size : NULL},
        {"dtrain.class_names", named ? opts->class_names : NULL},
        {"dtrain.holds", opts->holds},
    };
    dt_model_list list;
    dt_status st = DT_OK;

    snprintf(image_size, sizeof image_size, "%d", spec->image_size);
    snprintf(width_divisor, sizeof width_divisor, "%d", spec->width_divisor);
    snprintf(classes, sizeof classes, "%d", spec->classes);
    snprintf(steps, sizeof steps, "%lld", (long long)opts->steps);
    snprintf(scale, sizeof scale, "%.9g", opts->logit_scale);
    snprintf(source_size, sizeof source_size, "%dx%d", opts->height, opts->width);
    DT_GO(st, dt_model_list_create(&list, s, opts->names), out);
    list.steps = opts->steps;
    const dt_safetensors_content content = {.tensor = list.tensor,
                                            .tensors = list.count,
                                            .metadata = metadata,
                                            .fields = DT_COUNT_OF(metadata),
                                            .fill = list_fill,
                                            .context = &list,
                                            .net = s->net,
                                            .opts = opts};
    st = content_put(t, &content, w);

out:
    dt_model_list_release(&list);
    return st;
}

/* ---- Loading: does the file fit? ------------------------------------------------- */

/* Its metadata "dtrain.<name>", or NULL. */
static const char *says(const dt_safetensors *f, const char *name)
{
    char key[64];

    snprintf(key, sizeof key, "dtrain.%s", name);
    return dt_safetensors_metadata(f, key);
}

static dt_status check_metadata(const dt_safetensors *f, const dt_net *net, const char *normalize)
{
    const dt_net_spec *spec = &net->spec;
    const dt_field want[] = {{"net", spec->net},
                             {"variant", spec->variant},
                             {"stem", spec->stem},
                             {"normalize", normalize}};
    bool known = true;

    for (size_t i = 0; i < DT_COUNT_OF(want); i++) {
        const char *has = says(f, want[i].name);
        known = known && (has || !want[i].value);
        if (has && want[i].value && strcmp(has, want[i].value) != 0)
            return dt_fail(DT_FORMAT,
                           "%s was saved with --%s '%.80s', this run has --%s '%s': use the file's",
                           f->path, want[i].name, has, want[i].name, want[i].value);
    }
    if (!known)
        dt_warn("%s does not say for which network, variant, stem and normalisation it was "
                "made: taken for --net %s%s%s%s%s and --normalize %s",
                f->path, spec->net, spec->variant[0] ? " --variant " : "", spec->variant,
                spec->stem[0] ? " --stem " : "", spec->stem, normalize ? normalize : "any");
    return DT_OK;
}

enum { MOST_CLASSES = 1000000 };

dt_status dt_model_open(dt_safetensors **f, const char *given)
{
    char path[PATH_MAX];

    *f = NULL;
    snprintf(path, PATH_MAX, "%s", given);
    if (dt_path_is_folder(given)) {
        DT_TRY(dt_path_join(path, given, "model.safetensors"));
        if (dt_pieces && !dt_path_exists(path))
            DT_TRY(dt_pieces->open(f, given));
    }
    return *f ? DT_OK : dt_safetensors_open(f, path, NULL, 0);
}

const char *const dt_meta_key[DT_META_KEYS] = {
    "net", "variant", "stem", "normalize", "image_size", "width_divisor", "resize", "logit_scale"};

/* The classifier's rows: of the matrix with the last name. 0: there is none. */
static int64_t count_classes(const dt_safetensors *f)
{
    const dt_tensor *last = NULL;

    for (size_t i = 0; i < f->count; i++)
        if (f->tensor[i].rank == 2 && (!last || strverscmp(f->tensor[i].name, last->name) > 0))
            last = &f->tensor[i];
    return last && last->shape[0] >= 1 && last->shape[0] <= MOST_CLASSES ? last->shape[0] : 0;
}

/* Of images: a file that says nothing, or no sense, is one that does not know. */
static void describe_images(const dt_safetensors *f, dt_model_meta *meta)
{
    enum { SIDE = 8192 };
    const char *size = says(f, "source_size"), *names = says(f, "class_names");

    meta->classes = (int)count_classes(f);
    meta->height = meta->width = 0;
    if (!size || sscanf(size, "%5dx%5d", &meta->height, &meta->width) != 2 || meta->height < 1 ||
        meta->width < 1 || meta->height > SIDE || meta->width > SIDE)
        meta->height = meta->width = 0;
    snprintf(meta->class_names, sizeof meta->class_names, "%s",
             names && strlen(names) < DT_CLASS_NAMES ? names : "");
}

dt_status dt_model_describe(const char *path, dt_model_meta *meta)
{
    const char *end = NULL;
    dt_safetensors *f = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_model_open(&f, path));
    memcpy(meta->path, f->path, sizeof meta->path);
    meta->bytes = f->size;
    for (int i = 0; i < DT_META_KEYS; i++) {
        const char *value = says(f, dt_meta_key[i]);
        snprintf(meta->text[i], DT_META_CHARS, "%s", value ? value : "");
    }
    const char *steps = says(f, "steps");
    describe_images(f, meta);
    meta->steps = 0;
    if (steps && (!dt_whole_parse(steps, &end, &meta->steps) || *end))
        st = dt_fail(DT_FORMAT, "%s: dtrain.steps is '%.80s', not a number of steps", f->path,
                     steps);
    dt_safetensors_close(f);
    return st;
}

/* The first difference of the file, of all entries that are of the classifier, or are not; "":
 * there is none. */
static void list_differs(const dt_model_list *list, bool head, char text[400])
{
    char has[DT_SHAPE_CHARS], want[DT_SHAPE_CHARS];

    text[0] = '\0';
    for (size_t i = 0; i < list->count && !text[0]; i++) {
        const dt_tensor *e = &list->tensor[i], *t = list->entry[i].file;
        if (list->entry[i].head != head || !list->entry[i].data)
            continue; /* the count of batches steers nothing */
        if (!t)
            snprintf(text, 400, "tensor '%s' is missing", e->name);
        else if (t->rank != e->rank ||
                 memcmp(t->shape, e->shape, (size_t)e->rank * sizeof *e->shape) != 0)
            snprintf(text, 400, "tensor '%s' is %s, the network's %s", e->name,
                     dt_shape_text(t->rank, t->shape, has), dt_shape_text(e->rank, e->shape, want));
        else if (strcmp(t->dtype, "I64") == 0)
            snprintf(text, 400, "tensor '%s' is I64, expected F32, F16 or BF16", e->name);
    }
}

/* A tensor of the file that has no place in the list, or a second one of its name. */
static void file_differs(const dt_model_list *list, const dt_safetensors *f, char text[400])
{
    for (size_t k = 0; k < f->count && !text[0]; k++) {
        const dt_tensor *t = &f->tensor[k];
        size_t i = 0;
        if (strcmp(t->name, "n_averaged") == 0)
            continue; /* beside the model in PyTorch's AveragedModel */
        while (i < list->count && list->entry[i].file != t)
            i++;
        if (i == list->count)
            snprintf(text, 400, "tensor '%.80s' is not the network's", t->name);
    }
}

static dt_status check_fit(const dt_model_list *list, const dt_safetensors *f, const dt_net *net,
                           bool head)
{
    const char *remedy = "choose --net, --variant, --stem, --image-size and data as they were when "
                         "the file was saved";
    char text[400];

    list_differs(list, false, text);
    file_differs(list, f, text);
    if (!text[0] && head) {
        list_differs(list, true, text);
        remedy = "all but the classifier fits: to train from that, use --init with --no-init-head";
    }
    return text[0] ? dt_fail(DT_FORMAT, "%s does not fit the network %s: %s; %s", f->path,
                             net->spec.net, text, remedy)
                   : DT_OK;
}

/* ---- Loading --------------------------------------------------------------------- */

static dt_status entry_check(const dt_model_entry *e, const float *x, const dt_safetensors *f)
{
    const size_t count = e->param.count, bad = dt_finite_floats(x, count);

    if (bad < count)
        return dt_fail(DT_FORMAT, "%s: tensor '%s': element %zu is not a finite number", f->path,
                       e->file->name, bad);
    for (size_t i = 0; e->variance && i < count; i++)
        if (x[i] < 0)
            return dt_fail(DT_FORMAT,
                           "%s: tensor '%s': element %zu is %g, and a variance is not "
                           "negative: the file is damaged",
                           f->path, e->file->name, i, (double)x[i]);
    return DT_OK;
}

static dt_status list_read(const dt_model_list *list, const dt_safetensors *f, bool head)
{
    float *buffer = NULL;
    size_t largest = 1;
    dt_status st = DT_OK;

    for (size_t i = 0; i < list->count; i++)
        largest = DT_MAX(largest, list->entry[i].param.count);
    DT_TRY(dt_calloc(&buffer, largest, sizeof *buffer, "the largest tensor"));
    for (size_t i = 0; i < list->count; i++) {
        const dt_model_entry *e = &list->entry[i];
        if (!e->data || (e->head && !head)) /* the count of batches steers nothing */
            continue;
        DT_GO(st, dt_safetensors_read(f, e->file, buffer), out);
        DT_GO(st, entry_check(e, buffer, f), out);
        dt_param_from_file(&e->param, buffer, e->data);
    }

out:
    free(buffer);
    return st;
}

dt_status dt_model_load_open(const dt_weights *s, dt_safetensors *f, const char *normalize,
                             bool head)
{
    dt_model_list list = {0};
    dt_status st = DT_OK;

    DT_GO(st, check_metadata(f, s->net, normalize), out);
    DT_GO(st, dt_model_list_match(&list, s, f), out);
    DT_GO(st, check_fit(&list, f, s->net, head), out);
    st = list_read(&list, f, head);

out:
    dt_model_list_release(&list);
    dt_safetensors_close(f);
    return st;
}

dt_status dt_model_load(const dt_weights *s, const char *path, const char *normalize, bool head)
{
    dt_safetensors *f = NULL;

    DT_TRY(dt_model_open(&f, path));
    const char *holds = says(f, "holds");
    if (!holds || strcmp(holds, "momentum") != 0)
        return dt_model_load_open(s, f, normalize, head);
    dt_safetensors_close(f);
    return dt_fail(DT_FORMAT, "%s holds momentum, not a model", path);
}

/* ---- A file with its network ------------------------------------------------------ */

/* A header of a few bytes may name a network of many: memory is taken for what the file can
 * hold, in the narrowest type that is read. */
static dt_status check_size(const dt_model_meta *meta, const dt_net *net)
{
    const uint64_t weights = sizeof(dt_f16) * (uint64_t)net->weight_total;

    if (meta->bytes >= weights)
        return DT_OK;
    return dt_fail(DT_FORMAT, "%s has %llu bytes, the network %s has at least %llu of weights: %s",
                   meta->path, (unsigned long long)meta->bytes, net->spec.net,
                   (unsigned long long)weights,
                   meta->text[DT_META_NET][0]
                       ? "it is another one than the file says, or damaged"
                       : "the file does not say for which network it was made; choose --net");
}

dt_status dt_model_read_open(dt_model_read *r, const dt_model_meta *meta, const dt_net_spec *spec)
{
    dt_net_spec own = *spec;

    *r = (dt_model_read){.net = NULL};
    own.classes = meta->classes;
    if (own.classes == 0)
        return dt_fail(DT_FORMAT, "%s holds no classifier of 1 to %d classes", meta->path,
                       (int)MOST_CLASSES);
    DT_TRY(dt_net_create(&r->net, &own));
    DT_TRY(check_size(meta, r->net));
    const size_t floats = r->net->slab_floats, channels = r->net->norm_channels;
    r->floats = floats + 2 * channels;
    DT_TRY(dt_calloc(&r->slab, 2 * r->floats + floats, sizeof *r->slab,
                     "the numbers of a model file"));
    float *trained = r->slab + r->floats, *mean = r->slab + floats, *mean_of = trained + floats;
    r->state = (dt_weights){r->net, r->slab, mean, mean + channels};
    r->trained = (dt_weights){r->net, trained, mean_of, mean_of + channels};
    r->momentum = trained + r->floats;
    return DT_OK;
}

void dt_model_read_close(dt_model_read *r)
{
    free(r->slab);
    dt_net_destroy(r->net);
    *r = (dt_model_read){.net = NULL};
}

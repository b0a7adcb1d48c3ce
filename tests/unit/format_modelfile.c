/* format_modelfile.c - model files: names and orders as PyTorch has them, both ways in every
 * naming; files that do not fit are refused whole; foreign ones get one warning. */
#include "model_files.h"

#include <float.h>
#include <math.h>

#include "format/format.h"

/* ---- A small network with numbers in it ------------------------------------------ */

static const dt_net_spec resnet = {.net = "resnet50",
                                   .variant = "torchvision",
                                   .stem = "cifar",
                                   .classes = 10,
                                   .width_divisor = 16};
static const dt_net_spec vgg = {
    .net = "vgg11", .variant = "mindspore", .stem = "imagenet", .classes = 10, .width_divisor = 16};
static const dt_model_file_opts as_torchvision = {"torchvision", "cifar", 1234};

/* Slab position of element (o, i, h, w): [kh][kw][ci][co], as model.h says. */
static size_t slab_index(const dt_param *p, int64_t o, int64_t i, int64_t h, int64_t w)
{
    const int64_t in = p->rank > 1 ? p->dim[1] : 1, wide = p->rank == 4 ? p->dim[3] : 1;
    return p->offset + (size_t)(((h * wide + w) * in + i) * p->dim[0] + o);
}

/* A number that tells where it belongs; exact in float32. */
static float mark(size_t param, int64_t flat)
{
    return (float)((int64_t)(param % 64) * 100000 + flat % 100000) / 8;
}

static void state_fill(const dt_weights *s)
{
    for (size_t n = 0; n < dt_net_param_count(s->net); n++) {
        const dt_param *p = dt_net_param(s->net, n);
        const int64_t in = p->rank > 1 ? p->dim[1] : 1;
        const int64_t kh = p->rank == 4 ? p->dim[2] : 1, kw = p->rank == 4 ? p->dim[3] : 1;
        int64_t flat = 0; /* OIHW, the order of files */
        for (int64_t o = 0; o < p->dim[0]; o++)
            for (int64_t i = 0; i < in; i++)
                for (int64_t h = 0; h < kh; h++)
                    for (int64_t w = 0; w < kw; w++)
                        s->master[slab_index(p, o, i, h, w)] = mark(n, flat++);
    }
    for (size_t c = 0; c < dt_net_norm_channels(s->net); c++) {
        s->running_mean[c] = (float)c / 4;
        s->running_var[c] = (float)c / 4;
    }
    s->running_mean[0] = -FLT_MAX;
    s->running_var[0] = -0.0f;
}

static int make_resnet(void **state)
{
    fixture *f = *state = model_files_make(&resnet);
    state_fill(&f->state);
    return 0;
}

static int make_vgg(void **state)
{
    fixture *f = *state = model_files_make(&vgg);
    state_fill(&f->state);
    return 0;
}

static void assert_same_state(const fixture *f, const dt_weights *s)
{
    assert_memory_equal(s->master, f->state.master, f->floats * sizeof(float));
    assert_memory_equal(s->running_mean, f->state.running_mean, f->channels * sizeof(float));
    assert_memory_equal(s->running_var, f->state.running_var, f->channels * sizeof(float));
}

static void assert_loads(const fixture *f, const char *path)
{
    dt_weights s;
    weights_take(f->net, &s);
    assert_ok(dt_model_load(&s, path, "cifar"));
    assert_same_state(f, &s);
    weights_give(&s);
}

/* Refused with this text, and nothing was written. */
static void assert_refused(const fixture *f, const char *path, const char *message)
{
    dt_weights s;
    weights_take(f->net, &s);
    assert_fails(dt_model_load(&s, path, "cifar"), DT_FORMAT, message);
    for (size_t i = 0; i < f->floats; i++)
        assert_true(s.master[i] == 0);
    weights_give(&s);
}

/* ---- Saving ---------------------------------------------------------------------- */

static void files_hold_oihw_and_metadata(void **state)
{
    const fixture *f = *state;
    dt_safetensors *s = NULL;
    int64_t batches = 0;

    assert_ok(dt_model_save(&f->state, f->file, &as_torchvision));
    assert_ok(dt_safetensors_open(&s, f->file));
    for (size_t n = 0; n < dt_net_param_count(f->net); n++) {
        const dt_param *p = dt_net_param(f->net, n);
        const dt_tensor *t = tensor_named(s, p->name);
        float *x = calloc(p->count, sizeof *x);
        assert_non_null(x);
        assert_string_equal(t->dtype, "F32");
        assert_int_equal(t->rank, p->rank);
        assert_memory_equal(t->shape, p->dim, (size_t)p->rank * sizeof *p->dim);
        assert_ok(dt_safetensors_read(s, t, x));
        for (size_t k = 0; k < p->count; k++)
            assert_true(x[k] == mark(n, (int64_t)k));
        free(x);
    }
    const dt_tensor *t = tensor_named(s, "layer4.2.bn3.num_batches_tracked");
    assert_string_equal(t->dtype, "I64");
    assert_int_equal(t->rank, 0);
    assert_ok(dt_safetensors_read(s, t, &batches));
    assert_int_equal(batches, 1234);
    /* 161 parameters and 53 norms with three buffers each */
    assert_int_equal(dt_safetensors_count(s), 161 + 3 * 53);

    assert_string_equal(dt_safetensors_metadata(s, "format"), "pt");
    assert_string_equal(dt_safetensors_metadata(s, "dtrain.net"), "resnet50");
    assert_string_equal(dt_safetensors_metadata(s, "dtrain.variant"), "torchvision");
    assert_string_equal(dt_safetensors_metadata(s, "dtrain.stem"), "cifar");
    assert_string_equal(dt_safetensors_metadata(s, "dtrain.normalize"), "cifar");
    assert_string_equal(dt_safetensors_metadata(s, "dtrain.image_size"), "32");
    assert_string_equal(dt_safetensors_metadata(s, "dtrain.classes"), "10");
    dt_safetensors_close(s);
}

static void namings_are_written_and_read(const fixture *f, const char *scheme,
                                         const char *const *names)
{
    const dt_model_file_opts opts = {scheme, "cifar", 1};
    dt_safetensors *s = NULL;

    assert_ok(dt_model_save(&f->state, f->file, &opts));
    assert_ok(dt_safetensors_open(&s, f->file));
    for (; *names; names++)
        tensor_named(s, *names);
    dt_safetensors_close(s);
    assert_loads(f, f->file);
}

static void resnet_namings(void **state)
{
    const fixture *f = *state;
    const dt_model_file_opts cs744 = {"cs744", "cifar", 1};
    namings_are_written_and_read(f, "torchvision",
                                 (const char *[]){"conv1.weight", "layer1.0.downsample.0.weight",
                                                  "layer2.0.downsample.1.running_var", "fc.bias",
                                                  NULL});
    namings_are_written_and_read(f, "kuangliu",
                                 (const char *[]){"conv1.weight", "layer1.0.shortcut.0.weight",
                                                  "layer2.0.shortcut.1.running_var", "linear.bias",
                                                  NULL});
    assert_fails(dt_model_save(&f->state, f->other, &cs744), DT_CONFIG, "cs744");
    assert_int_not_equal(access(f->other, F_OK), 0);
}

static void vgg_namings(void **state)
{
    const fixture *f = *state;
    const char *const features[] = {"features.0.weight", "features.1.running_mean",
                                    "features.25.bias", "classifier.weight", NULL};
    namings_are_written_and_read(f, "torchvision", features);
    namings_are_written_and_read(f, "kuangliu", features);
    namings_are_written_and_read(f, "cs744",
                                 (const char *[]){"layers.0.weight", "layers.1.running_mean",
                                                  "layers.25.bias", "fc1.weight", NULL});
}

/* ---- Edited files ---------------------------------------------------------------- */

typedef struct edit {
    const char *prefix;  /* put before every name */
    const char *drop;    /* leave out names that hold this */
    const char *retype;  /* this scalar becomes F32 */
    const char *reshape; /* this tensor gets one more dimension of 1 */
    const char *add;     /* one more tensor */
    bool no_metadata;
    const char *field, *value; /* this field of the metadata is changed */
} edit;

typedef struct edited {
    const dt_safetensors *from;
    const dt_tensor *source[512];
    dt_tensor tensor[512];
    char name[512][128];
} edited;

static void edited_fill(void *context, size_t i, void *data)
{
    const edited *e = context;
    if (e->source[i])
        assert_ok(dt_safetensors_read(e->from, e->source[i], data));
    else
        memset(data, 0, 4);
}

static void edit_file(const fixture *f, const edit *e)
{
    static const char *const keys[] = {"dtrain.net", "dtrain.variant", "dtrain.stem",
                                       "dtrain.normalize"};
    dt_field field[4];
    dt_safetensors *s = NULL;
    edited *to = calloc(1, sizeof *to);
    size_t n = 0;

    assert_non_null(to);
    assert_ok(dt_safetensors_open(&s, f->file));
    to->from = s;
    for (size_t i = 0; i < dt_safetensors_count(s); i++) {
        const dt_tensor *t = dt_safetensors_get(s, i);
        if (e->drop && strstr(t->name, e->drop))
            continue;
        to->source[n] = t;
        to->tensor[n] = *t;
        snprintf(to->name[n], sizeof to->name[n], "%s%s", e->prefix ? e->prefix : "", t->name);
        to->tensor[n].name = to->name[n];
        if (e->retype && strcmp(t->name, e->retype) == 0) {
            to->source[n] = NULL;
            to->tensor[n].dtype = "F32";
        }
        if (e->reshape && strcmp(t->name, e->reshape) == 0)
            to->tensor[n].shape[to->tensor[n].rank++] = 1;
        n++;
    }
    if (e->add)
        to->tensor[n++] = (dt_tensor){.name = e->add, .dtype = "F32", .rank = 1, .shape = {1}};
    for (size_t i = 0; i < 4; i++) {
        const bool changed = e->field && strcmp(keys[i], e->field) == 0;
        field[i] = (dt_field){keys[i], changed ? e->value : dt_safetensors_metadata(s, keys[i])};
    }
    assert_ok(
        dt_safetensors_write(f->other, &(dt_safetensors_content){.tensor = to->tensor,
                                                                 .tensors = n,
                                                                 .metadata = field,
                                                                 .fields = e->no_metadata ? 0 : 4,
                                                                 .fill = edited_fill,
                                                                 .context = to}));
    dt_safetensors_close(s);
    free(to);
}

static void prefixes_and_counters_do_not_matter(void **state)
{
    const fixture *f = *state;

    assert_ok(dt_model_save(&f->state, f->file, &as_torchvision));
    edit_file(f, &(edit){.prefix = "module."});
    assert_loads(f, f->other);
    edit_file(f, &(edit){.drop = "num_batches_tracked"});
    assert_loads(f, f->other);
}

static void the_first_misfit_ends_a_load(void **state)
{
    const fixture *f = *state;
    static const struct {
        edit edit;
        const char *words;
    } rows[] = {
        {{.drop = "layer1.0.conv1.weight"}, "resnet50: tensor 'layer1.0.conv1.weight' is missing"},
        {{.drop = "running_var"}, "'bn1.running_var' is missing"},
        {{.add = "extra\x1b[2J.weight"}, "'extra\\x1b[2J.weight' is not the network's"},
        {{.add = "module.fc.bias"}, "'module.fc.bias' is not the network's"},
        {{.reshape = "bn1.weight"}, "'bn1.weight' is [4, 1], the network's [4]; choose --net"},
        {{.reshape = "fc.weight"}, "'fc.weight' is [10, 128, 1], the network's [10, 128]; all but"},
        {{.drop = "fc.bias"}, "'fc.bias' is missing; all but the classifier fits"},
        {{.retype = "bn1.num_batches_tracked"}, "'bn1.num_batches_tracked' is F32, expected I64"},
        {{.field = "dtrain.net", .value = "vgg11"}, "--net 'vgg11', this run has --net 'resnet50'"},
        {{.field = "dtrain.variant", .value = "mindspore"},
         "--variant 'mindspore', this run has --variant 'torchvision'"},
        {{.field = "dtrain.stem", .value = "imagenet"},
         "--stem 'imagenet', this run has --stem 'cifar'"},
        {{.field = "dtrain.normalize", .value = "\ntutorial"},
         "--normalize '\\x0atutorial', this run has --normalize 'cifar'"},
    };

    assert_ok(dt_model_save(&f->state, f->file, &as_torchvision));
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        edit_file(f, &rows[i].edit);
        assert_refused(f, f->other, rows[i].words);
    }
}

/* Any byte of a file's header is changed in three ways or removed, and the file is cut anywhere in
 * it: it loads to the same numbers, or is refused with its name. */
static void damaged_headers_load_equal_or_are_refused(void **state)
{
    const fixture *f = *state;
    char *file = NULL, *copy = NULL;
    size_t length = 0, loaded = 0;
    dt_weights s;

    assert_ok(dt_model_save(&f->state, f->file, &as_torchvision));
    assert_ok(dt_file_read(AT_FDCWD, f->file, 1 << 28, &file, &length));
    const size_t header = 8 + (size_t)(uint8_t)file[0] + 256u * (uint8_t)file[1];
    copy = malloc(length);
    weights_take(f->net, &s);
    dt_log_init(1, 2); /* warnings are rank 0's */
    for (size_t i = 0; i < 5 * header; i++) {
        const size_t at = i / 5, kind = i % 5;
        size_t n = length;
        memcpy(copy, file, length);
        if (kind < 3)
            copy[at] = (char)(copy[at] ^ "\1\20\200"[kind]);
        else if (kind == 3)
            memcpy(copy + at, file + at + 1, --n - at);
        else
            n = at;
        memset(s.master, 0, (f->floats + 2 * f->channels) * sizeof *s.master);
        const dt_status st = dt_model_load_bytes(&s, "m.safetensors", copy, n, NULL);
        if (st == DT_OK) {
            assert_same_state(f, &s);
            loaded++;
        } else {
            assert_fails(st, DT_FORMAT, "m.safetensors");
        }
    }
    dt_log_init(0, 1);
    assert_in_range(loaded, 1, header); /* of 5 times as many */
    weights_give(&s);
    free(copy);
    free(file);
}

/* Standard error while a file is loaded, as text. */
static size_t warnings_of_load(const fixture *f, const char *path, char *text, size_t room)
{
    FILE *log = NULL;
    const int kept = folder_listen(&log);

    assert_loads(f, path);
    folder_heard(kept, log, text, room);
    return strlen(text);
}

static void foreign_files_get_one_warning(void **state)
{
    const fixture *f = *state;
    char text[1000];

    assert_ok(dt_model_save(&f->state, f->file, &as_torchvision));
    assert_int_equal(warnings_of_load(f, f->file, text, sizeof text), 0);
    edit_file(f, &(edit){.no_metadata = true});
    assert_true(warnings_of_load(f, f->other, text, sizeof text) > 0);
    assert_non_null(strstr(text, f->other));
    assert_non_null(strstr(text, "taken for resnet50 and --normalize cifar"));
    assert_int_equal(strchr(text, '\n') - text, strlen(text) - 1); /* one line */
}

static void a_file_of_another_network_does_not_fit(void **state)
{
    const fixture *f = *state; /* resnet50 */
    dt_net *other = NULL;
    dt_weights s;

    assert_ok(dt_net_create(&other, &vgg));
    weights_take(other, &s);
    assert_ok(dt_model_save(&s, f->file, &as_torchvision));
    assert_refused(f, f->file, "--net 'vgg11'");
    edit_file(f, &(edit){.no_metadata = true});
    assert_refused(f, f->other, "'conv1.weight' is missing");
    weights_give(&s);
    dt_net_destroy(other);
}

static void files_describe_their_network(void **state)
{
    static const char *const want[] = {"resnet50", "torchvision", "cifar", "cifar", "32", "16"};
    const fixture *f = *state;
    dt_model_meta meta;

    assert_ok(dt_model_save(&f->state, f->file, &as_torchvision));
    assert_ok(dt_model_describe(f->file, &meta));
    for (int i = 0; i < DT_META_KEYS; i++)
        assert_string_equal(meta.text[i], want[i]);
    edit_file(f, &(edit){.no_metadata = true});
    assert_ok(dt_model_describe(f->other, &meta));
    for (int i = 0; i < DT_META_KEYS; i++)
        assert_string_equal(meta.text[i], "");
}

#define RESNET(name) cmocka_unit_test_setup_teardown(name, make_resnet, model_files_release)
int main(void)
{
    const struct CMUnitTest tests[] = {
        RESNET(files_hold_oihw_and_metadata),
        RESNET(resnet_namings),
        cmocka_unit_test_setup_teardown(vgg_namings, make_vgg, model_files_release),
        RESNET(prefixes_and_counters_do_not_matter),
        RESNET(the_first_misfit_ends_a_load),
        cmocka_unit_test_setup_teardown(damaged_headers_load_equal_or_are_refused, make_vgg,
                                        model_files_release),
        RESNET(foreign_files_get_one_warning),
        RESNET(a_file_of_another_network_does_not_fit),
        RESNET(files_describe_their_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

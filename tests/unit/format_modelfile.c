/* format_modelfile.c - model files: names and orders as PyTorch and MindSpore have them, both ways
 * in every naming; files that do not fit are refused whole; foreign ones get one warning. */
#include "capture.h"
#include "model_files.h"

#include <float.h>
#include <regex.h>

#include "format/format.h"

/* ---- A small network with numbers in it ------------------------------------------ */

static const dt_net_spec resnet = {.net = "resnet50",
                                   .variant = "torchvision",
                                   .stem = "cifar",
                                   .classes = 10,
                                   .width_divisor = 16};
static const dt_net_spec vgg = {
    .net = "vgg11", .variant = "mindspore", .stem = "imagenet", .classes = 10, .width_divisor = 16};

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
    for (size_t n = 0; n < s->net->params; n++) {
        const dt_param *p = &s->net->param[n];
        const int64_t in = p->rank > 1 ? p->dim[1] : 1;
        const int64_t kh = p->rank == 4 ? p->dim[2] : 1, kw = p->rank == 4 ? p->dim[3] : 1;
        int64_t flat = 0; /* OIHW, the order of files */
        for (int64_t o = 0; o < p->dim[0]; o++)
            for (int64_t i = 0; i < in; i++)
                for (int64_t h = 0; h < kh; h++)
                    for (int64_t w = 0; w < kw; w++)
                        s->master[slab_index(p, o, i, h, w)] = mark(n, flat++);
    }
    for (size_t c = 0; c < s->net->norm_channels; c++) {
        s->running_mean[c] = (float)c / 4;
        s->running_var[c] = (float)c / 4;
    }
    s->running_mean[0] = -FLT_MAX;
    s->running_var[0] = -0.0f;
}

static int make(void **state, const dt_net_spec *spec)
{
    fixture *f = *state = model_files_make(spec);
    state_fill(&f->state);
    model_save(&f->state, f->file, "torchvision", 1234);
    return 0;
}

static int make_resnet(void **state)
{
    return make(state, &resnet);
}

static int make_vgg(void **state)
{
    return make(state, &vgg);
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
    assert_ok(dt_model_load(&s, path, "cifar", true));
    assert_same_state(f, &s);
    weights_give(&s);
}

/* Refused with this text; before the first number is read, nothing is written. */
static void assert_refused(const fixture *f, const char *path, const char *message, bool unread)
{
    dt_weights s;
    weights_take(f->net, &s);
    assert_fails(dt_model_load(&s, path, "cifar", true), DT_FORMAT, message);
    for (size_t i = 0; unread && i < f->floats; i++)
        assert_true(s.master[i] == 0);
    weights_give(&s);
}

/* ---- Saving ---------------------------------------------------------------------- */

TEST_OF_FIXTURE(make_resnet, model_files_release, files_hold_oihw_and_metadata)
{
    dt_safetensors *s = NULL;
    int64_t batches = 0;

    assert_ok(dt_safetensors_open(&s, f->file, NULL, 0));
    for (size_t n = 0; n < f->net->params; n++) {
        const dt_param *p = &f->net->param[n];
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
    assert_int_equal(s->count, 161 + 3 * 53);

    assert_string_equal(dt_safetensors_metadata(s, "format"), "pt");
    assert_string_equal(dt_safetensors_metadata(s, "dtrain.classes"), "10");
    dt_safetensors_close(s);
}

/* ---- Namings ----------------------------------------------------------------------------- */

static void namings_are_written_and_read(const fixture *f, const char *scheme,
                                         const char *const *names)
{
    dt_safetensors *s = NULL;

    model_save(&f->state, f->file, scheme, 1);
    assert_ok(dt_safetensors_open(&s, f->file, NULL, 0));
    for (; *names; names++)
        tensor_named(s, *names);
    dt_safetensors_close(s);
    assert_loads(f, f->file);
}

TEST_OF_FIXTURE(make_resnet, model_files_release, resnet_namings)
{
    const char *const names[] = {"conv1.weight", "layer1.0.shortcut.0.weight",
                                 "layer2.0.shortcut.1.running_var", "linear.bias", NULL};
    const dt_model_file_opts cs744 = {.names = "cs744", .normalize = "cifar", .steps = 1};
    const dt_target other = path_target(f->other);

    namings_are_written_and_read(f, "kuangliu", names);
    assert_fails(dt_model_put(&f->state, &other, &cs744, NULL), DT_CONFIG, "cs744");
    assert_int_not_equal(access(f->other, F_OK), 0);
}

TEST_OF_FIXTURE(make_vgg, model_files_release, vgg_namings)
{
    const char *const features[] = {"features.0.weight", "features.1.running_mean",
                                    "features.25.bias", "classifier.weight", NULL};
    const char *const layers[] = {"layers.0.weight", "layers.1.running_mean", "layers.25.bias",
                                  "fc1.weight", NULL};
    namings_are_written_and_read(f, "torchvision", features);
    namings_are_written_and_read(f, "kuangliu", features);
    namings_are_written_and_read(f, "cs744", layers);
}

/* reference: mindspore-ai/docs, docs/sample_code/distributed_training/resnet.py: the cells of
 * ResNet, MakeLayer0 to 3, ResidualBlock and ResidualBlockWithDown, and the parameters of
 * nn.Conv2d, nn.BatchNorm2d and nn.Dense. */
#define NORM "\\.(gamma|beta|moving_mean|moving_variance)"
#define BLOCK "layer(1\\.[a-c]|2\\.[a-d]|3\\.[a-f]|4\\.[a-c])\\."
static const char mindspore_names[] = "^((" BLOCK ")?conv1\\.weight|" BLOCK "conv[23]\\.weight|"
                                      "(" BLOCK ")?bn1" NORM "|" BLOCK "bn[23]" NORM "|"
                                      "layer[1-4]\\.a\\.conv_down_sample\\.weight|"
                                      "layer[1-4]\\.a\\.bn_down_sample" NORM "|"
                                      "fc\\.(weight|bias))$";

/* All of the tutorial's names, and what they stand for: the numbers of PyTorch's tensor. */
TEST_OF_FIXTURE(make_resnet, model_files_release, mindspore_has_the_tutorials_names)
{
    static const char *const pair[][2] = {
        {"conv1.weight", "conv1.weight"},
        {"bn1.weight", "bn1.gamma"},
        {"bn1.bias", "bn1.beta"},
        {"layer1.0.downsample.0.weight", "layer1.a.conv_down_sample.weight"},
        {"layer1.0.downsample.1.weight", "layer1.a.bn_down_sample.gamma"},
        {"layer2.0.downsample.1.bias", "layer2.a.bn_down_sample.beta"},
        {"layer3.0.downsample.1.running_mean", "layer3.a.bn_down_sample.moving_mean"},
        {"layer4.0.downsample.1.running_var", "layer4.a.bn_down_sample.moving_variance"},
        {"layer1.1.bn2.weight", "layer1.b.bn2.gamma"},
        {"layer2.3.bn3.bias", "layer2.d.bn3.beta"},
        {"layer3.4.bn1.running_mean", "layer3.e.bn1.moving_mean"},
        {"layer3.5.conv3.weight", "layer3.f.conv3.weight"},
        {"layer4.2.bn2.running_var", "layer4.c.bn2.moving_variance"},
        {"fc.bias", "fc.bias"},
    };
    static float x[2][1 << 16];
    regex_t names;
    dt_safetensors *s[2] = {NULL};
    dt_model_meta meta;

    model_save(&f->state, f->other, "mindspore", 1234);
    assert_ok(dt_safetensors_open(&s[0], f->file, NULL, 0));
    assert_ok(dt_safetensors_open(&s[1], f->other, NULL, 0));
    assert_int_equal(s[1]->count, 267); /* that many match, each once */
    assert_int_equal(regcomp(&names, mindspore_names, REG_EXTENDED | REG_NOSUB), 0);
    for (size_t i = 0; i < 267; i++)
        assert_int_equal(regexec(&names, s[1]->tensor[i].name, 0, NULL, 0), 0);
    regfree(&names);
    for (size_t i = 0; i < DT_COUNT_OF(pair); i++) {
        for (int k = 0; k < 2; k++) {
            const dt_tensor *t = tensor_named(s[k], pair[i][k]);
            assert_true(t->bytes <= sizeof x[k]);
            memset(x[k], 0, sizeof x[k]);
            assert_ok(dt_safetensors_read(s[k], t, x[k]));
        }
        assert_memory_equal(x[0], x[1], sizeof x[0]);
    }
    dt_safetensors_close(s[0]);
    dt_safetensors_close(s[1]);
    assert_loads(f, f->other);
    assert_ok(dt_model_describe(f->other, &meta)); /* though no tensor counts batches */
    assert_int_equal(meta.steps, 1234);
}

/* What a user of the weights has to know of the images comes back; a file without it, and one whose
 * size makes no sense, does not know. */
TEST_OF_FIXTURE(make_resnet, model_files_release, a_file_says_what_its_images_are)
{
    const dt_target target = path_target(f->other);
    dt_model_file_opts opts = {.names = "torchvision",
                               .normalize = "cifar",
                               .resize = "uint8",
                               .class_names = "[\"a \\\"b\\\"\",\"c\"]",
                               .height = 24,
                               .width = 32,
                               .logit_scale = 0.125};
    dt_model_meta meta;

    assert_ok(dt_model_put(&f->state, &target, &opts, NULL));
    assert_ok(dt_model_describe(f->other, &meta));
    assert_string_equal(meta.class_names, opts.class_names);
    assert_int_equal(meta.height, 24);
    assert_int_equal(meta.width, 32);
    assert_int_equal(meta.classes, f->state.net->spec.classes);
    assert_string_equal(meta.text[DT_META_KEYS - 2], "uint8");
    assert_string_equal(meta.text[DT_META_KEYS - 1], "0.125");

    opts = (dt_model_file_opts){.names = "torchvision", .normalize = "cifar", .resize = "auto"};
    opts.height = opts.width = 1 << 20;
    assert_ok(dt_model_put(&f->state, &target, &opts, NULL));
    assert_ok(dt_model_describe(f->other, &meta));
    assert_string_equal(meta.class_names, "");
    assert_int_equal(meta.height + meta.width, 0);
    assert_string_equal(meta.text[DT_META_KEYS - 1], "");
    opts.holds = "momentum";
    assert_ok(dt_model_put(&f->state, &target, &opts, NULL));
    assert_refused(f, f->other, "holds momentum, not a model", true);
}

/* ---- Edited files ---------------------------------------------------------------- */

static const edit nameless = {.field = ""};

TEST_OF_FIXTURE(make_resnet, model_files_release, prefixes_and_counters_do_not_matter)
{
    static const char *const prefix[] = {"module.", "_orig_mod.", "module._orig_mod.",
                                         "model.",  "net.model.", "a.module.b."};

    for (size_t i = 0; i < DT_COUNT_OF(prefix); i++) {
        edit_file(f, &(edit){.of = "", .prefix = prefix[i]});
        assert_loads(f, f->other);
    }
    edit_file(f, &(edit){.of = "layer1.0.conv1.weight", .name = "layer1._orig_mod.0.conv1.weight"});
    assert_loads(f, f->other);
    edit_file(f, &(edit){.of = "layer1.0.bn1.num", .name = "n_averaged"});
    assert_loads(f, f->other);
    edit_file(f, &(edit){.of = "num_batches_tracked", .drop = true});
    assert_loads(f, f->other);
    edit_file(f, &(edit){.of = "num_batches_tracked", .dtype = "F32", .reshape = true});
    assert_loads(f, f->other);
}

TEST_OF_FIXTURE(make_resnet, model_files_release, the_first_misfit_ends_a_load)
{
    static const struct {
        edit edit;
        const char *words;
    } rows[] = {
        {{.of = "layer1.0.conv1.weight", .drop = true},
         "resnet50: tensor 'layer1.0.conv1.weight' is missing"},
        {{.of = "running_var", .drop = true}, "'bn1.running_var' is missing"},
        {{.of = "layer1.0.bn1.num", .name = "extra\x1b[2J.weight"},
         "'extra?[2J.weight' is not the network's"},
        {{.of = "layer1.0.bn1.num", .name = "module.fc.bias"}, "'fc.bias' is not the network's"},
        {{.of = "layer1.0.bn1.weight", .reshape = true},
         "'layer1.0.bn1.weight' is [4, 1], the network's [4]; choose --net, --variant, --stem"},
        {{.of = "fc.weight", .reshape = true},
         "'fc.weight' is [10, 128, 1], the network's [10, 128]; all but"},
        {{.of = "layer1", .prefix = "model."}, "'layer1.0.conv1.weight' is missing"},
        {{.of = "fc.bias", .drop = true}, "'fc.bias' is missing; all but the classifier fits"},
        {{.of = "layer2.1.bn2.running_var", .dtype = "BF16", .bits = 0x7f80},
         "'layer2.1.bn2.running_var': element 1 is not a finite number"},
        {{.of = "layer2.1.bn2.running_var", .dtype = "BF16", .bits = 0xffc0},
         "'layer2.1.bn2.running_var': element 1 is not a finite number"},
        {{.of = "layer2.1.bn2.running_var", .dtype = "BF16", .bits = 0xbf80},
         "'layer2.1.bn2.running_var': element 1 is -1, and a variance is not negative"},
        {{.field = "net", .value = "vgg11"}, "--net 'vgg11', this run has --net 'resnet50'"},
        {{.field = "variant", .value = "mindspore"},
         "--variant 'mindspore', this run has --variant 'torchvision'"},
        {{.field = "stem", .value = "imagenet"}, "--stem 'imagenet', this run has --stem 'cifar'"},
        {{.field = "normalize", .value = "\ntutorial"},
         "--normalize '?tutorial', this run has --normalize 'cifar'"},
    };

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        edit_file(f, &rows[i].edit);
        assert_refused(f, f->other, rows[i].words, !rows[i].edit.bits);
    }
}

TEST_OF_FIXTURE(make_resnet, model_files_release, narrow_floats_are_read)
{
    dt_model_read r; /* what averages and converts */
    dt_model_meta meta;

    edit_file(f, &(edit){.of = "", .dtype = "BF16"});
    assert_ok(dt_model_describe(f->other, &meta));
    assert_ok(dt_model_read_open(&r, &meta, &f->net->spec));
    assert_ok(dt_model_load(&r.state, f->other, "cifar", true));
    for (size_t i = 0; i < f->floats; i++) {
        uint32_t bits;
        memcpy(&bits, &f->state.master[i], sizeof bits);
        bits &= 0xffff0000u;
        assert_memory_equal(&r.state.master[i], &bits, sizeof bits);
    }
    dt_model_read_close(&r);
}

/* Any byte of a file's header is changed in three ways or removed, and the file is cut anywhere in
 * it: it loads to the same numbers, or is refused with its name. */
TEST_OF_FIXTURE(make_vgg, model_files_release, damaged_headers_load_equal_or_are_refused)
{
    char *file = NULL;
    size_t length = 0, loaded = 0;
    dt_weights s;

    assert_ok(dt_file_read(AT_FDCWD, f->file, 1 << 28, &file, &length));
    const size_t header = 8 + (size_t)(uint8_t)file[0] + 256u * (uint8_t)file[1];
    weights_take(f->net, &s);
    dt_log_init(1, 2); /* warnings are rank 0's */
    for (size_t i = 0; i < 5 * header; i++) {
        const size_t at = i / 5, kind = i % 5;
        const size_t n = kind < 3 ? length : kind == 3 ? length - 1 : at;
        char *copy = malloc(n + 1); /* one byte more: sanitizers see all others */
        memcpy(copy, file, n);
        if (kind < 3)
            copy[at] = (char)(copy[at] ^ "\1\20\200"[kind]);
        else if (kind == 3)
            memcpy(copy + at, file + at + 1, n - at);
        memset(s.master, 0, (f->floats + 2 * f->channels) * sizeof *s.master);
        dt_safetensors *m = NULL;
        dt_status st = dt_safetensors_open(&m, "m.safetensors", copy, n);
        if (st == DT_OK)
            st = dt_model_load_open(&s, m, NULL, true);
        if (st == DT_OK) {
            assert_same_state(f, &s);
            loaded++;
        } else {
            assert_fails(st, DT_FORMAT, "m.safetensors");
        }
        free(copy);
    }
    dt_log_init(0, 1);
    assert_in_range(loaded, 1, header); /* of 5 times as many */
    weights_give(&s);
    free(file);
}

TEST_OF_FIXTURE(make_resnet, model_files_release, files_that_name_no_network_get_one_warning)
{
    static const char *const want[] = {"resnet50", "torchvision", "cifar", "cifar", "32", "16"};
    dt_model_meta meta;
    capture c;

    for (int foreign = 0; foreign < 2; foreign++) {
        edit_file(f, foreign ? &nameless : &(edit){.of = NULL});
        capture_begin(&c);
        assert_loads(f, f->other);
        assert_int_equal(capture_end(&c), foreign); /* lines */
        assert_int_equal(c.text[0] != '\0', foreign);
        assert_ok(dt_model_describe(f->other, &meta));
        for (int i = 0; i < (int)DT_COUNT_OF(want); i++)
            assert_string_equal(meta.text[i], foreign ? "" : want[i]);
    }
    assert_non_null(strstr(c.text, f->other));
    assert_non_null(strstr(c.text, "--net resnet50 --variant torchvision --stem cifar and --norm"));
    assert_int_equal(c.text[strlen(c.text) - 1], '\n');
}

/* ---- Other networks ---------------------------------------------------------------------- */

/* The head of 1000 classes is left out, in any naming; all else is taken. */
TEST_OF_FIXTURE(make_resnet, model_files_release, a_body_is_taken_without_the_head)
{
    static const char *const names[] = {"torchvision", "kuangliu", "mindspore"};
    dt_net_spec spec = resnet;
    dt_net *net = NULL;
    dt_weights large, s;

    spec.classes = 1000;
    assert_ok(dt_net_create(&net, &spec));
    weights_take(net, &large);
    state_fill(&large);
    large.running_var[0] = 1;
    weights_take(f->net, &s);
    for (size_t k = 0; k < DT_COUNT_OF(names); k++) {
        model_save(&large, f->file, names[k], 0);
        assert_refused(f, f->file, "--no-init-head", true);
        memset(s.master, 0, (f->floats + 2 * f->channels) * sizeof(float));
        assert_ok(dt_model_load(&s, f->file, "cifar", false));
        for (size_t i = 0; i < f->net->params; i++) {
            const dt_param *p = &f->net->param[i];
            const bool head = strncmp(p->name, "fc.", 3) == 0;
            assert_int_equal(dt_net_is_head(f->net, i), head);
            for (size_t e = p->offset; e < p->offset + p->count; e++)
                assert_true(head ? s.master[e] == 0 : s.master[e] == f->state.master[e]);
        }
        assert_memory_equal(s.running_mean, large.running_mean, 2 * f->channels * sizeof(float));
    }
    weights_give(&s);
    weights_give(&large);
    dt_net_destroy(net);
}

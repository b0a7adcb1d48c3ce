/* format_modelfile_foreign.c - model files as others make them: MindSpore's names, 16-bit floats,
 * other classes. */
#include "model_files.h"

#include "format/format.h"

static int make(void **state)
{
    const dt_net_spec spec = {.net = "resnet50",
                              .variant = "mindspore",
                              .stem = "imagenet",
                              .image_size = 32,
                              .classes = 10,
                              .width_divisor = 16};
    fixture *f = *state = model_files_make(&spec);

    for (size_t i = 0; i < dt_net_param_count(f->net); i++) /* not what lies between tensors */
        for (size_t k = 0; k < dt_net_param(f->net, i)->count; k++)
            f->state.master[dt_net_param(f->net, i)->offset + k] = (float)(i * 1000 + k) / 8;
    for (size_t i = 0; i < 2 * f->channels; i++)
        f->state.running_mean[i] = (float)i / 4;
    return 0;
}

/* ---- Names ------------------------------------------------------------------------------- */

/* reference: mindspore-ai/docs, docs/sample_code/distributed_training/resnet.py: the cells of
 * ResNet, MakeLayer0 to 3, ResidualBlock and ResidualBlockWithDown, and the parameters of
 * nn.Conv2d, nn.BatchNorm2d and nn.Dense. */
static size_t mindspore_names(char name[300][64])
{
    static const char *const blocks[] = {"abc", "abcd", "abcdef", "abc"};
    static const char *const parts[] = {"gamma", "beta", "moving_mean", "moving_variance"};
    size_t n = 0;
    char at[32];

#define NAME(...) snprintf(name[n++], 64, __VA_ARGS__)
    NAME("conv1.weight");
    for (int part = 0; part < 4; part++)
        NAME("bn1.%s", parts[part]);
    NAME("fc.weight");
    NAME("fc.bias");
    for (int layer = 0; layer < 4; layer++)
        for (const char *block = blocks[layer]; *block; block++) {
            snprintf(at, sizeof at, "layer%d.%c", layer + 1, *block);
            for (int i = 1; i <= 3; i++) {
                NAME("%s.conv%d.weight", at, i);
                for (int part = 0; part < 4; part++)
                    NAME("%s.bn%d.%s", at, i, parts[part]);
            }
            if (*block != 'a')
                continue;
            NAME("%s.conv_down_sample.weight", at);
            for (int part = 0; part < 4; part++)
                NAME("%s.bn_down_sample.%s", at, parts[part]);
        }
#undef NAME
    return n;
}

/* What a name stands for: the numbers of the tensor that PyTorch names so. */
static void mindspore_names_mean_the_same(void **state)
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
    const fixture *f = *state;

    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        for (int k = 0; k < 2; k++) {
            const dt_model_file_opts opts = {k ? "mindspore" : "torchvision", "tutorial", 0};
            dt_safetensors *s = NULL;
            assert_ok(dt_model_save(&f->state, f->file, &opts));
            assert_ok(dt_safetensors_open(&s, f->file));
            const dt_tensor *t = tensor_named(s, pair[i][k]);
            assert_true(t->bytes <= sizeof x[k]);
            memset(x[k], 0, sizeof x[k]);
            assert_ok(dt_safetensors_read(s, t, x[k]));
            dt_safetensors_close(s);
        }
        assert_memory_equal(x[0], x[1], sizeof x[0]);
    }
}

static void mindspore_has_the_tutorials_names(void **state)
{
    const fixture *f = *state;
    const dt_model_file_opts opts = {"mindspore", "tutorial", 1234};
    char name[300][64];
    const size_t names = mindspore_names(name);
    dt_safetensors *s = NULL;
    dt_weights back;
    int64_t steps = 0;

    assert_int_equal(names, 267);
    assert_ok(dt_model_save(&f->state, f->file, &opts));
    assert_ok(dt_safetensors_open(&s, f->file));
    assert_int_equal(dt_safetensors_count(s), names);
    for (size_t i = 0; i < names; i++)
        (void)tensor_named(s, name[i]);
    dt_safetensors_close(s);

    weights_take(f->net, &back);
    assert_ok(dt_model_load(&back, f->file, "tutorial"));
    assert_memory_equal(back.master, f->state.master,
                        (f->floats + 2 * f->channels) * sizeof(float));
    weights_give(&back);
    assert_ok(dt_model_read_steps(f->file, &steps)); /* though no tensor counts batches */
    assert_int_equal(steps, 1234);
}

/* ---- 16-bit floats and bad numbers ------------------------------------------------------- */

/* The copy of a file in which float32 is BF16, cut; one number of a tensor is another. */
typedef struct narrow_copy {
    const dt_safetensors *from;
    const char *broken; /* the second number of this tensor has the bits `with` */
    uint16_t with;
    dt_tensor tensor[400];
} narrow_copy;

static void narrow_fill(void *context, size_t i, void *data)
{
    const narrow_copy *c = context;
    const dt_tensor *t = dt_safetensors_get(c->from, i);
    const bool narrows = strcmp(t->dtype, "F32") == 0;
    uint16_t *wide = malloc(t->bytes), *narrow = data;

    assert_non_null(wide);
    assert_ok(dt_safetensors_read(c->from, t, wide));
    if (!narrows)
        memcpy(data, wide, t->bytes);
    for (size_t k = 0; narrows && k < t->bytes / 4; k++)
        narrow[k] = k == 1 && strcmp(t->name, c->broken) == 0 ? c->with : wide[2 * k + 1];
    free(wide);
}

static void narrow_write(const fixture *f, narrow_copy *c)
{
    const dt_model_file_opts opts = {"torchvision", "tutorial", 0};
    dt_safetensors *s = NULL;

    assert_ok(dt_model_save(&f->state, f->file, &opts));
    assert_ok(dt_safetensors_open(&s, f->file));
    c->from = s;
    for (size_t i = 0; i < dt_safetensors_count(s); i++) {
        c->tensor[i] = *dt_safetensors_get(s, i);
        if (strcmp(c->tensor[i].dtype, "F32") == 0)
            c->tensor[i].dtype = "BF16";
    }
    assert_ok(
        dt_safetensors_write(f->other, &(dt_safetensors_content){.tensor = c->tensor,
                                                                 .tensors = dt_safetensors_count(s),
                                                                 .fill = narrow_fill,
                                                                 .context = c}));
    dt_safetensors_close(s);
}

static void narrow_floats_are_read(void **state)
{
    const fixture *f = *state;
    narrow_copy c = {.broken = ""};
    dt_weights s;
    dt_model_read r; /* what averages and converts */

    narrow_write(f, &c);
    weights_take(f->net, &s);
    assert_ok(dt_model_load(&s, f->other, "tutorial"));
    for (size_t i = 0; i < f->floats + 2 * f->channels; i++) {
        uint32_t bits;
        memcpy(&bits, &f->state.master[i], sizeof bits);
        bits &= 0xffff0000u;
        assert_memory_equal(&s.master[i], &bits, sizeof bits);
    }
    weights_give(&s);
    assert_ok(dt_model_read_open(&r, f->other, dt_net_spec_of(f->net)));
    dt_model_read_close(&r);
}

static void bad_numbers_are_refused(void **state)
{
    static const struct {
        uint16_t bits;
        const char *words;
    } rows[] = {{0x7f80, "element 1 is not a finite number"},
                {0xffc0, "element 1 is not a finite number"},
                {0xbf80, "element 1 is -1, and a variance is not negative"}};
    const fixture *f = *state;
    char words[100];
    dt_weights s;

    weights_take(f->net, &s);
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        narrow_copy c = {.broken = "layer2.1.bn2.running_var", .with = rows[i].bits};
        narrow_write(f, &c);
        snprintf(words, sizeof words, "'%s': %s", c.broken, rows[i].words);
        assert_fails(dt_model_load(&s, f->other, "tutorial"), DT_FORMAT, words);
    }
    weights_give(&s);
}

/* ---- Other classes ----------------------------------------------------------------------- */

/* The head of 1000 classes is left out, in any naming; all else is taken. */
static void body_is_taken_without_the_head(void **state)
{
    static const char *const names[] = {"torchvision", "kuangliu", "mindspore"};
    const fixture *f = *state;
    dt_net_spec spec = *dt_net_spec_of(f->net);
    fixture large = {.net = NULL};
    dt_weights s;

    spec.classes = 1000;
    assert_ok(dt_net_create(&large.net, &spec));
    large.floats = dt_net_slab_floats(large.net);
    large.channels = f->channels;
    weights_take(large.net, &large.state);
    for (size_t i = 0; i < large.floats + 2 * large.channels; i++)
        large.state.master[i] = (float)i;
    weights_take(f->net, &s);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const dt_model_file_opts opts = {names[k], "tutorial", 0};
        assert_ok(dt_model_save(&large.state, f->file, &opts));
        assert_fails(dt_model_load(&s, f->file, "tutorial"), DT_FORMAT, "--no-init-head");
        memcpy(s.master, f->state.master, (f->floats + 2 * f->channels) * sizeof(float));
        assert_ok(dt_model_load_body(&s, f->file, "tutorial"));
        for (size_t i = 0; i < dt_net_param_count(f->net); i++) {
            const dt_param *p = dt_net_param(f->net, i), *q = dt_net_param(large.net, i);
            const bool head = strncmp(p->name, "fc.", 3) == 0;
            const float *want = head ? f->state.master + p->offset : large.state.master + q->offset;
            assert_int_equal(dt_net_is_head(f->net, i), head);
            assert_memory_equal(s.master + p->offset, want, p->count * sizeof *want);
        }
        assert_memory_equal(s.running_mean, large.state.running_mean,
                            2 * f->channels * sizeof(float));
    }
    weights_give(&s);
    weights_give(&large.state);
    dt_net_destroy(large.net);
}

#define WITH_RESNET(name) cmocka_unit_test_setup_teardown(name, make, model_files_release)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RESNET(mindspore_has_the_tutorials_names),
        WITH_RESNET(mindspore_names_mean_the_same),
        WITH_RESNET(narrow_floats_are_read),
        WITH_RESNET(bad_numbers_are_refused),
        WITH_RESNET(body_is_taken_without_the_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

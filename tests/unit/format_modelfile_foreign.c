/* format_modelfile_foreign.c - model files as others make them: MindSpore's names, 16-bit floats,
 * other classes. */
#include "model_files.h"

#include <math.h>

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

/* ---- 16-bit floats ----------------------------------------------------------------------- */

/* Where a type's exponent is, and its bias. */
typedef struct narrow_type {
    const char *dtype;
    int fraction_bits, bias;
} narrow_type;
static const narrow_type f16 = {"F16", 10, 15}, bf16 = {"BF16", 7, 127};

static bool narrow_is_finite(const narrow_type *t, unsigned bits)
{
    const unsigned ones = 0x7fffu >> t->fraction_bits << t->fraction_bits;
    return (bits & ones) != ones;
}

static double narrow_value(const narrow_type *t, unsigned bits)
{
    const int exponent = (int)((bits & 0x7fff) >> t->fraction_bits);
    const int hidden = exponent > 0 ? 1 << t->fraction_bits : 0;
    const int fraction = (int)bits & ((1 << t->fraction_bits) - 1);
    const double x =
        ldexp(hidden + fraction, (exponent > 0 ? exponent : 1) - t->bias - t->fraction_bits);
    return bits & 0x8000 ? -x : x;
}

/* The copy of a file in which float32 is another type: all finite patterns in turn, without
 * their signs in variances. */
typedef struct narrow_copy {
    const narrow_type *type;
    const char *broken; /* the second number of this tensor has the bits `with` */
    unsigned with, next;
    dt_tensor tensor[400];
    size_t tensors;
} narrow_copy;

static void narrow_fill(void *context, size_t i, void *data)
{
    narrow_copy *c = context;
    const dt_tensor *t = &c->tensor[i];
    int64_t count = 1;

    if (strcmp(t->dtype, "I64") == 0) {
        memset(data, 0, 8);
        return;
    }
    for (int d = 0; d < t->rank; d++)
        count *= t->shape[d];
    const unsigned kept = strstr(t->name, "running_var") ? 0x7fff : 0xffff;
    for (int64_t k = 0; k < count; k++) {
        while (!narrow_is_finite(c->type, c->next))
            c->next++;
        const bool breaks = c->broken && k == 1 && strcmp(t->name, c->broken) == 0;
        const uint16_t bits = (uint16_t)(breaks ? c->with : c->next & kept);
        memcpy((char *)data + 2 * k, &bits, sizeof bits);
        c->next = (c->next + 1) & 0xffff;
    }
}

static void narrow_write(const fixture *f, narrow_copy *c)
{
    const dt_model_file_opts opts = {"torchvision", "tutorial", 0};
    dt_safetensors *s = NULL;

    assert_ok(dt_model_save(&f->state, f->file, &opts));
    assert_ok(dt_safetensors_open(&s, f->file));
    c->tensors = dt_safetensors_count(s);
    for (size_t i = 0; i < c->tensors; i++) {
        c->tensor[i] = *dt_safetensors_get(s, i);
        if (strcmp(c->tensor[i].dtype, "F32") == 0)
            c->tensor[i].dtype = c->type->dtype;
    }
    const dt_field metadata[] = {{"dtrain.net", "resnet50"},     {"dtrain.variant", "mindspore"},
                                 {"dtrain.stem", "imagenet"},    {"dtrain.normalize", "tutorial"},
                                 {"dtrain.width_divisor", "16"}, {"dtrain.image_size", "32"}};
    assert_ok(dt_safetensors_write(f->other, &(dt_safetensors_content){.tensor = c->tensor,
                                                                       .tensors = c->tensors,
                                                                       .metadata = metadata,
                                                                       .fields = 6,
                                                                       .fill = narrow_fill,
                                                                       .context = c}));
    dt_safetensors_close(s);
}

/* Every number of f->file is the one that f->other has in 16 bits; returns how many. */
static size_t narrow_compare(const fixture *f, const narrow_type *type)
{
    static float wide[1 << 16];
    static uint16_t narrow[1 << 16];
    dt_safetensors *s = NULL, *other = NULL;
    size_t compared = 0;

    assert_ok(dt_safetensors_open(&s, f->file));
    assert_ok(dt_safetensors_open(&other, f->other));
    for (size_t i = 0; i < dt_safetensors_count(s); i++) {
        const dt_tensor *t = dt_safetensors_get(s, i);
        const size_t count = t->bytes / sizeof *wide;
        if (strcmp(t->dtype, "I64") == 0)
            continue;
        assert_true(t->bytes <= sizeof wide);
        assert_ok(dt_safetensors_read(s, t, wide));
        assert_ok(dt_safetensors_read(other, tensor_named(other, t->name), narrow));
        for (size_t k = 0; k < count; k++) {
            assert_true((double)wide[k] == narrow_value(type, narrow[k]));
            assert_int_equal(signbit(wide[k]) != 0, narrow[k] >> 15);
        }
        compared += count;
    }
    dt_safetensors_close(s);
    dt_safetensors_close(other);
    return compared;
}

static void narrow_floats_are_read(const fixture *f, const narrow_type *type)
{
    const dt_model_file_opts opts = {"torchvision", "tutorial", 0};
    narrow_copy c = {.type = type};
    dt_weights s;

    narrow_write(f, &c);
    weights_take(f->net, &s);
    assert_ok(dt_model_load(&s, f->other, "tutorial"));
    assert_ok(dt_model_save(&s, f->file, &opts));
    assert_true(narrow_compare(f, type) > 0xffff); /* all patterns */
    weights_give(&s);

    dt_model_read r; /* what averages and converts */
    assert_ok(dt_model_read_open(&r, f->other, dt_net_spec_of(f->net)));
    dt_model_read_close(&r);
}

static void f16_is_read(void **state)
{
    narrow_floats_are_read(*state, &f16);
}

static void bf16_is_read(void **state)
{
    narrow_floats_are_read(*state, &bf16);
}

static void what_is_not_finite_is_refused(void **state)
{
    const fixture *f = *state;
    const struct {
        const narrow_type *type;
        unsigned bits;
    } cases[] = {{&f16, 0x7c00},  {&f16, 0xfc00},  {&f16, 0x7e00},  {&f16, 0x7c01}, {&f16, 0xffff},
                 {&bf16, 0x7f80}, {&bf16, 0xff80}, {&bf16, 0x7fc0}, {&bf16, 0x7f81}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        narrow_copy c = {
            .type = cases[i].type, .broken = "layer2.1.bn2.running_var", .with = cases[i].bits};
        dt_weights s;
        narrow_write(f, &c);
        weights_take(f->net, &s);
        assert_fails(dt_model_load(&s, f->other, "tutorial"), DT_FORMAT,
                     "'layer2.1.bn2.running_var': element 1 is not a finite number");
        weights_give(&s);
    }
}

static void a_negative_variance_is_refused(void **state)
{
    const fixture *f = *state;
    narrow_copy c = {.type = &bf16, .broken = "layer2.1.bn2.running_var", .with = 0xbf80}; /* -1 */
    dt_weights s;

    narrow_write(f, &c);
    weights_take(f->net, &s);
    assert_fails(dt_model_load(&s, f->other, "tutorial"), DT_FORMAT,
                 "'layer2.1.bn2.running_var': element 1 is -1, and a variance is not negative");
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
        WITH_RESNET(f16_is_read),
        WITH_RESNET(bf16_is_read),
        WITH_RESNET(what_is_not_finite_is_refused),
        WITH_RESNET(a_negative_variance_is_refused),
        WITH_RESNET(body_is_taken_without_the_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Model files as others make them: MindSpore's names. */
#include "test.h"

#include <unistd.h>

#include "modelread.h"
#include "safetensors.h"

typedef struct fixture {
    char dir[64], file[128];
    dt_net *net;
    size_t floats, channels;
    float *number; /* [floats + 2 * channels]: what state points to */
    dt_model_state state;
} fixture;

static void state_take(const fixture *f, dt_model_state *s)
{
    float *x = calloc(f->floats + 2 * f->channels, sizeof *x);
    assert_non_null(x);
    *s = (dt_model_state){f->net, x, x + f->floats, x + f->floats + f->channels};
}

static int make(void **state)
{
    const dt_net_spec spec = {.net = "resnet50", .variant = "mindspore", .stem = "imagenet",
                              .image_size = 32, .classes = 10, .width_divisor = 16};
    fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    dt_fail_clear(); /* of a test that has failed */
    snprintf(f->dir, sizeof f->dir, "foreign-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->file, sizeof f->file, "%s/model.safetensors", f->dir);
    assert_ok(dt_net_create(&f->net, &spec));
    f->floats = dt_net_slab_floats(f->net);
    f->channels = dt_net_norm_channels(f->net);
    state_take(f, &f->state);
    for (size_t i = 0; i < dt_net_param_count(f->net); i++) /* not what lies between tensors */
        for (size_t k = 0; k < dt_net_param(f->net, i)->count; k++)
            f->state.master[dt_net_param(f->net, i)->offset + k] = (float)(i * 1000 + k) / 8;
    for (size_t i = 0; i < 2 * f->channels; i++)
        f->state.running_mean[i] = (float)i / 4;
    *state = f;
    return 0;
}

static int release(void **state)
{
    fixture *f = *state;
    unlink(f->file);
    assert_int_equal(rmdir(f->dir), 0);
    free(f->state.master);
    dt_net_destroy(f->net);
    free(f);
    return 0;
}

static const dt_tensor *find(const dt_safetensors *s, const char *name)
{
    for (size_t i = 0; i < dt_safetensors_count(s); i++)
        if (strcmp(dt_safetensors_get(s, i)->name, name) == 0)
            return dt_safetensors_get(s, i);
    return NULL;
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
    char at[16];

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
            const dt_tensor *t = find(s, pair[i][k]);
            assert_non_null(t);
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
    dt_model_state back;
    int64_t steps = 0;

    assert_int_equal(names, 267);
    assert_ok(dt_model_save(&f->state, f->file, &opts));
    assert_ok(dt_safetensors_open(&s, f->file));
    assert_int_equal(dt_safetensors_count(s), names);
    for (size_t i = 0; i < names; i++)
        if (!find(s, name[i]))
            fail_msg("no tensor %s", name[i]);
    dt_safetensors_close(s);

    state_take(f, &back);
    assert_ok(dt_model_load(&back, f->file, "tutorial"));
    assert_memory_equal(back.master, f->state.master,
                        (f->floats + 2 * f->channels) * sizeof(float));
    free(back.master);
    assert_ok(dt_model_read_steps(f->file, &steps)); /* though no tensor counts batches */
    assert_int_equal(steps, 1234);
}

#define WITH_RESNET(name) cmocka_unit_test_setup_teardown(name, make, release)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RESNET(mindspore_has_the_tutorials_names),
        WITH_RESNET(mindspore_names_mean_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

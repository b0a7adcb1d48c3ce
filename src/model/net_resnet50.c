/* net_resnet50.c - ResNet-50 (He et al. 2015) in two variants.
 *
 * mindspore    the Ascend tutorial's sample code: stride on the first 1x1 of a stage,
 *              TensorFlow's asymmetric "same" padding, Xavier-uniform weights, gamma
 *              U(-0.07, 0.07), running statistics with momentum 0.01
 * torchvision  stride on the 3x3 (v1.5), symmetric padding, He-normal weights (fan out),
 *              gamma 1, momentum 0.1
 *
 * Stem: imagenet (7x7 stride 2, 3x3 max pool stride 2) or cifar (3x3 stride 1).
 * 23,528,522 parameters for 10 classes (imagenet stem), 23,520,842 (cifar stem). */
#include "net.h"

typedef struct resnet_variant {
    const char *name;
    bool stride_first; /* on the first 1x1, else on the 3x3 */
    bool same;         /* "same" padding */
    bool xavier;       /* else He-normal, fan out */
    float gamma[2], momentum;
    float fc_bias; /* with xavier: U(+-fc_bias); else PyTorch's default */
} resnet_variant;

static const resnet_variant resnet_variants[] = {
    {"mindspore", true, true, true, {-0.07f, 0.07f}, 0.01f, 0.07f},
    {"torchvision", false, false, false, {1, 1}, 0.1f, 0},
};
static const struct {
    int blocks, out;
} resnet_stages[] = {{3, 256}, {4, 512}, {6, 1024}, {3, 2048}};

static const resnet_variant *resnet_variant_of(const char *name)
{
    for (size_t i = 0; i < DT_COUNT_OF(resnet_variants); i++)
        if (strcmp(name, resnet_variants[i].name) == 0)
            return &resnet_variants[i];
    return NULL;
}

static dt_status resnet50_resolve(dt_net_spec *spec)
{
    const bool cifar = strcmp(spec->stem, "cifar") == 0;
    const resnet_variant *v = resnet_variant_of(spec->variant);

    if (!v)
        return dt_fail(DT_CONFIG, "resnet50 has no variant '%s': want mindspore or torchvision",
                       spec->variant);
    spec->variant = v->name;
    spec->stem = cifar ? "cifar" : "imagenet";
    if (cifar && spec->image_size == 0)
        spec->image_size = 32;
    return DT_OK;
}

/* Window attributes of a square kernel on the value's image. */
static dt_attr resnet_window(const dt_net *net, const resnet_variant *v, int value, int k,
                             int stride)
{
    const dt_shape s = net->own->shape[value];
    const int64_t size[2] = {s.h, s.w};
    dt_attr a = {.kernel = {k, k}, .stride = {stride, stride}};

    for (int d = 0; d < 2; d++) {
        int total = 2 * ((k - 1) / 2);
        if (v->same) { /* output ceil(size / stride); the odd one goes to the end */
            const int64_t out = (size[d] + stride - 1) / stride;
            const int64_t need = (out - 1) * stride + k - size[d];
            total = need > 0 ? (int)need : 0;
        }
        a.pad[d] = total / 2;
        a.pad[d + 2] = total - total / 2;
    }
    return a;
}

static int resnet_conv(dt_net *net, const resnet_variant *v, int x, int64_t out, int k, int stride,
                       const char *prefix, const char *name)
{
    const double in = (double)net->own->shape[x].c, area = k * k;
    dt_attr a = resnet_window(net, v, x, k, stride);
    const float bound = (float)sqrt(6.0 / ((in + (double)out) * area));
    const float std = (float)sqrt(2.0 / ((double)out * area));

    a.out = out;
    a.init_weight[0] = v->xavier ? -bound : std;
    a.init_weight[1] = v->xavier ? bound : std;
    return dt_net_add(net, &dt_op_conv2d, a, x, -1, "%s%s", prefix, name);
}

static int resnet_norm(dt_net *net, const resnet_variant *v, int x, bool relu, const char *prefix,
                       const char *name)
{
    const dt_attr a = {.eps = 1e-5f,
                       .momentum = v->momentum,
                       .init_gamma = {v->gamma[0], v->gamma[1]},
                       .relu = relu};
    return dt_net_add(net, &dt_op_batchnorm, a, x, -1, "%s%s", prefix, name);
}

/* 1x1 down to out/4, 3x3, 1x1 up to out; the shortcut is projected in a stage's first. */
static int resnet_block(dt_net *net, const resnet_variant *v, int x, int64_t out, int stride,
                        bool project, const char *prefix)
{
    const int first = v->stride_first ? stride : 1, second = v->stride_first ? 1 : stride;
    const int64_t mid = out / 4;
    int y = resnet_conv(net, v, x, mid, 1, first, prefix, "conv1"), shortcut = x;

    y = resnet_norm(net, v, y, true, prefix, "bn1");
    y = resnet_conv(net, v, y, mid, 3, second, prefix, "conv2");
    y = resnet_norm(net, v, y, true, prefix, "bn2");
    y = resnet_conv(net, v, y, out, 1, 1, prefix, "conv3");
    y = resnet_norm(net, v, y, true, prefix, "bn3");
    if (project) {
        shortcut = resnet_conv(net, v, x, out, 1, stride, prefix, "downsample.0");
        shortcut = resnet_norm(net, v, shortcut, false, prefix, "downsample.1");
    }
    dt_net_join(net, y, shortcut);
    return y;
}

static int resnet50_build(dt_net *net, int x)
{
    const resnet_variant *v = resnet_variant_of(net->spec.variant);
    const bool imagenet = strcmp(net->spec.stem, "imagenet") == 0;
    const int64_t first = dt_net_width(net, 64);

    x = resnet_conv(net, v, x, first, imagenet ? 7 : 3, imagenet ? 2 : 1, "", "conv1");
    x = resnet_norm(net, v, x, true, "", "bn1");
    if (imagenet)
        x = dt_net_add(net, &dt_op_maxpool, resnet_window(net, v, x, 3, 2), x, -1, "maxpool");
    for (int s = 0; s < 4; s++)
        for (int b = 0; b < resnet_stages[s].blocks; b++) {
            const char prefix[] = {'l', 'a', 'y', 'e', 'r', (char)('1' + s), '.', (char)('0' + b),
                                   '.', '\0'};
            const int64_t out = 4 * dt_net_width(net, resnet_stages[s].out / 4);
            x = resnet_block(net, v, x, out, s > 0 && b == 0 ? 2 : 1, b == 0, prefix);
        }
    x = dt_net_add(net, &dt_op_globalavgpool, (dt_attr){0}, x, -1, "avgpool");

    dt_attr fc = dt_net_affine(net, x, net->spec.classes, 0, true);
    if (v->xavier) {
        fc.init_weight[1] = (float)sqrt(6.0 / (double)(net->own->shape[x].c + fc.out));
        fc.init_weight[0] = -fc.init_weight[1];
        fc.init_bias[1] = v->fc_bias;
        fc.init_bias[0] = -v->fc_bias;
    }
    return dt_net_add(net, &dt_op_linear, fc, x, -1, "fc");
}

/* mindspore: the sample code's cells, whose batch norms are nn.BatchNorm2d of MindSpore. */
#define MINDSPORE_NORM(norm)                                                                       \
    {"mindspore", norm ".weight", norm ".gamma"},                                                  \
    {                                                                                              \
        "mindspore", norm ".bias", norm ".beta"                                                    \
    }
static const dt_rename resnet50_rename[] = {
    {"kuangliu", "downsample.", "shortcut."},
    {"kuangliu", "fc.", "linear."},
    {"mindspore", "downsample.0.", "conv_down_sample."},
    {"mindspore", "downsample.1.", "bn_down_sample."},
    {"mindspore", ".0.", ".a."},
    {"mindspore", ".1.", ".b."},
    {"mindspore", ".2.", ".c."},
    {"mindspore", ".3.", ".d."},
    {"mindspore", ".4.", ".e."},
    {"mindspore", ".5.", ".f."},
    MINDSPORE_NORM("bn1"),
    MINDSPORE_NORM("bn2"),
    MINDSPORE_NORM("bn3"),
    MINDSPORE_NORM("bn_down_sample"),
    {"mindspore", "running_mean", "moving_mean"},
    {"mindspore", "running_var", "moving_variance"},
    {"mindspore", "num_batches_tracked", NULL},
    {NULL, NULL, NULL},
};
const dt_net_row dt_net_row_resnet50 = {
    .name = "resnet50",
    .schemes = " torchvision kuangliu mindspore",
    .rename = resnet50_rename,
    .size = 224,
    .least = 8,
    .why = "",
    .resolve = resnet50_resolve,
    .build = resnet50_build,
};

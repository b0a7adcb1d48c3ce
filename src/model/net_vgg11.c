/* net_vgg11.c - VGG11 with batch norm (configuration A of Simonyan & Zisserman 2014): 3x3
 * convolutions with bias, and one of two heads.
 *
 * ""     one linear layer, as in the CS744 tutorial and kuangliu's pytorch-cifar; maps larger than
 *        1x1 after the last pool (images above 63 pixels) are averaged, so the parameters do not
 *        depend on the image: 9,231,114 of them for 10 classes
 * wide   three linear layers, 4096, 4096 and the classes, that read the whole maps, and initial
 *        weights as in torchvision's vgg11_bn, without its dropout: 132,868,840 parameters for
 *        1000 classes at 224 pixels, 28,149,514 for 10 at 32 */
#include "net.h"

enum { POOL = 0 };
static const int vgg11_layers[] = {64,  POOL, 128,  POOL, 256, 256, POOL,
                                   512, 512,  POOL, 512,  512, POOL};

static dt_status vgg11_resolve(dt_net_spec *spec)
{
    spec->variant = spec->variant && strcmp(spec->variant, "wide") == 0 ? "wide" : "";
    spec->stem = "";
    return DT_OK;
}

/* PyTorch's default, or torchvision's own: He-normal (fan out) or 0.01, bias 0. */
static dt_attr vgg11_affine(const dt_net *net, int x, int64_t out, int k)
{
    dt_attr a = dt_net_affine(net, x, out, k, true);

    if (net->spec.variant[0]) {
        const float std = k > 0 ? (float)sqrt(2.0 / (k * k * (double)out)) : 0.01f;
        a.init_weight[0] = a.init_weight[1] = std;
        a.init_bias[0] = a.init_bias[1] = 0;
    }
    return a;
}

static int vgg11_wide(dt_net *net, int x)
{
    const int64_t out[] = {dt_net_width(net, 4096), dt_net_width(net, 4096), net->spec.classes};

    net->schemes = " torchvision"; /* the others have one layer */
    for (int i = 0; i < 3; i++) {
        x = dt_net_add(net, &dt_op_linear, vgg11_affine(net, x, out[i], 0), x, -1, "classifier.%d",
                       3 * i);
        if (i < 2)
            x = dt_net_add(net, &dt_op_relu, (dt_attr){0}, x, -1, "classifier.%d", 3 * i + 1);
    }
    return x;
}

static int vgg11_build(dt_net *net, int x)
{
    int index = 0; /* position in nn.Sequential: conv, norm, ReLU count one each */

    for (size_t i = 0; i < DT_COUNT_OF(vgg11_layers); i++) {
        if (vgg11_layers[i] == POOL) {
            x = dt_net_add(net, &dt_op_maxpool, (dt_attr){.kernel = {2, 2}, .stride = {2, 2}}, x,
                           -1, "features.%d", index++);
            continue;
        }
        const dt_attr conv = vgg11_affine(net, x, dt_net_width(net, vgg11_layers[i]), 3);
        x = dt_net_add(net, &dt_op_conv2d, conv, x, -1, "features.%d", index);
        x = dt_net_add(
            net, &dt_op_batchnorm,
            (dt_attr){.eps = 1e-5f, .momentum = 0.1f, .init_gamma = {1, 1}, .relu = true}, x, -1,
            "features.%d", index + 1);
        index += 3;
    }
    if (net->spec.variant[0])
        return vgg11_wide(net, x);
    if (net->own->shape[x].h > 1)
        x = dt_net_add(net, &dt_op_globalavgpool, (dt_attr){0}, x, -1, "avgpool");
    return dt_net_add(net, &dt_op_linear, vgg11_affine(net, x, net->spec.classes, 0), x, -1,
                      "classifier");
}

static const dt_rename vgg11_rename[] = {
    {"cs744", "features.", "layers."}, {"cs744", "classifier.", "fc1."}, {NULL, NULL, NULL}};
const dt_net_row dt_net_row_vgg11 = {
    .name = "vgg11",
    .schemes = " torchvision kuangliu cs744",
    .rename = vgg11_rename,
    .size = 32,
    .least = 32,
    .why = " halves the image five times",
    .resolve = vgg11_resolve,
    .build = vgg11_build,
};

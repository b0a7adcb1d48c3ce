/* net_resnet9.c - the nine-layer residual network of David Page's entry to DAWNBench (2018, "How to
 * train your ResNet"): 3x3 convolutions without bias, each with batch norm and ReLU, max pools, two
 * residuals whose branch ends in a ReLU before it is added, and a linear layer without bias.
 * 6,573,120 parameters for 10 classes. Its logits are meant for --logit-scale 0.125. */
#include "net.h"

static int resnet9_conv(dt_net *net, int x, int64_t out, const char *name)
{
    const dt_attr norm = {.eps = 1e-5f, .momentum = 0.1f, .init_gamma = {1, 1}, .relu = true};

    x = dt_net_add(net, &dt_op_conv2d, dt_net_affine(net, x, out, 3, false), x, -1, "%s.conv",
                   name);
    return dt_net_add(net, &dt_op_batchnorm, norm, x, -1, "%s.bn", name);
}

static int resnet9_layer(dt_net *net, int x, int64_t out, bool residual, const char *name)
{
    const dt_attr pool = {.kernel = {2, 2}, .stride = {2, 2}};
    char inner[2][32];

    x = resnet9_conv(net, x, out, name);
    x = dt_net_add(net, &dt_op_maxpool, pool, x, -1, "%s.pool", name);
    if (!residual)
        return x;
    for (int i = 0; i < 2; i++)
        snprintf(inner[i], sizeof inner[i], "%s.residual.res%d", name, i + 1);
    const int y = resnet9_conv(net, resnet9_conv(net, x, out, inner[0]), out, inner[1]);
    return dt_net_add(net, &dt_op_add, (dt_attr){0}, x, y, "%s.residual", name);
}

static int resnet9_build(dt_net *net, int x)
{
    x = resnet9_conv(net, x, dt_net_width(net, 64), "prep");
    x = resnet9_layer(net, x, dt_net_width(net, 128), true, "layer1");
    x = resnet9_layer(net, x, dt_net_width(net, 256), false, "layer2");
    x = resnet9_layer(net, x, dt_net_width(net, 512), true, "layer3");
    return dt_net_pool_linear(net, x);
}

const dt_net_row dt_net_row_resnet9 = {
    .name = "resnet9",
    .schemes = " torchvision",
    .size = 32,
    .least = 8,
    .most = 135, /* its last pool has a byte for a place in 16 x 16 */
    .why = " halves the image three times",
    .build = resnet9_build,
};

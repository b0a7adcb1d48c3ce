/* net_airbench.c - the network of Keller Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU"
 * (arXiv 2404.00498, sections 3.1 to 3.3; figures from airbench94 of
 * github.com/KellerJordan/cifar10-airbench): a 2x2 convolution that whitens, three groups of two
 * 3x3 convolutions, each with batch norm without scale and GELU, pools, and a linear layer without
 * bias. 1,972,792 numbers for 10 classes, of which 1,440 are not trained. Its logits are meant for
 * --logit-scale 0.1111 (the program's scaling_factor, 1 / 9). */
#include "net.h"

/* The filters of the first layer are made of the images (section 3.2, init_whitening_conv), each
 * once with either sign; until then they are PyTorch's default. Their bias begins at 0 and is
 * trained in three epochs (whiten_bias_epochs). */
static int airbench_whiten(dt_net *net, int x)
{
    dt_attr conv = dt_net_affine(net, x, 2 * DT_PATCH, 2, true);

    conv.frozen = net->whitens = true;
    conv.bias_epochs = 3;
    conv.init_bias[0] = conv.init_bias[1] = 0;
    x = dt_net_add(net, &dt_op_conv2d, conv, x, -1, "whiten");
    return dt_net_add(net, &dt_op_gelu, (dt_attr){0}, x, -1, "whiten.gelu");
}

/* A partial identity (section 3.3), the rest PyTorch's default. */
static int airbench_conv(dt_net *net, int x, int64_t out, int group, int i)
{
    dt_attr conv = dt_net_affine(net, x, out, 3, false);

    conv.dirac = true;
    return dt_net_add(net, &dt_op_conv2d, conv, x, -1, "layer%d.conv%d", group, i);
}

/* Section 3.1; BatchNorm in the program: gamma is 1, and the old statistics keep 0.6. */
static int airbench_norm(dt_net *net, int x, int group, int i)
{
    const dt_attr norm = {.eps = 1e-12f, .momentum = 0.4f, .init_gamma = {1, 1}, .frozen = true};

    x = dt_net_add(net, &dt_op_batchnorm, norm, x, -1, "layer%d.norm%d", group, i);
    return dt_net_add(net, &dt_op_gelu, (dt_attr){0}, x, -1, "layer%d.gelu%d", group, i);
}

static int airbench_build(dt_net *net, int x)
{
    static const int64_t widths[] = {64, 256, 256};
    const dt_attr pool = {.kernel = {2, 2}, .stride = {2, 2}};

    x = airbench_whiten(net, x);
    for (int i = 0; i < 3; i++) {
        const int64_t out = dt_net_width(net, widths[i]);
        x = airbench_conv(net, x, out, i + 1, 1);
        x = dt_net_add(net, &dt_op_maxpool, pool, x, -1, "layer%d.pool", i + 1);
        x = airbench_norm(net, x, i + 1, 1);
        x = airbench_conv(net, x, out, i + 1, 2);
        x = airbench_norm(net, x, i + 1, 2);
    }
    return dt_net_pool_linear(net, x);
}

const dt_net_row dt_net_row_airbench = {
    .name = "airbench",
    .schemes = " torchvision",
    .size = 32,
    .least = 9,
    .most = 136, /* its last pool has a byte for a place in 16 x 16 */
    .why = " halves the image three times",
    .build = airbench_build,
};

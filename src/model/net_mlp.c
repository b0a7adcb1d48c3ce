/* net_mlp.c - a perceptron of three linear layers with bias, 512, 128 and as many units as there
 * are classes, ReLU between: 1,640,330 parameters for images of 32 pixels and 10 classes. It reads
 * an image channel by channel, as PyTorch flattens it. */
#include "net.h"

static int mlp_linear(dt_net *net, int x, int64_t out, const char *name)
{
    return dt_net_add(net, &dt_op_linear, dt_net_affine(net, x, out, 0, true), x, -1, "%s", name);
}

static int mlp_build(dt_net *net, int x)
{
    x = mlp_linear(net, x, dt_net_width(net, 512), "input");
    x = dt_net_add(net, &dt_op_relu, (dt_attr){0}, x, -1, "input.relu");
    x = mlp_linear(net, x, dt_net_width(net, 128), "fc");
    x = dt_net_add(net, &dt_op_relu, (dt_attr){0}, x, -1, "fc.relu");
    return mlp_linear(net, x, net->spec.classes, "output");
}

const dt_net_row dt_net_row_mlp = {
    .name = "mlp",
    .schemes = " torchvision",
    .size = 32,
    .build = mlp_build,
};

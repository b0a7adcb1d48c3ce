/* convert.c - the format of a new model file, and how to load it elsewhere. */
#include "store.h"

#include <stdio.h>

dt_status dt_convert_form(const dt_options *o, const char **format, const char **names)
{
    static const char *const endings[][2] = {{".onnx", "onnx"}, {".ckpt", "ckpt"}};
    const bool named = o->given[dt_option_find("names") - dt_option_table];

    *format = strcmp(o->to, "auto") == 0 ? "safetensors" : o->to;
    for (size_t i = 0; i < DT_COUNT_OF(endings) && strcmp(o->to, "auto") == 0; i++)
        if (dt_path_ends(o->out, endings[i][0]))
            *format = endings[i][1];
    *names = strcmp(*format, "ckpt") == 0 && !named ? "mindspore" : o->names;
    if (dt_path_ends(o->out, ".pt") || dt_path_ends(o->out, ".pth"))
        return dt_fail(DT_USAGE,
                       "--out %s: PyTorch's pickles are not written; write model.safetensors, then "
                       "in Python: import torch, safetensors.torch as s; "
                       "torch.save(s.load_file('model.safetensors'), '%s')",
                       o->out, o->out);
    return DT_OK;
}

/* ---- PyTorch's networks ---------------------------------------------------------------- */

/* The last window of an operation that sees the images before it: "same" padding is uneven. */
static void print_pad(const dt_net *net, const char *op, const char *before, const char *after)
{
    for (size_t i = 0; i < dt_net_op_count(net); i++) {
        const dt_net_op n = dt_net_op_get(net, i);
        if (strcmp(n.op, op) != 0)
            continue;
        printf("    net.%s = nn.Sequential(nn.ZeroPad2d((%d, %d, %d, %d)), %s)\n", before, n.pad[1],
               n.pad[3], n.pad[0], n.pad[2], after);
        return;
    }
}

static void print_resnet50(const dt_net *net, bool mindspore)
{
    const dt_net_spec *spec = dt_net_spec_of(net);
    const bool imagenet = strcmp(spec->stem, "imagenet") == 0;

    printf("    net = torchvision.models.resnet50(num_classes=%d)\n", spec->classes);
    if (!imagenet)
        printf("    net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), "
               "nn.Identity()\n");
    if (mindspore)
        printf("    for block in (m for m in net.modules() if hasattr(m, 'conv3')):\n"
               "        block.conv1.stride, block.conv2.stride = block.conv2.stride, "
               "block.conv1.stride\n");
    printf("    net.load_state_dict(state)\n");
    if (mindspore && imagenet) {
        printf("    net.conv1.padding = 0, 0\n");
        print_pad(net, "conv2d", "conv1", "net.conv1");
        print_pad(net, "maxpool", "maxpool", "nn.MaxPool2d(3, 2)");
    }
}

static void print_vgg11(const dt_net *net, bool cs744)
{
    printf("    layers, inputs = [], 3\n"
           "    for c in 64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0:\n"
           "        layers += [nn.Conv2d(inputs, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU()] "
           "if c else [nn.MaxPool2d(2)]\n"
           "        inputs = c or inputs\n"
           "    net = nn.Sequential(collections.OrderedDict(%s=nn.Sequential(*layers), "
           "pool=nn.AdaptiveAvgPool2d(1),\n"
           "        flat=nn.Flatten(), %s=nn.Linear(512, %d)))\n"
           "    net.load_state_dict(state)\n",
           cs744 ? "layers" : "features", cs744 ? "fc1" : "classifier",
           dt_net_spec_of(net)->classes);
}

static void print_pytorch(const dt_net *net, const dt_model_file_opts *f, const char *path)
{
    const dt_net_spec *spec = dt_net_spec_of(net);
    const bool resnet = strcmp(spec->net, "resnet50") == 0;
    float m[3] = {0}, s[3] = {1, 1, 1};

    printf("In PyTorch:\n"
           "    import collections, safetensors.torch, torch%s\n"
           "    from torch import nn\n"
           "    state = safetensors.torch.load_file('%s')\n",
           resnet ? ", torchvision" : "", path);
    if (resnet && strcmp(f->names, "torchvision") == 0 && spec->width_divisor == 1)
        print_resnet50(net, strcmp(spec->variant, "mindspore") == 0);
    else if (strcmp(spec->net, "vgg11") == 0 && spec->width_divisor == 1)
        print_vgg11(net, strcmp(f->names, "cs744") == 0);
    else
        printf("    net.load_state_dict(state) # of the network that has these names\n");
    if (dt_normalize_find(f->normalize, m, s))
        printf("    mean, std = torch.tensor([[[[%.8g]], [[%.8g]], [[%.8g]]], [[[%.8g]], [[%.8g]], "
               "[[%.8g]]]])\n"
               "    net.eval() # net((images - mean) / std), images [N, 3, %d, %d] of RGB in 0 to "
               "1\n",
               (double)m[0], (double)m[1], (double)m[2], (double)s[0], (double)s[1], (double)s[2],
               spec->image_size, spec->image_size);
}

/* ---- What was written -------------------------------------------------------------------- */

/* A network that has these names without being this variant. */
static void warn_variant(const dt_net_spec *spec, const char *names)
{
    const char *of = strcmp(names, "mindspore") == 0 ? "mindspore" : "torchvision";

    if (spec->variant[0] && strcmp(spec->variant, of) != 0)
        dt_warn("the weights are of --variant %s: the network that has the names of %s takes them, "
                "but strides and pads otherwise, and is wrong more often; --to onnx writes the "
                "right network",
                spec->variant, names);
}

void dt_convert_explain(const dt_net *net, const dt_model_file_opts *f, const char *path)
{
    const dt_net_spec *spec = dt_net_spec_of(net);

    if (strcmp(f->format, "onnx") == 0) {
        printf("With ONNX Runtime:\n"
               "    import numpy, onnxruntime\n"
               "    net = onnxruntime.InferenceSession('%s')\n"
               "    net.run(None, {'image': images}) # numpy.float32 [N, 3, %d, %d], %s\n",
               path, spec->image_size, spec->image_size,
               f->raw_input ? "normalised" : "RGB in 0 to 1");
        return;
    }
    warn_variant(spec, f->names);
    if (strcmp(f->format, "ckpt") == 0)
        printf("In MindSpore:\n"
               "    mindspore.load_param_into_net(net, mindspore.load_checkpoint('%s'))\n",
               path);
    else
        print_pytorch(net, f, path);
}

/* convert.c - the format of a new model file, and how to load it elsewhere. */
#include "store.h"

#include <stdio.h>

dt_status dt_convert_form(const dt_options *o, const char **format, const char **names)
{
    const char *named_by_end = dt_path_ends(o->out, ".onnx")   ? "onnx"
                               : dt_path_ends(o->out, ".ckpt") ? "ckpt"
                                                               : "safetensors";
    const bool named = o->given[dt_option_find("names") - dt_option_table];

    *format = strcmp(o->to, "auto") == 0 ? named_by_end : o->to;
    *names = strcmp(*format, "ckpt") == 0 && !named ? "mindspore" : o->names;
    if (dt_path_ends(o->out, ".pt") || dt_path_ends(o->out, ".pth"))
        return dt_fail(DT_USAGE,
                       "--out %s: PyTorch's pickles are not written; write model.safetensors, then "
                       "in Python: import torch, safetensors.torch as s; "
                       "torch.save(s.load_file('model.safetensors'), '%s')",
                       o->out, o->out);
    if (o->raw_input && strcmp(*format, "onnx") != 0)
        return dt_fail(DT_USAGE,
                       "--raw-input is for ONNX alone: give --to onnx or --out FILE.onnx");
    return DT_OK;
}

/* ---- What was written -------------------------------------------------------------------- */

/* A network that has these names without being this variant. */
static void warn_variant(const dt_net_spec *spec, const char *names)
{
    const char *of = strcmp(names, "mindspore") == 0 ? "mindspore" : "torchvision";

    if (spec->stem[0] && strcmp(spec->variant, of) != 0)
        dt_warn("the weights are of --variant %s: the network that has the names of %s takes them, "
                "but strides and pads otherwise, and is wrong more often; --to onnx writes the "
                "right network",
                spec->variant, names);
}

void dt_convert_explain(const dt_net *net, const dt_model_file_opts *f, const char *out)
{
    const dt_net_spec *spec = &net->spec;
    char text[2 * PATH_MAX];
    const char *path = dt_python_text(out, text);

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
        printf(
            "In PyTorch, for a network that has these names and shapes:\n"
            "    import safetensors.torch\n"
            "    state = safetensors.torch.load_file('%s')\n"
            "    # images: [N, 3, %d, %d] of RGB in 0 to 1, then dtrain.mean and dtrain.std of its "
            "metadata\n",
            path, spec->image_size, spec->image_size);
}

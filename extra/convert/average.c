/* average.c - the mean of models, and a model in another naming or format. */
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>

#include "convert.h"

/* ---- The format of the file, and how to load it elsewhere ---------------------------------- */

/* The format that --to or the ending of --out names, and the naming: MindSpore's for its own. */
static dt_status convert_form(const dt_options *o, const char **format, const char **names)
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
    return DT_OK;
}

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

/* Print how other programs load that file; warn where their network is another variant. */
static void explain(const dt_net *net, const dt_model_file_opts *f, const char *out)
{
    const dt_net_spec *spec = &net->spec;
    char text[2 * PATH_MAX];
    const char *path = dt_python_text(out, text);

    if (strncmp(f->format, "onnx", 4) == 0) {
        printf("With ONNX Runtime:\n"
               "    import numpy, onnxruntime\n"
               "    net = onnxruntime.InferenceSession('%s')\n"
               "    net.run(None, {'image': images}) # numpy.float32 [N, 3, %d, %d], %s\n",
               path, spec->image_size, spec->image_size,
               f->format[4] ? "normalised" : "RGB in 0 to 1");
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

/* ---- The mean -------------------------------------------------------------------------------- */

/* One slab of everything but momentum, which lies in between. */
typedef struct average {
    dt_options o; /* given ones, and what the first file says; texts are in meta */
    dt_model_meta meta;
    dt_model_read read;
    double *sum; /* [floats + 2 * channels], owned */
    size_t floats, all;
} average;

/* Element i of the sum in the slab of what was read. */
static float *average_number(const average *a, size_t i)
{
    return a->read.slab + (i < a->floats ? i : i + a->floats);
}

static dt_status average_add(average *a, const char *path)
{
    const bool first = !a->sum;

    if (first) {
        DT_TRY(dt_options_read_model(&a->read, path, &a->o, &a->meta));
        a->floats = a->read.net->slab_floats;
        a->all = a->floats + 2 * a->read.net->norm_channels;
        DT_TRY(dt_calloc(&a->sum, a->all, sizeof *a->sum, "the sum of models"));
    }
    DT_TRY(dt_model_load(&a->read.state, path, a->o.normalize, true));
    for (size_t i = 0; i < a->all; i++) { /* not from 0: that would lose -0.0 */
        const double x = (double)*average_number(a, i);
        a->sum[i] = first ? x : a->sum[i] + x;
    }
    return DT_OK;
}

dt_status dt_out_new(const char *out)
{
    char part[PATH_MAX];
    struct stat info;

    if (!out[0])
        return dt_fail(DT_USAGE, "--out FILE is missing: the model file to write");
    DT_TRY(dt_target_check(&DT_TARGET(out)));
    if (stat(out, &info) == 0 && info.st_size > 0)
        return dt_fail(DT_CANTCREATE,
                       "cannot write %s: it exists; choose another --out, or remove it", out);
    snprintf(part, sizeof part, "%s", out);
    if (dt_rundir_held(dirname(part)))
        return dt_fail(DT_CANTCREATE,
                       "cannot write %s: its folder is in use by a run; choose another --out", out);
    return DT_OK;
}

dt_status dt_average(const dt_options *o, const char *const *given, size_t count)
{
    average a = {.o = *o};
    char path[PATH_MAX];
    const char *format = NULL, *names = NULL;
    dt_model_meta last;
    dt_status st = DT_OK;

    DT_TRY(convert_form(o, &format, &names));
    DT_TRY(dt_out_new(o->out)); /* before the work, not after it */
    for (size_t k = 0; k < count; k++) {
        DT_GO(st, dt_newest_model(given[k], path), out);
        DT_GO(st, average_add(&a, path), out);
    }
    for (size_t i = 0; i < a.all; i++)
        *average_number(&a, i) = (float)(a.sum[i] / (double)count);
    DT_GO(st, dt_model_describe(path, &last), out);
    const dt_source_info images = {.class_names = a.meta.class_names[0] ? a.meta.class_names : NULL,
                                   .height = a.meta.height,
                                   .width = a.meta.width};
    a.o.names = names;
    dt_model_file_opts opts = dt_model_says(&a.o, &images, last.steps);
    opts.format = format;
    DT_GO(st, dt_model_put(&a.read.state, &DT_TARGET(o->out), &opts, NULL), out);
    explain(a.read.net, &opts, o->out);

out:
    free(a.sum);
    dt_model_read_close(&a.read);
    return st;
}

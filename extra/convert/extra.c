/* extra.c - models in other forms: their mean, other namings and formats, other pieces; and all
 * that extra/convert adds. */
#include "convert.h"
#include "formats.h"
#include "pieces/pieces.h"

#include <libgen.h>

/* ---- The format of the file, and how to load it elsewhere ---------------------------------- */

/* The format that --to or the ending of --out names, and the naming: MindSpore's for its own. */
static dt_status convert_form(const dt_options *o, const char **format, const char **names)
{
    const char *named_by_end = dt_path_ends(o->out, ".onnx")   ? "onnx"
                               : dt_path_ends(o->out, ".ckpt") ? "ckpt"
                                                               : "safetensors";
    const bool named = o->given[DT_ROW_names];

    if (!o->out[0])
        return dt_fail(DT_USAGE, "--out FILE is missing: the model file to write");
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

/* Print how other programs load that file; warn where their network is another variant. */
static void explain(const dt_net *net, const dt_model_file_opts *f, const char *out)
{
    const dt_net_spec *spec = &net->spec;
    const char *variant = strcmp(f->names, "mindspore") == 0 ? "mindspore" : "torchvision";
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
    if (spec->stem[0] && strcmp(spec->variant, variant) != 0)
        dt_warn("the weights are of --variant %s: the network that has the names of %s takes them, "
                "but strides and pads otherwise, and is wrong more often; --to onnx writes the "
                "right network",
                spec->variant, f->names);
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

/* Whether --out may be written: a new file, or one without a byte, as mktemp makes it: no model is
 * ever replaced. */
static dt_status out_new(const char *out)
{
    char part[PATH_MAX];
    struct stat info;

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

/* The arithmetic mean of the weights and running statistics of model files, checkpoints or the
 * newest states of runs to the file --out. Summed in float64 in the order given and rounded once;
 * the mean of one file has its numbers. num_batches_tracked is the last one's. */
static dt_status average_models(const dt_options *o, const char *const *given, size_t count)
{
    dt_options own = *o; /* given ones, and what the first file says; texts are in meta */
    dt_model_read read = {.net = NULL};
    double *sum = NULL; /* [read.floats] */
    char path[PATH_MAX];
    const char *format = NULL;
    dt_model_meta meta, last;
    dt_status st = DT_OK;

    DT_TRY(convert_form(o, &format, &own.names));
    DT_TRY(out_new(o->out)); /* before the work, not after it */
    for (size_t k = 0; k < count; k++) {
        DT_GO(st, dt_newest_model(given[k], path), out);
        if (k == 0) {
            DT_GO(st, dt_options_read_model(&read, path, &own, &meta), out);
            DT_GO(st, dt_calloc(&sum, read.floats, sizeof *sum, "the sum of models"), out);
        }
        DT_GO(st, dt_model_load(&read.state, path, own.normalize, true), out);
        for (size_t i = 0; i < read.floats; i++) { /* not from 0: that would lose -0.0 */
            const double x = (double)read.slab[i];
            sum[i] = k == 0 ? x : sum[i] + x;
        }
    }
    for (size_t i = 0; i < read.floats; i++)
        read.slab[i] = (float)(sum[i] / (double)count);
    DT_GO(st, dt_model_describe(path, &last), out);
    const dt_source_info images = {.class_names = meta.class_names[0] ? meta.class_names : NULL,
                                   .height = meta.height,
                                   .width = meta.width};
    dt_model_file_opts opts = dt_model_says(&own, &images, last.steps);
    opts.format = format;
    DT_GO(st, dt_model_put(&read.state, &DT_TARGET(o->out), &opts, NULL), out);
    explain(read.net, &opts, o->out);

out:
    free(sum);
    dt_model_read_close(&read);
    return st;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static dt_status copy_fill(const void *context, size_t i, void *data)
{
    const dt_safetensors *f = context;
    return dt_safetensors_read(f, &f->tensor[i], data);
}

/* Metadata but that of pieces. */
static dt_status copy_metadata(const dt_safetensors *f, dt_field **field, size_t *fields)
{
    json_t *all = json_object_get(f->header, "__metadata__");
    const char *key;
    json_t *value;

    DT_TRY(dt_calloc(field, json_object_size(all) + 1, sizeof **field, "metadata"));
    json_object_foreach (all, key, value)
        if (strncmp(key, "DCP_", 4) != 0 && strcmp(key, "dtrain.portion") != 0)
            (*field)[(*fields)++] = (dt_field){key, json_string_value(value)};
    return DT_OK;
}

/* The same tensors in float32, and metadata; with world > 0 one of so many portions. */
static dt_status copy(const dt_safetensors *f, const dt_target *t, int rank, int world)
{
    const dt_portion portion = {.rank = rank, .world = world};
    const dt_model_file_opts opts = {.portion = &portion};
    dt_safetensors_content c = {
        .tensors = f->count, .fill = copy_fill, .context = f, .opts = &opts};
    dt_tensor *tensor = NULL;
    dt_field *field = NULL;
    dt_status st = DT_OK;

    DT_GO(st, dt_calloc(&tensor, f->count + 1, sizeof *tensor, "the list of tensors"), out);
    for (size_t i = 0; i < f->count; i++) {
        tensor[i] = f->tensor[i];
        if (dt_tensor_type_find(tensor[i].dtype)->widen)
            tensor[i].dtype = "F32";
    }
    DT_GO(st, copy_metadata(f, &field, &c.fields), out);
    c.tensor = tensor;
    c.metadata = field;
    st = world > 0 ? dt_portion_put(t, &c, NULL) : dt_safetensors_put(t, &c, NULL);

out:
    DT_FREE(field, tensor);
    return st;
}

static dt_status merge(const dt_safetensors *f, const dt_options *o)
{
    char shown[PATH_MAX], name[DT_PORTION_NAME];

    if (o->shards == 0) {
        DT_TRY(out_new(o->out));
        return copy(f, &DT_TARGET(o->out), 0, 0);
    }
    if (mkdir(o->out, 0777) != 0)
        return dt_fail(DT_CANTCREATE, "cannot make folder '%s': %s; choose another --out", o->out,
                       strerror(errno));
    for (int k = 0; k < (int)o->shards; k++) {
        DT_TRY(dt_path_join(shown, o->out, dt_portion_name(k, name)));
        DT_TRY(copy(f, &DT_TARGET(shown), k, (int)o->shards));
    }
    return DT_OK;
}

/* What is in pieces in files, or a checkpoint or run, as the file --out; with --shards N the folder
 * --out of N files. */
static dt_status merge_models(const dt_options *o, const char *const *path, size_t count)
{
    const char *format = NULL, *names = NULL;
    char newest[PATH_MAX];
    dt_file_bytes *file = NULL;
    dt_safetensors *f = NULL;

    if (count == 1 && o->shards == 0)
        return average_models(o, path, count);
    DT_TRY(convert_form(o, &format, &names));
    if (o->given[DT_ROW_names] || strcmp(format, "safetensors") != 0)
        return dt_fail(DT_USAGE, "merge copies pieces with their names, as safetensors: merge them "
                                 "into one file, then convert that");
    if (o->shards > DT_MAX_PORTIONS)
        return dt_fail(DT_CONFIG, "--shards %lld: at most %d files make a model",
                       (long long)o->shards, DT_MAX_PORTIONS);
    dt_status st = dt_calloc(&file, count, sizeof *file, "files to merge");
    for (size_t i = 0; i < count && st == DT_OK; i++)
        snprintf(file[i].path, sizeof file[i].path, "%s", path[i]);
    if (st == DT_OK && count == 1)
        st = dt_newest_model(path[0], newest);
    if (st == DT_OK)
        st = count == 1 ? dt_model_open(&f, newest) : dt_pieces_join(&f, path[0], file, count);
    if (st == DT_OK)
        st = merge(f, o);
    dt_safetensors_close(f);
    free(file);
    return st;
}

/* ---- What is added to the program ------------------------------------------------------------ */

static const dt_format formats[] = {
    {.name = "onnx", .put = dt_onnx_put},
    {.name = "onnx-raw", .put = dt_onnx_put},
    {.name = "ckpt", .end = ".ckpt", .put = dt_ckpt_put, .read = dt_ckpt_read},
    {.name = NULL},
};

/* The mean of one model is that model: convert is average. */
/* clang-format off */
static const dt_command commands[] = {
    {.name = "average", .help = "A B... --out FILE: mean of the weights of models or checkpoints",
     .lead = average_models, .operands = "A B... --out FILE", .options = " out names", .least = 1,
     .most = INT_MAX},
    {.name = "convert", .help = "A --out FILE: a model in another naming or format (.onnx, .ckpt)",
     .lead = average_models, .operands = "A --out FILE [--names SCHEME] [--to FORMAT]",
     .options = " out names", .least = 1, .most = 1},
    {.name = "merge", .help = "CHECKPOINT|FILE... --out FILE: what --save-shards wrote as one file",
     .lead = merge_models, .operands = "CHECKPOINT|FILE... --out FILE | --shards N --out DIR",
     .options = " out names shards", .least = 1, .most = INT_MAX},
};
/* clang-format on */

void dt_extra_convert(void)
{
    dt_formats = formats;
    dt_commands_add(commands, DT_COUNT_OF(commands));
    dt_tutorial_styles();
    dt_option_elsewhere = dt_name_elsewhere;
}

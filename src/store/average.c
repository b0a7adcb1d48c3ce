/* average.c - the mean of models, and a model in another naming. */
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>

#include "store.h"

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

static dt_status average_open(average *a, const char *first, const dt_options *o)
{
    a->o = *o;
    DT_TRY(dt_options_read_model(&a->read, first, &a->o, &a->meta));
    a->floats = a->read.net->slab_floats;
    a->all = a->floats + 2 * a->read.net->norm_channels;
    return dt_calloc(&a->sum, a->all, sizeof *a->sum, "the sum of models");
}

static dt_status average_add(average *a, const char *path, bool first)
{
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
    average a = {.sum = NULL};
    char path[PATH_MAX];
    const char *format = NULL, *names = NULL;
    dt_model_meta last;
    dt_status st = DT_OK;

    DT_TRY(dt_convert_form(o, &format, &names));
    DT_TRY(dt_out_new(o->out)); /* before the work, not after it */
    for (size_t k = 0; k < count; k++) {
        DT_GO(st, dt_newest_model(given[k], path), out);
        if (k == 0)
            DT_GO(st, average_open(&a, path, o), out);
        DT_GO(st, average_add(&a, path, k == 0), out);
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
    opts.raw_input = o->raw_input;
    DT_GO(st, dt_model_put(&a.read.state, &DT_TARGET(o->out), &opts, NULL), out);
    dt_convert_explain(a.read.net, &opts, o->out);

out:
    free(a.sum);
    dt_model_read_close(&a.read);
    return st;
}

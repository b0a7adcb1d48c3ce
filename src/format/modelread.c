/* modelread.c - a model file with the network that it is of. */
#include "format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* The networks here have one matrix: the classifier's, [classes, channels]. */
static int64_t classes_of_shape(const dt_safetensors *f)
{
    for (size_t i = 0; i < dt_safetensors_count(f); i++)
        if (dt_safetensors_get(f, i)->rank == 2)
            return dt_safetensors_get(f, i)->shape[0];
    return 0;
}

static dt_status read_classes(const char *given, int *classes, bool *named)
{
    enum { MOST = 1000000 };
    char path[PATH_MAX], *end = NULL;
    dt_safetensors *f = NULL;

    DT_TRY(dt_model_path(given, path));
    DT_TRY(dt_safetensors_open(&f, path));
    const char *text = dt_safetensors_metadata(f, "dtrain.classes");
    *named = dt_safetensors_metadata(f, "dtrain.net") != NULL;
    const int64_t n = text ? strtoll(text, &end, 10) : classes_of_shape(f);
    const bool bad = n < 1 || n > MOST || (text && *end != '\0');
    dt_safetensors_close(f);
    if (bad)
        return dt_fail(DT_FORMAT,
                       "%s: dtrain.classes, or the classifier's shape, gives no "
                       "number of classes from 1 to %d",
                       path, (int)MOST);
    *classes = (int)n;
    return DT_OK;
}

/* A header of a few bytes may name a network of many: memory is taken for what the file can
 * hold, in the narrowest type that is read. */
static dt_status check_size(const char *given, const dt_net *net, bool named)
{
    const uint64_t weights = sizeof(dt_f16) * (uint64_t)dt_net_weight_total(net);
    char path[PATH_MAX];
    struct stat info;

    DT_TRY(dt_model_path(given, path));
    if (stat(path, &info) != 0 || (uint64_t)info.st_size >= weights)
        return DT_OK; /* a file that is gone is told of by whoever reads it */
    return dt_fail(DT_FORMAT, "%s has %llu bytes, the network %s has at least %llu of weights: %s",
                   path, (unsigned long long)info.st_size, dt_net_spec_of(net)->net,
                   (unsigned long long)weights,
                   named ? "it is another one than the file says, or damaged"
                         : "the file does not say for which network it was made; choose --net");
}

dt_status dt_model_read_open(dt_model_read *r, const char *path, const dt_net_spec *spec)
{
    dt_net_spec own = *spec;
    bool named = false;

    *r = (dt_model_read){.net = NULL};
    DT_TRY(read_classes(path, &own.classes, &named));
    DT_TRY(dt_net_create(&r->net, &own));
    DT_TRY(check_size(path, r->net, named));
    const size_t floats = dt_net_slab_floats(r->net);
    const size_t channels = dt_net_norm_channels(r->net);
    DT_TRY(dt_calloc(&r->slab, 2 * floats + 2 * channels, sizeof *r->slab,
                     "the numbers of a model file"));
    float *mean = r->slab + 2 * floats;
    r->momentum = r->slab + floats;
    r->state = (dt_weights){r->net, r->slab, mean, mean + channels};
    return DT_OK;
}

void dt_model_read_close(dt_model_read *r)
{
    free(r->slab);
    dt_net_destroy(r->net);
    *r = (dt_model_read){.net = NULL};
}

static bool steps_of_text(const char *text, int64_t *steps)
{
    char *end = NULL;

    errno = 0;
    *steps = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

dt_status dt_model_read_steps(const char *given, int64_t *steps)
{
    static const char wanted[] = "num_batches_tracked";
    char path[PATH_MAX], quoted[DT_QUOTED_CHARS];
    dt_safetensors *f = NULL;
    dt_status st = DT_OK;

    *steps = 0;
    DT_TRY(dt_model_path(given, path));
    DT_TRY(dt_safetensors_open(&f, path));
    const char *text = dt_safetensors_metadata(f, "dtrain.steps");
    if (text && !steps_of_text(text, steps))
        st = dt_fail(DT_FORMAT, "%s: dtrain.steps is %s, not a number of steps", path,
                     dt_quote(text, quoted));
    for (size_t i = 0; i < dt_safetensors_count(f) && st == DT_OK; i++) {
        const dt_tensor *t = dt_safetensors_get(f, i);
        const char *dot = strrchr(t->name, '.');
        if (dot && strcmp(dot + 1, wanted) == 0 && t->bytes == sizeof *steps) {
            st = dt_safetensors_read(f, t, steps);
            break;
        }
    }
    dt_safetensors_close(f);
    return st;
}

/* modelread.c - a model file with the network that it is of. */
#include "safetensors.h"

#include <stdlib.h>

/* By the classifier's shape: the networks here have no other matrix. */
static dt_status read_classes(const dt_safetensors *f, const char *path, int *classes)
{
    enum { MOST = 1000000 };
    int64_t n = 0;

    for (size_t i = 0; i < dt_safetensors_count(f); i++)
        if (dt_safetensors_get(f, i)->rank == 2)
            n = dt_safetensors_get(f, i)->shape[0];
    if (n < 1 || n > MOST)
        return dt_fail(DT_FORMAT, "%s holds no classifier of 1 to %d classes", path, (int)MOST);
    *classes = (int)n;
    return DT_OK;
}

/* A header of a few bytes may name a network of many: memory is taken for what the file can
 * hold, in the narrowest type that is read. */
static dt_status check_size(const dt_safetensors *f, const char *path, const dt_net *net)
{
    const uint64_t weights = sizeof(dt_f16) * (uint64_t)dt_net_weight_total(net);
    const size_t tensors = dt_safetensors_count(f);
    const dt_tensor *last = tensors ? dt_safetensors_get(f, tensors - 1) : NULL;
    const uint64_t bytes = last ? last->offset + last->bytes : 0;

    if (bytes >= weights)
        return DT_OK;
    return dt_fail(DT_FORMAT, "%s has %llu bytes, the network %s has at least %llu of weights: %s",
                   path, (unsigned long long)bytes, dt_net_spec_of(net)->net,
                   (unsigned long long)weights,
                   dt_safetensors_metadata(f, "dtrain.net")
                       ? "it is another one than the file says, or damaged"
                       : "the file does not say for which network it was made; choose --net");
}

/* The network that a file is of. */
static dt_status read_net(const char *given, const dt_net_spec *spec, dt_net **net)
{
    dt_net_spec own = *spec;
    char path[PATH_MAX];
    dt_safetensors *f = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_model_path(given, path));
    DT_TRY(dt_safetensors_open(&f, path));
    DT_GO(st, read_classes(f, path, &own.classes), out);
    DT_GO(st, dt_net_create(net, &own), out);
    st = check_size(f, path, *net);

out:
    dt_safetensors_close(f);
    return st;
}

dt_status dt_model_read_open(dt_model_read *r, const char *path, const dt_net_spec *spec)
{
    *r = (dt_model_read){.net = NULL};
    DT_TRY(read_net(path, spec, &r->net));
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

/* The hash of everything that the next step depends on, and the names of its numbers. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>

/* Memory order is HWIO for weights of convolutions and IO for those of linear layers. */
const char *dt_param_element(const dt_param *p, size_t i, char out[DT_ELEMENT_CHARS])
{
    const size_t o = (size_t)p->dim[0], in = (size_t)p->dim[1], w = (size_t)p->dim[3];

    if (p->rank == 4)
        snprintf(out, DT_ELEMENT_CHARS, "%s[%zu][%zu][%zu][%zu]", p->name, i % o, i / o % in,
                 i / (o * in) / w, i / (o * in) % w);
    else if (p->rank == 2)
        snprintf(out, DT_ELEMENT_CHARS, "%s[%zu][%zu]", p->name, i % o, i / o);
    else
        snprintf(out, DT_ELEMENT_CHARS, "%s[%zu]", p->name, i);
    return out;
}

const char *dt_norm_element(const dt_norm *n, size_t i, char out[DT_ELEMENT_CHARS])
{
    snprintf(out, DT_ELEMENT_CHARS, "%s[%zu]", n->name, i);
    return out;
}

/* In state_dict order, OIHW; `file` has room for the largest tensor. */
static void hash_slab(dt_hash *h, const dt_net *net, const float *slab, float *file)
{
    for (size_t i = 0; i < dt_net_param_count(net); i++) {
        const dt_param *p = dt_net_param(net, i);
        dt_param_to_file(p, slab + p->offset, file);
        dt_hash_update(h, file, p->count * sizeof *file);
    }
}

static dt_status take_room(const dt_net *net, float **file)
{
    size_t largest = 1;

    for (size_t i = 0; i < dt_net_param_count(net); i++)
        if (dt_net_param(net, i)->count > largest)
            largest = dt_net_param(net, i)->count;
    return dt_calloc(file, largest, sizeof **file, "the state hash");
}

/* The state's bytes begin with the weights': one pass gives both hashes. */
dt_status dt_state_hashes(const dt_weights *s, const float *momentum, int64_t epoch,
                          int64_t step, dt_digest *weights, dt_digest *all)
{
    const size_t channels = dt_net_norm_channels(s->net);
    const int64_t position[2] = {epoch, step};
    dt_hash *h = NULL;
    float *file = NULL;
    dt_status st = DT_OK;

    DT_GO(st, take_room(s->net, &file), out);
    DT_GO(st, dt_hash_open(&h), out);
    hash_slab(h, s->net, s->master, file);
    *weights = dt_hash_digest(h);
    if (momentum)
        hash_slab(h, s->net, momentum, file);
    dt_hash_update(h, s->running_mean, channels * sizeof *s->running_mean);
    dt_hash_update(h, s->running_var, channels * sizeof *s->running_var);
    dt_hash_update(h, position, sizeof position);
    *all = dt_hash_digest(h);

out:
    dt_hash_close(h);
    free(file);
    return st;
}

dt_status dt_state_hash(const dt_weights *s, const float *momentum, int64_t epoch,
                        int64_t step, dt_digest *out)
{
    dt_digest weights;
    return dt_state_hashes(s, momentum, epoch, step, &weights, out);
}

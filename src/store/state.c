/* state.c - the hash of everything that the next step depends on, and the names of its numbers. */
#include "store.h"

#include <stdio.h>

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

/* The state's bytes begin with the weights': one pass gives both hashes. */
dt_status dt_state_hashes(const dt_weights *s, const float *momentum, int64_t epoch,
                          int64_t step, dt_digest *weights, dt_digest *all)
{
    const size_t channels = dt_net_norm_channels(s->net);
    const int64_t position[2] = {epoch, step};
    dt_hash *h = NULL;
    dt_status st = DT_OK;

    DT_GO(st, dt_hash_open(&h), out);
    DT_GO(st, dt_hash_slab(h, s->net, s->master), out);
    *weights = dt_hash_digest(h);
    if (momentum)
        DT_GO(st, dt_hash_slab(h, s->net, momentum), out);
    dt_hash_update(h, s->running_mean, channels * sizeof *s->running_mean);
    dt_hash_update(h, s->running_var, channels * sizeof *s->running_var);
    dt_hash_update(h, position, sizeof position);
    *all = dt_hash_digest(h);

out:
    dt_hash_close(h);
    return st;
}

dt_status dt_state_hash(const dt_weights *s, const float *momentum, int64_t epoch,
                        int64_t step, dt_digest *out)
{
    dt_digest weights;
    return dt_state_hashes(s, momentum, epoch, step, &weights, out);
}

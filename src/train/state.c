/* The hash of everything that the next step depends on. */
#include "state.h"

#include <stdlib.h>

static dt_status hash_slab(dt_hash *h, const dt_net *net, const float *slab)
{
    for (size_t i = 0; i < dt_net_param_count(net); i++) {
        const dt_param *p = dt_net_param(net, i);
        float *file = NULL;
        DT_TRY(dt_calloc(&file, p->count, sizeof *file, "the state hash"));
        dt_param_to_file(p, slab + p->offset, file);
        dt_hash_update(h, file, p->count * sizeof *file);
        free(file);
    }
    return DT_OK;
}

dt_status dt_state_hash(const dt_model_state *s, const float *momentum, int64_t epoch,
                        int64_t step, dt_digest *out)
{
    const size_t channels = dt_net_norm_channels(s->net);
    const int64_t position[2] = {epoch, step};
    dt_hash *h = NULL;
    dt_status st = DT_OK;

    DT_TRY(dt_hash_open(&h));
    DT_GO(st, hash_slab(h, s->net, s->master), out);
    if (momentum)
        DT_GO(st, hash_slab(h, s->net, momentum), out);
    dt_hash_update(h, s->running_mean, channels * sizeof *s->running_mean);
    dt_hash_update(h, s->running_var, channels * sizeof *s->running_var);
    dt_hash_update(h, position, sizeof position);
    *out = dt_hash_digest(h);

out:
    dt_hash_close(h);
    return st;
}

dt_status dt_state_weights_hash(const dt_model_state *s, dt_digest *out)
{
    dt_hash *h = NULL;

    DT_TRY(dt_hash_open(&h));
    const dt_status st = hash_slab(h, s->net, s->master);
    *out = dt_hash_digest(h);
    dt_hash_close(h);
    return st;
}

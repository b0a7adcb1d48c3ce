/* state.c - the hash of everything that the next step depends on. */
#include "store.h"

/* The state's bytes begin with the weights': one pass gives both hashes. */
dt_status dt_state_hashes(const dt_weights *s, const float *momentum, int64_t epoch, int64_t step,
                          dt_digest *weights, dt_digest *all)
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

dt_status dt_state_hash(const dt_weights *s, const float *momentum, int64_t epoch, int64_t step,
                        dt_digest *out)
{
    dt_digest weights;
    return dt_state_hashes(s, momentum, epoch, step, &weights, out);
}

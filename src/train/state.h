/* state.h - what a model file and the hashes are made from; private to src/train. */
#ifndef DT_STATE_H
#define DT_STATE_H
#include "train.h"

/* A network's numbers, all borrowed. Model files without running statistics (momentum is
 * kept in one) have NULL for them. */
typedef struct dt_model_state {
    const dt_net *net;
    float *master;                     /* [dt_net_slab_floats] */
    float *running_mean, *running_var; /* [dt_net_norm_channels] */
} dt_model_state;

/* For messages: float i of a parameter as it lies in memory, with the indices that files have
 * ("layer1.0.conv1.weight[3][0][1][1]"), and of a batch norm's statistics. Both return out. */
enum { DT_ELEMENT_CHARS = 160 };
const char *dt_param_element(const dt_param *p, size_t i, char out[DT_ELEMENT_CHARS]);
const char *dt_norm_element(const dt_norm *n, size_t i, char out[DT_ELEMENT_CHARS]);

/* XXH3-128 of weights, momentum (both in state_dict order, OIHW), running means,
 * running variances, and the position: epoch, then step, as int64. Numbers are
 * little-endian, so the hash depends on neither layouts nor ranks. Local; DT_NOMEM.
 *   momentum  [dt_net_slab_floats]; NULL: left out, as in a model that is not trained */
dt_status dt_state_hash(const dt_model_state *s, const float *momentum, int64_t epoch,
                        int64_t step, dt_digest *out) DT_MUST_CHECK;
/* The same, and the hash of the weights alone as dt_model_weights_hash has it. */
dt_status dt_state_hashes(const dt_model_state *s, const float *momentum, int64_t epoch,
                          int64_t step, dt_digest *weights, dt_digest *all) DT_MUST_CHECK;

#endif

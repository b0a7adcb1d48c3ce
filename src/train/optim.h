/* optim.h - SGD with momentum on slabs; private to src/train.
 *
 * PyTorch's and MindSpore's definition, dampening 0, in float32, element by element:
 *     g = g + decay * w
 *     m = momentum * m + g
 *     w = w - lr * (nesterov ? g + momentum * m : m)
 * No element's result depends on its neighbours, so neither slices nor threads change
 * bits. The optimizer knows flat ranges and flags, no layers and no ranks. All is
 * Local. */
#ifndef DT_OPTIM_H
#define DT_OPTIM_H
#include "train.h"

typedef struct dt_optim_tensor {
    dt_span span; /* without the padding to the next tensor */
    float decay;
    double rate;    /* times the step's */
    int64_t epochs; /* it is trained in the first so many; 0: in all */
} dt_optim_tensor;

typedef struct dt_optim {
    float *master, *momentum; /* [dt_model_floats], borrowed */
    dt_optim_tensor *tensor;  /* [tensors], ascending, owned */
    size_t tensors;
    float mu;
    bool nesterov;
    int threads;
} dt_optim;

/* Of a slab of parameters; frozen ones are left out. Reads the options momentum, nesterov,
 * weight_decay, decay and norm_bias_rate, and lr if the decay is decoupled; the factors are rounded
 * to float32 here. master and momentum are borrowed and must outlive x. DT_NOMEM. */
dt_status dt_optim_open(dt_optim *x, const dt_model *m, dt_slab_kind kind, const dt_options *o,
                        float *master, float *momentum, int threads) DT_MUST_CHECK;
void dt_optim_close(dt_optim *x); /* a zeroed x is allowed */
/* One step on the slab's floats [owned.first, owned.first + owned.count).
 *   grad   the whole slab (indexed as master is); lr is rounded to float32
 *   epoch  from 0 */
void dt_optim_step(const dt_optim *x, dt_span owned, const float *grad, double lr, int64_t epoch);
/* Moving averages, each by itself in float32: average += part * (x - average); part 1 copies. */
void dt_average_step(float *average, const float *x, size_t count, float part, int threads);

#endif

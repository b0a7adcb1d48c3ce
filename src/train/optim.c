/* optim.c - SGD with momentum. One pass reads gradient, weight and momentum and writes the last
 * two: bound by memory, so chunks are only as large as spreading them over threads needs. */
#include "optim.h"

enum { CHUNK = 1 << 14 }; /* floats; three streams of 64 KiB stay in a core's L2 */

dt_status dt_optim_open(dt_optim *x, const dt_model *m, dt_slab_kind kind, const dt_options *o,
                        float *master, float *momentum, int threads)
{
    const dt_net *net = dt_model_net(m);
    const bool all = strcmp(o->decay, "weights") != 0, apart = strcmp(o->decay, "decoupled") == 0;
    dt_optim made = {.master = master,
                     .momentum = momentum,
                     .mu = (float)o->momentum,
                     .nesterov = o->nesterov,
                     .threads = threads};

    DT_TRY(dt_calloc(&made.tensor, net->params, sizeof *made.tensor, "the optimizer"));
    for (size_t i = net->params; i-- > 0;) {
        const dt_piece own = dt_model_piece(m, i);
        const dt_param *p = &net->param[i];
        const double rate = p->kind == DT_BETA ? o->norm_bias_rate : 1;
        const double per = apart && o->lr * rate > 0 ? o->lr * rate : 1;
        if (own.cut == (kind == DT_SLAB_CUT) && !p->frozen)
            made.tensor[made.tensors++] =
                (dt_optim_tensor){{own.offset, own.count},
                                  all || p->kind == DT_WEIGHT ? (float)(o->weight_decay / per) : 0,
                                  rate,
                                  p->epochs};
    }
    *x = made;
    return DT_OK;
}

void dt_optim_close(dt_optim *x)
{
    free(x->tensor);
    *x = (dt_optim){0};
}

/* Without decay g is taken as it is: g + 0 * w would lose the sign of zero, and a
 * weight that has overflowed would spoil its gradient. */
static void optim_update(const dt_optim *x, float lr, float decay, float *restrict w,
                         float *restrict m, const float *restrict g, size_t n)
{
    const bool decays = decay != 0, nesterov = x->nesterov;
    const float mu = x->mu;

    for (size_t i = 0; i < n; i++) {
        const float d = decays ? g[i] + decay * w[i] : g[i];
        const float v = mu * m[i] + d;
        m[i] = v;
        w[i] -= lr * (nesterov ? d + mu * v : v);
    }
}

/* Floats [first, last): the tensors that lie in them, or the parts that do. */
static void optim_range(const dt_optim *x, size_t first, size_t last, const float *grad, double lr,
                        int64_t epoch)
{
    for (size_t i = 0; i < x->tensors && x->tensor[i].span.first < last; i++) {
        const dt_optim_tensor *t = &x->tensor[i];
        const size_t a = DT_MAX(t->span.first, first);
        const size_t b = DT_MIN(t->span.first + t->span.count, last);
        if (a < b && (t->epochs == 0 || epoch < t->epochs))
            optim_update(x, (float)(lr * t->rate), t->decay, x->master + a, x->momentum + a,
                         grad + a, b - a);
    }
}

void dt_optim_step(const dt_optim *x, dt_span owned, const float *grad, double lr, int64_t epoch)
{
    const size_t end = owned.first + owned.count;
    const size_t chunks = (owned.count + CHUNK - 1) / CHUNK;

#pragma omp parallel for num_threads(x->threads) schedule(static)
    for (size_t c = 0; c < chunks; c++) {
        const size_t first = owned.first + c * CHUNK;
        optim_range(x, first, end - first < CHUNK ? end : first + CHUNK, grad, lr, epoch);
    }
}

void dt_average_step(float *average, const float *x, size_t count, float part, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i++)
        average[i] = part < 1 ? average[i] + part * (x[i] - average[i]) : x[i];
}

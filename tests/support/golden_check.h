/* golden_check.h - compare a network with the golden file that PyTorch made: logits,
 * every gradient, evaluation, and the losses of 20 steps. */
#ifndef DT_TEST_GOLDEN_CHECK_H
#define DT_TEST_GOLDEN_CHECK_H
#include "golden.h"

#include <assert.h>

/* ---- Limits ---------------------------------------------------------------------- */

/* All are distances (2-norm of the difference) from PyTorch's float64, relative to a
 * tensor's scale: the larger of its norm and 1e-3 of the largest gradient's norm. The
 * second part is for gradients that are zero but for rounding, such as those of a
 * convolution's bias in front of a batch norm. */
#define GOLDEN_SCALE 1e-3
/* Decisive, float32: no ReLU and no pooling decision is near its edge, so what is left
 * is rounding; PyTorch's own is 1e-6 in the middle and below 7e-5 at worst. */
#define GOLDEN_DECISIVE 1e-4
/* Real, and bf16: as many times PyTorch's own distance, the worse memory layout. Where
 * decisions flip, each program flips its own handful; their effect varies by about 2. */
#define GOLDEN_RATIO 3.0
/* ... but never less than this: PyTorch may be lucky in a tensor of few elements. A
 * tenth of the decisive limit; for bf16 about what 60 roundings by up to half a step of
 * its 8 significant bits, 2^-9, add up to, forward and backward through VGG11. */
#define GOLDEN_FLOOR_F32 1e-5
#define GOLDEN_FLOOR_BF16 0x1p-6
/* Losses of the 20 steps, relative to the first: logits reach about 10, where float32's
 * last place is 1e-6. */
#define GOLDEN_LOSS_FLOOR 3e-6

enum { GOLDEN_PROJECTIONS = 8, GOLDEN_SAMPLES = 32 };
enum { GOLDEN_SIGNS = 2000, GOLDEN_INDICES = 3000 }; /* tensors */
#define GOLDEN_MOMENTUM 0.9f

static inline double golden_largest(const json_t *array)
{
    double largest = 0;
    for (size_t i = 0; i < json_array_size(array); i++)
        largest = fmax(largest, golden_at(array, i));
    return largest;
}

/* ---- Comparing ------------------------------------------------------------------- */

/* One quantity against its limit; prints what is beyond, and returns 1 then. NaN is. */
static inline int golden_beyond(const golden *g, const char *tensor, const char *what, double off,
                                double limit)
{
    if (off <= limit)
        return 0;
    char title[80];
    golden_title(title, sizeof title, g->spec);
    print_error("%s: %s %s is off by %.3g, limit %.3g\n", title, tensor, what, off, limit);
    return 1;
}

/* Limit of a distance, given PyTorch's own in this precision. */
static inline double golden_limit(const golden *g, double own, double scale)
{
    if (g->spec->precision == DT_BF16)
        return fmax(GOLDEN_RATIO * own, GOLDEN_FLOOR_BF16 * scale);
    if (g->decisive)
        return GOLDEN_DECISIVE * scale;
    return fmax(GOLDEN_RATIO * own, GOLDEN_FLOOR_F32 * scale);
}

/* logits of images [first, first + images) */
static inline int golden_some_logits(const golden *g, const float *logits, size_t first,
                                     size_t images, const char *key, double own)
{
    const json_t *exact = golden_get(g, key);
    double off = 0, norm = 0;

    assert_int_equal(json_array_size(exact), (size_t)g->batch * g->classes);
    for (size_t i = 0; i < images * g->classes; i++) {
        const double x = golden_at(exact, first * g->classes + i), d = (double)logits[i] - x;
        off += d * d;
        norm += x * x;
    }
    return golden_beyond(g, key, "distance", sqrt(off), golden_limit(g, own, sqrt(norm)));
}

static inline int golden_logits(const golden *g, const dt_exec *exec, const char *key, double own)
{
    return golden_some_logits(g, exec->logits, 0, (size_t)g->batch, key, own);
}

/* Root mean square of the projections' differences: the expectation of its square is
 * the squared distance of the tensors (Johnson-Lindenstrauss, Achlioptas 2003). */
static inline double golden_projected(const golden *g, const json_t *exact, size_t tensor,
                                      size_t count)
{
    double projection[GOLDEN_PROJECTIONS] = {0}, off = 0;

    for (size_t e = 0; e < count; e += 4) {
        uint32_t bits[4];
        dt_random(g->seed, DT_STREAM_TEST, (uint32_t)(GOLDEN_SIGNS + tensor), e / 4, 0, bits);
        for (size_t k = e; k < e + 4 && k < count; k++)
            for (int j = 0; j < GOLDEN_PROJECTIONS; j++) {
                const double x = (double)g->file[k];
                projection[j] += bits[k - e] >> j & 1 ? -x : x;
            }
    }
    for (size_t j = 0; j < GOLDEN_PROJECTIONS; j++) {
        const double d = projection[j] - golden_at(exact, j);
        off += d * d;
    }
    return sqrt(off / GOLDEN_PROJECTIONS);
}

static inline double golden_sampled(const golden *g, const json_t *exact, size_t tensor,
                                    size_t count)
{
    const size_t samples = count < GOLDEN_SAMPLES ? count : GOLDEN_SAMPLES;
    double off = 0;

    for (size_t k = 0; k < samples; k++) {
        size_t e = k;
        if (count > GOLDEN_SAMPLES) {
            uint32_t bits[4];
            dt_random(g->seed, DT_STREAM_TEST, (uint32_t)(GOLDEN_INDICES + tensor), k, 0, bits);
            e = dt_below(bits[0], (uint32_t)count);
        }
        const double d = (double)g->file[e] - golden_at(exact, k);
        off += d * d;
    }
    return sqrt(off);
}

static inline double golden_field(const json_t *record, const char *key)
{
    return json_number_value(json_object_get(record, key));
}

/* If the distance is within the limit, so are the differences of norm, maximum and samples, and by
 * Cauchy-Schwarz the sum's is within sqrt(count) times the limit. */
static inline int golden_tensor(const golden *g, size_t i, const json_t *record, double largest)
{
    const dt_param *p = &g->n.net->param[i];
    const double exact = golden_field(record, "norm");
    const double own = g->spec->precision == DT_BF16
                           ? golden_field(record, "bf16")
                           : golden_largest(json_object_get(record, "fp32"));
    const double limit = golden_limit(g, own, fmax(exact, GOLDEN_SCALE * largest));
    double norm = 0, sum = 0, max = 0;

    assert_string_equal(p->name, json_string_value(json_object_get(record, "name")));
    assert_int_equal(p->count, json_integer_value(json_object_get(record, "count")));
    dt_param_to_file(p, (const float *)g->grad.mem + p->offset, g->file);
    for (size_t e = 0; e < p->count; e++) {
        const double x = (double)g->file[e];
        norm += x * x;
        sum += x;
        max = fmax(max, fabs(x));
    }
    const struct {
        const char *what;
        double off, limit;
    } checks[] = {
        {"norm", fabs(sqrt(norm) - exact), limit},
        {"maximum", fabs(max - golden_field(record, "max")), limit},
        {"sum", fabs(sum - golden_field(record, "sum")), limit * sqrt((double)p->count)},
        {"samples", golden_sampled(g, json_object_get(record, "samples"), i, p->count), limit},
        {"distance", golden_projected(g, json_object_get(record, "projections"), i, p->count),
         limit},
    };
    int beyond = 0;
    for (size_t k = 0; k < DT_COUNT_OF(checks); k++)
        beyond += golden_beyond(g, p->name, checks[k].what, checks[k].off, checks[k].limit);
    return beyond;
}

static inline int golden_gradients(const golden *g)
{
    const json_t *tensors = golden_get(g, "tensors");
    const size_t count = json_array_size(tensors);
    double largest = 0;
    int beyond = 0;

    assert_int_equal(count, g->n.net->params);
    for (size_t i = 0; i < count; i++)
        largest =
            fmax(largest, json_number_value(json_object_get(json_array_get(tensors, i), "norm")));
    for (size_t i = 0; i < count; i++)
        beyond += golden_tensor(g, i, json_array_get(tensors, i), largest);
    return beyond;
}

/* ---- Steps ----------------------------------------------------------------------- */

#ifndef GOLDEN_UPDATE
#define GOLDEN_UPDATE golden_update
/* PyTorch's SGD: v = momentum * v + g, w = w - lr * v. */
static inline void golden_update(golden *g)
{
    float *w = g->n.master.mem, *v = g->momentum.mem;
    const float *grad = g->grad.mem;
    const float lr = (float)json_number_value(golden_get(g, "lr"));

    for (size_t i = 0; i < g->floats; i++) {
        v[i] = GOLDEN_MOMENTUM * v[i] + grad[i];
        w[i] -= lr * v[i];
    }
    dt_model_pack(g->n.model, 0, 1);
}
#endif

/* Middle and half of the width of the runs' losses at one step. */
static inline void golden_spread(const json_t *runs, size_t step, double *middle, double *half)
{
    double low = (double)INFINITY, high = -(double)INFINITY;
    for (size_t r = 0; r < json_array_size(runs); r++) {
        const double x = golden_at(json_array_get(runs, r), step);
        low = fmin(low, x);
        high = fmax(high, x);
    }
    *middle = (low + high) / 2;
    *half = (high - low) / 2;
}

/* Largest distance of PyTorch's float32 runs from its float64 at one step. */
static inline double golden_own_loss(const json_t *exact, const json_t *runs, size_t step)
{
    double own = 0;
    for (size_t r = 0; r < json_array_size(runs); r++)
        own = fmax(own, fabs(golden_at(json_array_get(runs, r), step) - golden_at(exact, step)));
    return own;
}

/* float32: GOLDEN_RATIO times PyTorch's own distance from float64. bf16: as far from
 * the middle of PyTorch's runs (two layouts, jittered weights) as GOLDEN_RATIO times
 * half of their spread: six runs show a spread, not its edges. Both take the
 * largest of five steps before to one after: curves that cross are close by chance, and
 * those of a real ResNet-50 part after one step. */
static inline void golden_loss_limit(const golden *g, size_t step, double *aim, double *limit)
{
    const json_t *exact = golden_get(g, "losses_fp64");
    const json_t *fp32 = golden_get(g, "losses_fp32"), *bf16 = golden_get(g, "losses_bf16");
    const size_t last = json_array_size(exact) - 1;
    const bool rounded = g->spec->precision == DT_BF16;
    double widest = 0, half;

    for (size_t s = step > 5 ? step - 5 : 0; s <= step + 1 && s <= last; s++) {
        golden_spread(bf16, s, aim, &half);
        widest = fmax(widest, rounded ? half : golden_own_loss(exact, fp32, s));
    }
    golden_spread(bf16, step, aim, &half);
    if (!rounded)
        *aim = golden_at(exact, step);
    *limit = fmax(GOLDEN_RATIO * widest, GOLDEN_LOSS_FLOOR * golden_at(exact, 0));
}

/* The losses before each update; the first is of a forward pass already made. */
static inline int golden_losses(golden *g, double loss)
{
    const size_t steps = json_array_size(golden_get(g, "losses_fp64"));
    int beyond = 0;

    for (size_t step = 0; step < steps; step++) {
        double aim, limit;
        char what[32];

        golden_loss_limit(g, step, &aim, &limit);
        snprintf(what, sizeof what, "of step %zu", step);
        beyond += golden_beyond(g, "loss", what, fabs(loss - aim), limit);
        GOLDEN_UPDATE(g);
        loss = golden_forward_backward(g);
    }
    return beyond;
}

/* Evaluation with the running statistics of one training step. */
static inline int golden_evaluation(golden *g)
{
    dt_result result;

    dt_model_update_running(g->n.model, g->moments);
    golden_batch(g, g->eval_exec);
    assert_ok(dt_exec_forward(&(dt_wave){.exec = &g->eval_exec, .count = 1}, NULL, &result));
    const int beyond = golden_logits(g, g->eval_exec, "eval_logits",
                                     golden_largest(golden_get(g, "eval_logits_fp32")));
    if (g->exec)
        golden_batch(g, g->exec);
    return beyond;
}

static inline void golden_run(void **state)
{
    const golden_case *spec = *state;
    const bool bf16 = spec->precision == DT_BF16;
    golden g;
    int beyond = 0;

    if (bf16 && dt_isa_current() < DT_ISA_AVX512 && strstr(spec->file, "resnet50"))
        test_skip("bf16: 20 steps of ResNet-50 in plain C take an hour");
    golden_open(&g, spec, NULL);
    const json_t *own = golden_get(&g, bf16 ? "logits_bf16" : "logits_fp32");
    const double loss = golden_forward_backward(&g);
    beyond +=
        golden_logits(&g, g.exec, "logits", bf16 ? json_number_value(own) : golden_largest(own));
    if (!bf16 || g.decisive) /* the real ones: golden_steps.h */
        beyond += golden_gradients(&g);
    if (!bf16)
        beyond += golden_evaluation(&g);
    beyond += golden_losses(&g, loss);
    golden_close(&g);
    assert_int_equal(beyond, 0);
}

static inline int golden_main(golden_case *cases, size_t count)
{
    return golden_tests(cases, count, golden_run);
}

#endif

/* golden.h - run a network through model.h and compare it with a file that PyTorch made.
 *
 * tests/golden/README.md says what the files hold; scripts/golden.py makes them. Weights,
 * images and labels are drawn again from the seed and their hashes compared first: a
 * difference there would make every other one meaningless. */
#ifndef DT_TEST_GOLDEN_H
#define DT_TEST_GOLDEN_H
#include "model.h"
#include "test.h"

#include <jansson.h>
#include <math.h>

/* ---- Limits ------------------------------------------------------------------------- */

/* All are distances (2-norm of the difference) from PyTorch's float64, relative to a
 * tensor's scale: the larger of its norm and 1e-3 of the largest gradient's norm. The
 * second part is for gradients that are zero but for rounding, such as those of a
 * convolution's bias in front of a batch norm. */
#define GOLDEN_SCALE 1e-3
/* Decisive, float32: no ReLU and no pooling decision is near its edge, so what is left is
 * rounding; PyTorch's own is 1e-6 in the middle and below 5e-5 at worst. */
#define GOLDEN_DECISIVE 1e-4
/* Real, and bf16: as many times PyTorch's own distance, the worse memory layout. Where
 * decisions flip, each program flips its own handful; their effect scatters by about 2. */
#define GOLDEN_RATIO 3.0
/* ... but never less than this: PyTorch may be lucky in a tensor of few elements. A tenth
 * of the decisive limit; for bf16 one step of its 8 significant bits. */
#define GOLDEN_FLOOR_F32 1e-5
#define GOLDEN_FLOOR_BF16 0x1p-7
/* Losses of the 20 steps, relative to the first: summation order alone moves a loss of
 * about 2.5 by some 1e-7 and flipped decisions move the weights. */
#define GOLDEN_LOSS_FLOOR 1e-5
/* Once PyTorch's float32 is this far from its float64, relative to the first loss, the
 * curve is chaotic (the decisive set starts far from any minimum) and says nothing. */
#define GOLDEN_LOSS_CHAOS 1e-4

enum { GOLDEN_PROJECTIONS = 8, GOLDEN_SAMPLES = 32 };
enum { GOLDEN_IMAGES = 1000, GOLDEN_SIGNS = 2000, GOLDEN_INDICES = 3000 }; /* tensors */
#define GOLDEN_LR 1e-3f
#define GOLDEN_MOMENTUM 0.9f

/* ---- The network and its file --------------------------------------------------------- */

typedef struct golden_case {
    const char *file; /* in tests/golden/data, without ".json" */
    dt_dtype precision;
    const char *kernels;
    bool losses; /* the 20 steps too */
} golden_case;

typedef struct golden {
    const golden_case *spec;
    json_t *root;
    dt_net *net;
    dt_model *model;
    dt_plan *plan, *eval_plan;
    dt_exec *exec, *eval_exec;
    dt_slab master, grad, momentum, statistics, packed, arena, scratch;
    dt_moment *moments;
    float *file; /* the largest tensor in file order */
    uint32_t seed;
    int64_t batch;
    size_t classes, floats;
    bool decisive;
} golden;

static inline json_t *golden_get(const golden *g, const char *key)
{
    json_t *value = json_object_get(g->root, key);
    if (!value)
        fail_msg("%s.json has no \"%s\"", g->spec->file, key);
    return value;
}

static inline double golden_at(const json_t *array, size_t i)
{
    const json_t *value = json_array_get(array, i);
    if (!json_is_number(value))
        fail_msg("a golden array of %zu has no number %zu", json_array_size(array), i);
    return json_number_value(value);
}

static inline double golden_largest(const json_t *array)
{
    double largest = 0;
    for (size_t i = 0; i < json_array_size(array); i++)
        largest = fmax(largest, golden_at(array, i));
    return largest;
}

static inline void golden_load(golden *g)
{
    const char *source = getenv("DTRAIN_SOURCE");
    char path[4096];
    json_error_t error;

    snprintf(path, sizeof path, "%s/tests/golden/data/%s.json", source ? source : ".",
             g->spec->file);
    g->root = json_load_file(path, 0, &error);
    if (!g->root)
        fail_msg("%s:%d: %s (set DTRAIN_SOURCE to the repository)", path, error.line,
                 error.text);
    g->seed = (uint32_t)json_integer_value(golden_get(g, "seed"));
    g->batch = json_integer_value(golden_get(g, "batch"));
    g->decisive = strcmp(json_string_value(golden_get(g, "set")), "decisive") == 0;
}

static inline void golden_build(golden *g)
{
    const dt_net_spec spec = {
        .net = json_string_value(golden_get(g, "net")),
        .variant = json_string_value(golden_get(g, "variant")),
        .stem = json_string_value(golden_get(g, "stem")),
        .image_size = (int)json_integer_value(golden_get(g, "image_size")),
        .classes = (int)json_integer_value(golden_get(g, "classes")),
        .width_divisor = (int)json_integer_value(golden_get(g, "width_divisor")),
    };
    const dt_model_opts opts = {
        .precision = g->spec->precision, .kernels = g->spec->kernels, .threads = 2};
    size_t largest = 0;

    assert_ok(dt_net_create(&g->net, &spec));
    assert_ok(dt_model_create(&g->model, g->net, &opts));
    assert_ok(dt_plan_create(&g->plan, g->model, g->batch, DT_TRAIN));
    assert_ok(dt_plan_create(&g->eval_plan, g->model, g->batch, DT_EVAL));
    g->classes = (size_t)spec.classes;
    g->floats = dt_net_slab_floats(g->net);
    for (size_t i = 0; i < dt_net_param_count(g->net); i++)
        if (dt_net_param(g->net, i)->count > largest)
            largest = dt_net_param(g->net, i)->count;
    assert_ok(dt_calloc(&g->file, largest, sizeof *g->file, "a tensor"));
}

/* The two plans are never used at the same time and share their memory. */
static inline void golden_bind(golden *g)
{
    const size_t channels = dt_net_norm_channels(g->net), bytes = g->floats * sizeof(float);
    size_t arena = dt_plan_arena_bytes(g->plan), scratch = dt_plan_scratch_bytes(g->plan);

    if (dt_plan_arena_bytes(g->eval_plan) > arena)
        arena = dt_plan_arena_bytes(g->eval_plan);
    if (dt_plan_scratch_bytes(g->eval_plan) > scratch)
        scratch = dt_plan_scratch_bytes(g->eval_plan);
    assert_ok(dt_slab_create(&g->master, bytes, "weights"));
    assert_ok(dt_slab_create(&g->grad, bytes, "gradients"));
    assert_ok(dt_slab_create(&g->momentum, bytes, "momentum"));
    assert_ok(dt_slab_create(&g->statistics, 2 * channels * sizeof(float), "statistics"));
    assert_ok(dt_slab_create(&g->packed, dt_model_packed_bytes(g->model), "packed"));
    assert_ok(dt_slab_create(&g->arena, arena, "activations"));
    assert_ok(dt_slab_create(&g->scratch, scratch, "scratch"));
    assert_ok(dt_calloc(&g->moments, channels, sizeof *g->moments, "moments"));

    float *statistics = g->statistics.mem;
    const dt_model_slabs slabs = {.master = g->master.mem, .running_mean = statistics,
                                  .running_var = statistics + channels,
                                  .packed = g->packed.mem};
    dt_model_bind(g->model, &slabs);
    assert_ok(dt_exec_create(&g->exec, g->plan, g->arena.mem, g->scratch.mem));
    assert_ok(dt_exec_create(&g->eval_exec, g->eval_plan, g->arena.mem, g->scratch.mem));
}

static inline void golden_hash(const golden *g, const char *key, dt_digest digest)
{
    char text[DT_DIGEST_CHARS];
    dt_digest_text(digest, text);
    if (strcmp(text, json_string_value(golden_get(g, key))) != 0)
        fail_msg("%s: %s is %s, but PyTorch was given %s", g->spec->file, key, text,
                 json_string_value(golden_get(g, key)));
}

static inline void golden_weights(golden *g)
{
    float *master = g->master.mem;
    dt_digest digest;

    assert_ok(dt_model_init(g->model, g->seed));
    for (size_t i = 0; g->decisive && i < dt_net_param_count(g->net); i++) {
        const dt_param *p = dt_net_param(g->net, i);
        if (p->kind == DT_GAMMA || (p->kind == DT_BETA))
            for (size_t e = 0; e < p->count; e++)
                master[p->offset + e] = p->kind == DT_GAMMA ? 1.0f : 4.0f;
    }
    dt_model_pack(g->model, 0, g->floats);
    assert_ok(dt_model_weights_hash(g->model, &digest));
    golden_hash(g, "weights_xxh3", digest);
}

/* Writes the batch; to be called again when the other plan has used the memory. */
static inline void golden_batch(golden *g, dt_exec *exec)
{
    const size_t side = (size_t)dt_net_spec_of(g->net)->image_size;
    const size_t batch = (size_t)g->batch, count = batch * side * side * 3;
    int32_t *labels = dt_exec_labels(exec);
    float *images = NULL;

    assert_ok(dt_calloc(&images, count, sizeof *images, "the images"));
    dt_fill_normal(images, count, 1.0, g->seed, DT_STREAM_TEST, GOLDEN_IMAGES);
    golden_hash(g, "images_xxh3", dt_hash_bytes(images, count * sizeof *images));
    if (g->spec->precision == DT_BF16) {
        dt_bf16 *rounded = dt_exec_input(exec);
        for (size_t i = 0; i < count; i++)
            rounded[i] = dt_f32_to_bf16(images[i]);
    } else {
        memcpy(dt_exec_input(exec), images, count * sizeof *images);
    }
    for (size_t i = 0; i < batch; i++) {
        uint32_t bits[4];
        dt_random(g->seed, DT_STREAM_TEST, 0, i, 0, bits);
        labels[i] = (int32_t)dt_below(bits[0], (uint32_t)g->classes);
    }
    golden_hash(g, "labels_xxh3", dt_hash_bytes(labels, batch * sizeof *labels));
    free(images);
}

static inline void golden_close(golden *g)
{
    dt_slab *slabs[] = {&g->master, &g->grad, &g->momentum, &g->statistics,
                        &g->packed, &g->arena, &g->scratch};

    dt_exec_destroy(g->exec);
    dt_exec_destroy(g->eval_exec);
    dt_plan_destroy(g->plan);
    dt_plan_destroy(g->eval_plan);
    dt_model_destroy(g->model);
    dt_net_destroy(g->net);
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++)
        dt_slab_destroy(slabs[i]);
    free(g->moments);
    free(g->file);
    json_decref(g->root);
}

/* ---- Comparing ------------------------------------------------------------------------- */

/* One quantity against its limit; prints what is beyond, and returns 1 then. NaN is. */
static inline int golden_beyond(const golden *g, const char *tensor, const char *what,
                                double off, double limit)
{
    if (off <= limit)
        return 0;
    print_error("%s %s %s: %s %s is off by %.3g, limit %.3g\n", g->spec->file,
                dt_dtype_name(g->spec->precision), g->spec->kernels, tensor, what, off,
                limit);
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

static inline int golden_logits(const golden *g, const dt_exec *exec, const char *key,
                                double own)
{
    const json_t *exact = golden_get(g, key);
    const size_t count = (size_t)g->batch * g->classes;
    const float *logits = dt_exec_logits(exec);
    double off = 0, norm = 0;

    assert_int_equal(json_array_size(exact), count);
    for (size_t i = 0; i < count; i++) {
        const double x = golden_at(exact, i), d = (double)logits[i] - x;
        off += d * d;
        norm += x * x;
    }
    return golden_beyond(g, key, "distance", sqrt(off),
                         golden_limit(g, own, sqrt(norm)));
}

/* Root mean square of the projections' differences: the expectation of its square is the
 * squared distance of the tensors (Johnson-Lindenstrauss, Achlioptas 2003). */
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
            dt_random(g->seed, DT_STREAM_TEST, (uint32_t)(GOLDEN_INDICES + tensor), k, 0,
                      bits);
            e = dt_below(bits[0], (uint32_t)count);
        }
        const double d = (double)g->file[e] - golden_at(exact, k);
        off += d * d;
    }
    return sqrt(off);
}

/* Distance from the complete tensor: 8 hexadecimal digits an element. */
static inline double golden_whole(const golden *g, const json_t *whole, size_t count)
{
    const char *text = json_string_value(whole);
    double off = 0;

    assert_int_equal(strlen(text), 8 * count);
    for (size_t e = 0; e < count; e++) {
        char digits[9] = {0};
        float x;
        memcpy(digits, text + 8 * e, 8);
        const uint32_t bits = (uint32_t)strtoul(digits, NULL, 16);
        memcpy(&x, &bits, sizeof x);
        const double d = (double)g->file[e] - (double)x;
        off += d * d;
    }
    return sqrt(off);
}

static inline int golden_tensor(const golden *g, size_t i, const json_t *record,
                                double largest)
{
    const dt_param *p = dt_net_param(g->net, i);
    const json_t *whole = json_object_get(record, "whole");
    const json_t *own = json_object_get(record, "fp32");
    const double exact = json_number_value(json_object_get(record, "norm"));
    const double scale = fmax(exact, GOLDEN_SCALE * largest);
    const double limit = golden_limit(
        g, g->spec->precision == DT_BF16 ? json_number_value(json_object_get(record, "bf16"))
                                         : golden_largest(own), scale);
    double norm = 0, sum = 0, max = 0;
    int beyond = 0;

    assert_string_equal(p->name, json_string_value(json_object_get(record, "name")));
    assert_int_equal(p->count, json_integer_value(json_object_get(record, "count")));
    dt_param_to_file(p, (const float *)g->grad.mem + p->offset, g->file);
    for (size_t e = 0; e < p->count; e++) {
        const double x = (double)g->file[e];
        norm += x * x;
        sum += x;
        max = fmax(max, fabs(x));
    }
    /* If the distance is within the limit, so are the differences of norm, maximum and
     * samples, and by Cauchy-Schwarz the sum's is within sqrt(count) times the limit. */
    beyond += golden_beyond(g, p->name, "norm", fabs(sqrt(norm) - exact), limit);
    beyond += golden_beyond(
        g, p->name, "maximum",
        fabs(max - json_number_value(json_object_get(record, "max"))), limit);
    beyond += golden_beyond(
        g, p->name, "sum", fabs(sum - json_number_value(json_object_get(record, "sum"))),
        limit * sqrt((double)p->count));
    beyond += golden_beyond(
        g, p->name, "samples",
        golden_sampled(g, json_object_get(record, "samples"), i, p->count), limit);
    beyond += golden_beyond(
        g, p->name, "distance",
        whole ? golden_whole(g, whole, p->count)
              : golden_projected(g, json_object_get(record, "projections"), i, p->count),
        limit);
    return beyond;
}

static inline int golden_gradients(const golden *g)
{
    const json_t *tensors = golden_get(g, "tensors");
    const size_t count = json_array_size(tensors);
    double largest = 0;
    int beyond = 0;

    assert_int_equal(count, dt_net_param_count(g->net));
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, json_number_value(json_object_get(
                                    json_array_get(tensors, i), "norm")));
    for (size_t i = 0; i < count; i++)
        beyond += golden_tensor(g, i, json_array_get(tensors, i), largest);
    return beyond;
}

/* ---- Steps ------------------------------------------------------------------------------- */

static inline double golden_forward_backward(golden *g)
{
    dt_result result;

    assert_ok(dt_exec_forward(g->exec, g->moments, &result));
    assert_ok(dt_exec_backward(g->exec, g->batch, g->grad.mem, NULL));
    return result.loss_sum / (double)g->batch;
}

/* PyTorch's SGD: v = momentum * v + g, w = w - lr * v. */
static inline void golden_update(golden *g)
{
    float *w = g->master.mem, *v = g->momentum.mem;
    const float *grad = g->grad.mem;

    for (size_t i = 0; i < g->floats; i++) {
        v[i] = GOLDEN_MOMENTUM * v[i] + grad[i];
        w[i] -= GOLDEN_LR * v[i];
    }
    dt_model_pack(g->model, 0, g->floats);
}

/* Middle and half of the width of the runs' losses at one step. */
static inline void golden_spread(const json_t *runs, size_t step, double *middle,
                                 double *half)
{
    double low = INFINITY, high = -INFINITY;
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
        own = fmax(own, fabs(golden_at(json_array_get(runs, r), step) -
                             golden_at(exact, step)));
    return own;
}

/* float32: GOLDEN_RATIO times PyTorch's own distance from float64. bf16: as far from the
 * middle of PyTorch's runs (two layouts, jittered weights) as GOLDEN_RATIO times half of
 * their spread: six runs show a spread, not its edges. Both take the largest of the step
 * and its two neighbours, because curves that cross are close by chance. False at the
 * step where the curve has become chaotic. */
static inline bool golden_loss_limit(const golden *g, size_t step, double *aim,
                                     double *limit)
{
    const json_t *exact = golden_get(g, "losses_fp64");
    const json_t *fp32 = golden_get(g, "losses_fp32"), *bf16 = golden_get(g, "losses_bf16");
    const size_t last = json_array_size(exact) - 1;
    const double first = golden_at(exact, 0);
    const bool rounded = g->spec->precision == DT_BF16;
    double widest = 0;

    for (size_t s = step ? step - 1 : 0; s <= step + 1 && s <= last; s++) {
        double middle, half;
        golden_spread(bf16, s, &middle, &half);
        widest = fmax(widest, rounded ? half : golden_own_loss(exact, fp32, s));
    }
    double half;
    golden_spread(bf16, step, aim, &half);
    if (!rounded)
        *aim = golden_at(exact, step);
    *limit = fmax(GOLDEN_RATIO * widest, GOLDEN_LOSS_FLOOR * first);
    return golden_own_loss(exact, fp32, step) <= GOLDEN_LOSS_CHAOS * first;
}

/* The losses before each update; the first is of a forward pass already made. */
static inline int golden_losses(golden *g, double loss)
{
    const size_t steps = json_array_size(golden_get(g, "losses_fp64"));
    int beyond = 0;

    for (size_t step = 0; step < steps; step++) {
        double aim, limit;
        char what[32];

        if (!golden_loss_limit(g, step, &aim, &limit))
            break;
        snprintf(what, sizeof what, "of step %zu", step);
        beyond += golden_beyond(g, "loss", what, fabs(loss - aim), limit);
        golden_update(g);
        loss = golden_forward_backward(g);
    }
    return beyond;
}

/* Evaluation with the running statistics of one training step. */
static inline int golden_evaluation(golden *g)
{
    dt_result result;

    dt_model_update_running(g->model, g->moments);
    golden_batch(g, g->eval_exec);
    assert_ok(dt_exec_forward(g->eval_exec, NULL, &result));
    const int beyond = golden_logits(g, g->eval_exec, "eval_logits",
                                     golden_largest(golden_get(g, "eval_logits_fp32")));
    golden_batch(g, g->exec);
    return beyond;
}

static inline void golden_run(void **state)
{
    golden g = {.spec = *state};
    dt_dtype precision;
    int beyond = 0;

    if (g.spec->precision == DT_BF16 &&
        dt_precision_choose("bf16", g.spec->kernels, &precision) != DT_OK) {
        print_message("skipped: %s\n", dt_fail_text());
        dt_fail_clear();
        skip();
    }
    golden_load(&g);
    golden_build(&g);
    golden_bind(&g);
    golden_weights(&g);
    golden_batch(&g, g.exec);

    const bool bf16 = g.spec->precision == DT_BF16;
    const json_t *own = golden_get(&g, bf16 ? "logits_bf16" : "logits_fp32");
    const double loss = golden_forward_backward(&g);
    beyond += golden_logits(&g, g.exec, "logits",
                            bf16 ? json_number_value(own) : golden_largest(own));
    beyond += golden_gradients(&g);
    if (!bf16)
        beyond += golden_evaluation(&g);
    if (g.spec->losses)
        beyond += golden_losses(&g, loss);
    golden_close(&g);
    assert_int_equal(beyond, 0);
}

#endif

/* golden.h - a network of model.h in the state that a golden file describes.
 *
 * tests/golden/README.md says what the files hold; proofs/golden.py makes them.
 * Weights, images and labels are drawn again from the seed and their hashes compared
 * first: a difference there would make every other one meaningless. */
#ifndef DT_TEST_GOLDEN_H
#define DT_TEST_GOLDEN_H
#include "net.h"

#include <jansson.h>

enum { GOLDEN_IMAGES = 1000 }; /* the tensor of the images in stream TEST */
#define GOLDEN_STEEP 64.0f     /* times the classifier: losses above 60 */

/* ---- The network and its file ---------------------------------------------------- */

typedef struct golden_case {
    const char *file; /* in tests/golden/data, without ".json" */
    dt_dtype precision;
} golden_case;

static inline void golden_title(char *out, size_t size, const golden_case *c)
{
    snprintf(out, size, "%s %s", c->file, dt_dtype_name(c->precision));
}

typedef struct golden {
    const golden_case *spec;
    json_t *root;
    test_net n;
    dt_plan *plan, *eval_plan;
    dt_exec *exec, *eval_exec;
    dt_slab grad, momentum, arena, scratch;
    dt_moment *moments;
    float *file; /* the largest tensor in file order */
    uint32_t seed;
    int64_t batch;
    size_t classes, floats;
    bool decisive, steep; /* steep is decisive, too, but for its classifier */
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

static inline void golden_load(golden *g)
{
    const char *source = getenv("DTRAIN_SOURCE");
    char path[4096];
    json_error_t error;

    snprintf(path, sizeof path, "%s/tests/golden/data/%s.json", source ? source : ".",
             g->spec->file);
    g->root = json_load_file(path, 0, &error);
    if (!g->root)
        fail_msg("%s:%d: %s (set DTRAIN_SOURCE to the repository)", path, error.line, error.text);
    g->seed = (uint32_t)json_integer_value(golden_get(g, "seed"));
    g->batch = json_integer_value(golden_get(g, "batch"));
    g->steep = strcmp(json_string_value(golden_get(g, "set")), "steep") == 0;
    g->decisive = g->steep || strcmp(json_string_value(golden_get(g, "set")), "decisive") == 0;
}

/* The network and an empty model; plans are the caller's. */
static inline void golden_net(golden *g)
{
    const dt_net_spec spec = {
        .net = json_string_value(golden_get(g, "net")),
        .variant = json_string_value(golden_get(g, "variant")),
        .stem = json_string_value(golden_get(g, "stem")),
        .image_size = (int)json_integer_value(golden_get(g, "image_size")),
        .classes = (int)json_integer_value(golden_get(g, "classes")),
        .width_divisor = (int)json_integer_value(golden_get(g, "width_divisor")),
    };
    /* Results do not depend on threads (other tests see to that); ctest -j uses the cores. */
    const bool tutorial = strcmp(spec.variant, "mindspore") == 0;
    const bool air = strcmp(spec.net, "airbench") == 0;
    const dt_model_opts opts = {.precision = g->spec->precision,
                                .threads = 1,
                                .loss_epsilon = tutorial ? 1e-24f : 0,
                                .label_smoothing = air ? 0.2f : 0,
                                .logit_scale = air ? 1 / 9.0f : 0};
    size_t largest = 0;

    if (opts.precision == DT_BF16)
        test_bf16();
    test_net_create(&g->n, &spec, &opts);
    g->classes = (size_t)spec.classes;
    g->floats = g->n.net->slab_floats;
    for (size_t i = 0; i < g->n.net->params; i++)
        if (g->n.net->param[i].count > largest)
            largest = g->n.net->param[i].count;
    assert_ok(dt_calloc(&g->file, largest, sizeof *g->file, "a tensor"));
}

/* The model's memory, when all plans are made. */
static inline void golden_bind_model(golden *g)
{
    const size_t bytes = g->floats * sizeof(float);

    test_net_bind(&g->n);
    assert_ok(dt_slab_create(&g->grad, bytes, "gradients"));
    assert_ok(dt_slab_create(&g->momentum, bytes, "momentum"));
    assert_ok(dt_calloc(&g->moments, g->n.net->norm_channels, sizeof *g->moments, "moments"));
}

/* The two plans are never used at the same time and share their memory. */
static inline void golden_bind(golden *g)
{
    size_t arena = dt_plan_ask(g->plan).arena_bytes, scratch = dt_plan_ask(g->plan).scratch_bytes;

    if (dt_plan_ask(g->eval_plan).arena_bytes > arena)
        arena = dt_plan_ask(g->eval_plan).arena_bytes;
    if (dt_plan_ask(g->eval_plan).scratch_bytes > scratch)
        scratch = dt_plan_ask(g->eval_plan).scratch_bytes;
    golden_bind_model(g);
    assert_ok(dt_slab_create(&g->arena, arena, "activations"));
    assert_ok(dt_slab_create(&g->scratch, scratch, "scratch"));
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
    float *master = g->n.master.mem;
    dt_hash h;

    test_net_init(&g->n, g->seed, g->decisive);
    for (size_t i = 0; g->steep && i < g->n.net->params; i++) {
        const dt_param *p = &g->n.net->param[i];
        if (strncmp(p->name, "classifier.", 11) == 0)
            for (size_t e = 0; e < p->count; e++)
                master[p->offset + e] *= GOLDEN_STEEP;
    }
    dt_model_pack(g->n.model, 0, 1);
    dt_hash_init(&h);
    assert_ok(dt_hash_slab(&h, g->n.net, master));
    golden_hash(g, "weights_xxh3", dt_hash_digest(&h));
}

/* Writes the batch; to be called again when the other plan has used the memory. */
static inline void golden_batch(golden *g, dt_exec *exec)
{
    const size_t side = (size_t)g->n.net->spec.image_size;
    const size_t batch = (size_t)g->batch, count = batch * side * side * 3;
    int32_t *labels = exec->labels;
    float *images = NULL;

    assert_ok(dt_calloc(&images, count, sizeof *images, "the images"));
    dt_fill_normal(images, count, 1.0, g->seed, DT_STREAM_TEST, GOLDEN_IMAGES);
    golden_hash(g, "images_xxh3", dt_hash_bytes(images, count * sizeof *images));
    test_round(exec->input, images, count, g->spec->precision);
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
    dt_slab *slabs[] = {&g->grad, &g->momentum, &g->arena, &g->scratch};

    dt_exec_destroy(g->exec);
    dt_exec_destroy(g->eval_exec);
    dt_plan_destroy(g->plan);
    dt_plan_destroy(g->eval_plan);
    test_net_close(&g->n);
    for (size_t i = 0; i < DT_COUNT_OF(slabs); i++)
        dt_slab_destroy(slabs[i]);
    free(g->moments);
    free(g->file);
    json_decref(g->root);
}

/* All of it, with the batch in exec's memory.
 *   change  of the training plan, before it gets memory; or NULL */
static inline void golden_open(golden *g, const golden_case *spec, void (*change)(dt_plan *p))
{
    *g = (golden){.spec = spec};
    golden_load(g);
    golden_net(g);
    assert_ok(dt_plan_create(&g->plan, g->n.model, g->batch, DT_TRAIN, false));
    assert_ok(dt_plan_create(&g->eval_plan, g->n.model, g->batch, DT_EVAL, false));
    if (change)
        change(g->plan);
    golden_bind(g);
    golden_weights(g);
    golden_batch(g, g->exec);
}

/* One pass with the initial weights; gradients in g->grad. Returns the mean loss. */
static inline double golden_forward_backward(golden *g)
{
    const dt_wave wave = {.exec = &g->exec, .count = 1};
    float *grad = g->grad.mem;
    dt_result result;

    assert_ok(dt_exec_forward(&wave, &g->moments, &result));
    assert_ok(dt_exec_backward(&wave, (double)g->batch, &grad, NULL));
    return result.loss_sum / (double)g->batch;
}

/* `run` for each case. Returns the exit code. */
enum { GOLDEN_MAX_CASES = 16 };
static inline int golden_tests(golden_case *cases, size_t count, CMUnitTestFunction run)
{
    struct CMUnitTest tests[GOLDEN_MAX_CASES];
    char title[GOLDEN_MAX_CASES][80];

    assert_true(count <= GOLDEN_MAX_CASES);
    for (size_t i = 0; i < count; i++) {
        golden_title(title[i], sizeof title[i], &cases[i]);
        tests[i] = (struct CMUnitTest){title[i], run, NULL, NULL, &cases[i]};
    }
    return _cmocka_run_group_tests("golden", tests, count, NULL, NULL);
}

#endif

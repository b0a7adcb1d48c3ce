/* gradients.h - made-up gradients of shards, the recursive definition of their sum, and training
 * steps on them: what the tests of the exchanges include after ranks.h. */
#ifndef DT_GRADIENTS_H
#define DT_GRADIENTS_H
#include "compress/compress.h"
#include "exchanges/exchanges.h"

enum { STEPS = 2, STEPS_LATE = 12, MOST_SHARDS = 16 }; /* gradients repeat after STEPS */

/* Sizes from one float to more than MPI sends at once; starts at multiples of 16, as
 * the engine's slab has them, so there is padding between. */
static const size_t sizes[] = {10, 2048, 64, 64, 8200, 1, 17, 128, 4216, 728, 5};
enum { TENSORS = sizeof sizes / sizeof *sizes };
static dt_span tensor[TENSORS];
static size_t floats, payload; /* with and without padding */

/* And every exchange is there. */
static void lay_out(void)
{
    dt_extra_exchanges();
    dt_extra_compress();
    for (int i = 0; i < TENSORS; i++) {
        tensor[i] = (dt_span){floats, sizes[i]};
        floats = dt_align(floats + sizes[i], 16);
        payload += sizes[i];
    }
}

/* ---- Leaves and oracle ----------------------------------------------------------- */

static float *zeros(void)
{
    float *x = calloc(floats, sizeof *x);
    assert_non_null(x);
    return x;
}

/* A shard's gradient as backward makes it, zero where there is padding. Values differ in size by up
 * to 2^30, so that another order gives other bits. */
static const float *leaf_of(int shard, int step)
{
    static float *made[MOST_SHARDS][STEPS];
    float **x = &made[shard][step %= STEPS];

    for (int t = 0; t < TENSORS && (t > 0 || !*x); t++) {
        *x = *x ? *x : zeros();
        for (size_t i = tensor[t].first; i < tensor[t].first + tensor[t].count; i++) {
            uint32_t bits[4];
            dt_random(3, DT_STREAM_TEST, (uint32_t)step, i, (uint32_t)shard, bits);
            (*x)[i] = (dt_uniform(bits[0]) - 0.5f) * (float)(1u << bits[1] % 30);
        }
    }
    return *x;
}

typedef enum compress { NONE, BF16, TWO_BITS } compress;
static const char *const compress_word[] = {"none", "bf16", "2bit"};
static const float threshold = 3000.7f;

/* In units of the threshold with 2 bits: what was left in steps before is in it. */
static float summand(int shard, int step, compress how, size_t i)
{
    const float x = leaf_of(shard, step)[i];
    float left = 0, sent = 0;

    if (how != TWO_BITS)
        return how == BF16 ? dt_bf16_to_f32(dt_f32_to_bf16(x)) : x;
    for (int s = 0; s <= step; s++) {
        left += leaf_of(shard, s)[i];
        sent = (float)((left >= threshold) - (left <= -threshold));
        left -= sent * threshold;
    }
    return sent;
}

/* docs/numerics.md section 3 */
static float definition(int a, int b, int step, compress how, size_t i)
{
    int half = 1;

    if (b - a == 1)
        return summand(a, step, how, i);
    while (2 * half < b - a)
        half *= 2;
    return definition(a, a + half, step, how, i) + definition(a + half, b, step, how, i);
}

/* The exact sum of a step over all shards, made when it is first needed. */
static const float *wanted(int shards, int step, compress how)
{
    static float *made[MOST_SHARDS + 1][STEPS_LATE][3];
    float **w = &made[shards][how == TWO_BITS ? step : step % STEPS][how];

    if (!*w) {
        *w = zeros();
        for (size_t i = 0; i < floats; i++)
            (*w)[i] = definition(0, shards, step, how, i) * (how == TWO_BITS ? threshold : 1);
    }
    return *w;
}

/* ---- Steps ----------------------------------------------------------------------- */

typedef struct exchange_case {
    const char *row;
    int shards;
    size_t bucket_bytes;
    compress compress;
    bool lockstep, delays;
    int step;
} exchange_case;

/* An exchange, the memory that it and its weights lie in, and where they are. */
typedef struct trial {
    exchange_case k;
    dt_exchange *x;
    dt_exchange_needs needs;
    dt_slab node[2];
    float *slabs, *weights; /* the node's, or this rank's own */
    int checked;            /* the step that the weights are of, -1: none yet */
} trial;

static dt_exchange_opts opts_of(const exchange_case *k)
{
    return (dt_exchange_opts){.name = k->row,
                              .shards = k->shards,
                              .floats = floats,
                              .tensor = tensor,
                              .tensors = TENSORS,
                              .bucket_bytes = k->bucket_bytes,
                              .compress = compress_word[k->compress],
                              .threshold = (double)threshold,
                              .lockstep = k->lockstep,
                              .threads = k->shards % 3 + 1};
}

/* Exactly the memory asked for, so that a sanitizer sees a step beyond it. */
static float *memory_take(trial *t, int which, size_t bytes)
{
    if (t->needs.shares) {
        assert_ok(dt_node_slab_create(&t->node[which], comm, bytes, "the test"));
        return t->node[which].mem;
    }
    void *memory = aligned_alloc(64, dt_align(bytes, 64));
    assert_non_null(memory);
    memset(memory, 0, bytes);
    return memory;
}

static void trial_open(trial *t, exchange_case k)
{
    const dt_exchange_opts o = opts_of(&k);

    *t = (trial){.k = k, .checked = -1};
    assert_ok(dt_exchange_create(&t->x, comm, &o, &t->needs));
    t->slabs = memory_take(t, 0, t->needs.slabs * floats * sizeof(float));
    t->weights = memory_take(t, 1, floats * sizeof(float));
    assert_ok(dt_exchange_open(t->x, t->slabs));
}

/* What is closed in mid-step leaves its memory to its messages: no leak, since it is known here. */
trial trial_kept[64];

static void trial_keep(const trial *t)
{
    static size_t count;

    assert_true(count < DT_COUNT_OF(trial_kept));
    trial_kept[count++] = *t;
}

static void trial_close(trial *t)
{
    if (!dt_exchange_close(t->x)) {
        trial_keep(t);
        return;
    }
    for (int i = 0; i < 2; i++)
        dt_slab_destroy(&t->node[i]);
    if (!t->needs.shares) {
        free(t->slabs);
        free(t->weights);
    }
}

/* Up to 2 ms, other ones on every rank and at every place of every step. */
static void delay(const trial *t, uint32_t place)
{
    uint32_t bits[4];

    if (!t->k.delays)
        return;
    dt_random(5, DT_STREAM_TEST, (uint32_t)t->k.step, place, (uint32_t)comm->rank, bits);
    if (bits[1] % 3 == 0)
        usleep(dt_below(bits[0], 2000));
}

/* What was in a leaf before is garbage, but for the padding. */
static float *leaf_take(dt_exchange *x)
{
    float *leaf = dt_exchange_leaf(x);

    assert_int_equal((uintptr_t)leaf % 64, 0);
    for (int t = 0; t < TENSORS; t++)
        for (size_t i = 0; i < tensor[t].count; i++)
            leaf[tensor[t].first + i] = 1e30f;
    return leaf;
}

/* As backward does it: floats [from, upto) are written in pieces, each followed by ready;
 * `lockstep`, of all leaves at once. Padding is not touched. */
static void write_leaves(trial *t, float *const *leaf, int first, int count, size_t from,
                         size_t upto)
{
    size_t at = from;

    for (uint32_t piece = 0; at < upto; piece++) {
        uint32_t bits[4];
        dt_random(9, DT_STREAM_TEST, (uint32_t)first, piece, (uint32_t)t->k.step, bits);
        const size_t next = DT_MIN(at + 1 + dt_below(bits[0], (uint32_t)floats / 3), upto);
        for (int i = 0; i < count; i++)
            for (size_t f = at; f < next; f++)
                if (leaf_of(first + i, t->k.step)[f] != 0)
                    leaf[i][f] = leaf_of(first + i, t->k.step)[f];
        delay(t, 10 + piece);
        assert_ok(dt_exchange_ready(t->x, next));
        at = next;
    }
    assert_ok(dt_exchange_ready(t->x, upto)); /* again, as later steps of backward do */
}

/* All ranks can read all of the sum, from any float to any other. */
static void read_whole(const trial *t)
{
    const size_t some = floats / 3;
    float *sum = zeros();

    dt_exchange_read(t->x, (dt_span){0, some}, sum);
    dt_exchange_read(t->x, (dt_span){some, floats - some}, sum + some);
    assert_memory_equal(sum, t->weights, floats * sizeof *sum);
    free(sum);
}

/* The optimizer: the weights become the sum, where this rank owns it. */
static void update(trial *t)
{
    dt_exchange_sum s;
    size_t end = 0;

    assert_ok(dt_exchange_finish(t->x, &s));
    delay(t, 1);
    for (size_t i = 0; i < s.spans; i++) {
        const dt_span own = s.owned[i];
        assert_true(own.first >= end && own.count > 0);
        end = own.first + own.count;
        assert_true(end <= floats);
        memcpy(t->weights + own.first, s.sum + own.first, own.count * sizeof *s.sum);
        delay(t, 2);
    }
    if (!t->needs.shares)
        assert_true(s.spans == 1 && s.owned->count == floats);
    assert_ok(dt_exchange_publish(t->x));
    read_whole(t);
    assert_ok(dt_exchange_publish(t->x));
}

/* ---- Checks ---------------------------------------------------------------------- */

static void check_exact(const trial *t, int step)
{
    const exchange_case *k = &t->k;
    const float *want = wanted(k->shards, step, k->compress);

    for (size_t i = 0; i < floats; i++)
        if (memcmp(&t->weights[i], &want[i], sizeof *want) != 0)
            fail_msg("%s, %d shards, buckets of %zu bytes, lockstep %d, compress %d, %d "
                     "nodes, step %d, rank %d: float %zu is %a, not %a",
                     k->row, k->shards, k->bucket_bytes, k->lockstep, k->compress, comm->nodes,
                     step, comm->rank, i, (double)t->weights[i], (double)want[i]);
}

/* One rounding of at most 2^-24 per addition. */
static void check_near(const trial *t, int step)
{
    const exchange_case *k = &t->k;
    char hash[DT_DIGEST_CHARS];

    for (size_t i = 0; i < floats; i++) {
        double sum = 0, size = 0;
        for (int shard = 0; shard < k->shards; shard++) {
            sum += (double)summand(shard, step, k->compress, i);
            size += fabs((double)summand(shard, step, k->compress, i));
        }
        if (!(fabs((double)t->weights[i] - sum) <= size * k->shards * 0x1p-24))
            fail_msg("%s: float %zu is %a, not near %a", k->row, i, (double)t->weights[i], sum);
    }
    dt_digest_text(dt_hash_bytes(t->weights, floats * sizeof(float)), hash);
    assert_ok(dt_comm_same(comm, &(dt_field){"the sum", hash}, 1));
}

/* In a world of one every row is exact. Before the first step there is nothing to check. */
static void check_weights(const trial *t)
{
    if (t->checked < 0)
        return;
    if (dt_exchange_exact(t->x) || comm->world == 1)
        check_exact(t, t->checked);
    else
        check_near(t, t->checked);
}

/* All of the rank's leaves of a step. Weights are read as forward and backward do, from the
 * step's start to its end: no rank may write them meanwhile. */
static void backward(trial *t)
{
    float *leaf[MOST_SHARDS];
    int first, end;

    dt_shards_of(t->k.shards, comm->world, comm->rank, &first, &end);
    for (int shard = first; shard < end; shard++) {
        leaf[shard - first] = leaf_take(t->x);
        if (!t->k.lockstep)
            write_leaves(t, &leaf[shard - first], shard, 1, 0, floats);
        delay(t, 6);
        if (t->k.delays)
            check_weights(t);
    }
    if (t->k.lockstep || first == end) /* a rank without shards has none to write */
        write_leaves(t, leaf, first, end - first, 0, floats);
    delay(t, 5);
    check_weights(t);
}

/* Steps follow each other without a barrier: a rank may be in the next one while others
 * still read the weights of this one. */
static void run_case(exchange_case k, const char *takes)
{
    trial t;

    trial_open(&t, k);
    assert_string_equal(dt_exchange_name(t.x), takes);
    for (int step = 0; step < (k.delays ? STEPS_LATE : STEPS); step++) {
        t.k.step = step;
        backward(&t);
        delay(&t, 3);
        update(&t);
        delay(&t, 4);
        t.checked = t.k.step;
        check_weights(&t);
    }
    trial_close(&t);
}

/* Ranks are late by chance, at every place where another could overtake them. */
static inline void run_late(exchange_case k, const char *takes)
{
    k.delays = true;
    for (int kind = 0; kind < 4; kind++) {
        k.shards = comm->world + kind;
        k.bucket_bytes = kind % 2 ? 4 : 12000;
        k.lockstep = kind == 2;
        k.compress = kind > 1 ? (compress)(kind - 1) : NONE;
        run_case(k, takes);
    }
}
#endif

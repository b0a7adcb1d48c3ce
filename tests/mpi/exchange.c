/* Every exchange of the table: exact ones give the bits of the recursive definition,
 * whatever the shards, ranks and buckets; inexact ones give equal bits on all ranks. */
#include "ranks.h"

#include <math.h>

static const char *const rows[] = {
#define X(name) #name,
    DT_EXCHANGE_LIST(X)
#undef X
};
enum { ROWS = sizeof rows / sizeof *rows, STEPS = 3, MOST_SHARDS = 16 };

/* Sizes from one float to more than MPI sends at once; starts at multiples of 16, as
 * the engine's slab has them, so there is padding between. */
static const size_t sizes[] = {10, 2048, 64, 64, 36864, 1, 17, 128, 9216, 1728, 5};
enum { TENSORS = sizeof sizes / sizeof *sizes };
static dt_span tensor[TENSORS];
static size_t floats, payload; /* with and without padding */

static void lay_out(void)
{
    for (int i = 0; i < TENSORS; i++) {
        tensor[i] = (dt_span){floats, sizes[i]};
        floats = dt_align(floats + sizes[i], 16);
        payload += sizes[i];
    }
}

/* ---- Leaves and oracle ----------------------------------------------------------- */

/* Values differ in size by up to 2^30, so that another order gives other bits. */
static float *leaf_make(int shard, int step)
{
    float *x = calloc(floats, sizeof *x);

    assert_non_null(x);
    for (int t = 0; t < TENSORS; t++)
        for (size_t i = tensor[t].first; i < tensor[t].first + tensor[t].count; i++) {
            uint32_t bits[4];
            dt_random(3, DT_STREAM_TEST, (uint32_t)step, i, (uint32_t)shard, bits);
            x[i] = (dt_uniform(bits[0]) - 0.5f) * (float)(1u << bits[1] % 30);
        }
    return x;
}

/* Floats [from, to) of a shard's gradient; zero where there is padding. */
static void fill(float *x, size_t from, size_t to, int shard, int step)
{
    static float *made[MOST_SHARDS][STEPS];

    if (!made[shard][step])
        made[shard][step] = leaf_make(shard, step);
    memcpy(x + from, made[shard][step] + from, (to - from) * sizeof *x);
}

/* numerics.md section 3. out [floats], zero where there is padding. */
static void definition(int a, int b, int step, float *out)
{
    int half = 1;

    if (b - a == 1) {
        fill(out, 0, floats, a, step);
        return;
    }
    while (2 * half < b - a)
        half *= 2;
    float *right = calloc(floats, sizeof *right);
    assert_non_null(right);
    definition(a, a + half, step, out);
    definition(a + half, b, step, right);
    for (size_t i = 0; i < floats; i++)
        out[i] = out[i] + right[i];
    free(right);
}

/* The exact sum of a step over all shards, made when first asked for. */
static const float *wanted(int shards, int step)
{
    static float *made[MOST_SHARDS + 1][STEPS];
    float **w = &made[shards][step];

    if (!*w) {
        *w = calloc(floats, sizeof **w);
        assert_non_null(*w);
        definition(0, shards, step, *w);
    }
    return *w;
}

/* Largest sum of absolute values of any element: rounding errors are relative to it. */
static float magnitude(int shards, int step)
{
    float *x = calloc(floats, sizeof *x), *sum = calloc(floats, sizeof *sum), most = 0;

    assert_true(x && sum);
    for (int shard = 0; shard < shards; shard++) {
        fill(x, 0, floats, shard, step);
        for (size_t i = 0; i < floats; i++)
            sum[i] += fabsf(x[i]);
    }
    for (size_t i = 0; i < floats; i++)
        most = fmaxf(most, sum[i]);
    free(x);
    free(sum);
    return most;
}

/* ---- Running --------------------------------------------------------------------- */

typedef struct exchange_case {
    const char *row;
    int shards;
    size_t bucket_bytes;
    int step;
} exchange_case;

static dt_exchange_opts opts_of(const exchange_case *k)
{
    return (dt_exchange_opts){.name = k->row,
                              .shards = k->shards,
                              .floats = floats,
                              .tensor = tensor,
                              .tensors = TENSORS,
                              .first_bucket_bytes = k->bucket_bytes / 2,
                              .bucket_bytes = k->bucket_bytes,
                              .last_bucket_bytes = k->bucket_bytes / 4};
}

/* Exactly the memory asked for, so that a sanitizer sees a step beyond it. */
static float *memory_for(const dt_exchange_opts *o)
{
    size_t slabs = 0;

    assert_ok(dt_exchange_slabs(comm, o, &slabs));
    const size_t bytes = dt_align(slabs * floats * sizeof(float), 64);
    float *memory = aligned_alloc(64, bytes);
    assert_non_null(memory);
    memset(memory, 0, bytes);
    return memory;
}

/* As backward does it: the slab is written from its start in pieces, each followed by
 * ready; what was there before is garbage until then. */
static void write_leaf(dt_exchange *x, int shard, int step, size_t upto)
{
    uint32_t bits[4];
    float *leaf = dt_exchange_leaf(x);
    size_t at = 0;

    assert_int_equal((uintptr_t)leaf % 64, 0);
    for (int t = 0; t < TENSORS; t++)
        for (size_t i = 0; i < tensor[t].count; i++)
            leaf[tensor[t].first + i] = 1e30f;
    for (uint32_t piece = 0; at < upto; piece++) {
        dt_random(9, DT_STREAM_TEST, (uint32_t)shard, piece, (uint32_t)step, bits);
        size_t next = at + 1 + dt_below(bits[0], (uint32_t)floats / 3);
        next = next < upto ? next : upto;
        fill(leaf, at, next, shard, step);
        assert_ok(dt_exchange_ready(x, next));
        at = next;
    }
    assert_ok(dt_exchange_ready(x, upto)); /* again, as later steps of backward do */
}

static const float *run_step(dt_exchange *x, const exchange_case *k)
{
    const float *sum = NULL;
    dt_span owned = {1, 0};
    int first, end;

    dt_shards_of(k->shards, dt_comm_world(comm), dt_comm_rank(comm), &first, &end);
    for (int shard = first; shard < end; shard++)
        write_leaf(x, shard, k->step, floats);
    assert_ok(dt_exchange_finish(x, &sum, &owned));
    assert_int_equal(owned.first, 0);
    assert_int_equal(owned.count, floats);
    assert_ok(dt_exchange_publish(x));
    return sum;
}

static void check_sum(const dt_exchange *x, const exchange_case *k, const float *sum)
{
    const float *want = wanted(k->shards, k->step);
    char hash[DT_DIGEST_CHARS];

    if (dt_exchange_exact(x)) {
        for (size_t i = 0; i < floats; i++)
            if (memcmp(&sum[i], &want[i], sizeof *sum) != 0)
                fail_msg(
                    "%s, %d shards, buckets of %zu bytes, step %d: float %zu is %a, "
                    "not %a",
                    k->row, k->shards, k->bucket_bytes, k->step, i, (double)sum[i],
                    (double)want[i]);
        return;
    }
    /* One rounding of at most 2^-24 per addition, in both orders; S additions. */
    const float bound = magnitude(k->shards, k->step) * (float)k->shards * 0x1p-23f;
    for (size_t i = 0; i < floats; i++)
        if (!(fabsf(sum[i] - want[i]) <= bound))
            fail_msg("%s: float %zu is %a, not near %a", k->row, i, (double)sum[i],
                     (double)want[i]);
    dt_digest_text(dt_hash_bytes(sum, floats * sizeof *sum), hash);
    const dt_field field = {"the sum", hash};
    assert_int_equal(dt_comm_same(comm, &field, 1), DT_OK);
}

static void run_case(exchange_case k)
{
    const dt_exchange_opts o = opts_of(&k);
    float *memory = memory_for(&o);
    dt_exchange *x = NULL;

    assert_ok(dt_exchange_open(&x, comm, &o, memory));
    assert_string_equal(dt_exchange_name(x), k.row);
    for (k.step = 0; k.step < STEPS; k.step++)
        check_sum(x, &k, run_step(x, &k));
    dt_exchange_close(x);
    free(memory);
}

/* ---- Tests ----------------------------------------------------------------------- */

static void every_row_sums(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm), shards[] = {world, 2 * world, 8, 13};
    /* a tensor each, some together, the whole slab */
    const size_t bucket_bytes[] = {4, 20000, 0};

    for (int r = 0; r < ROWS; r++)
        for (int s = 0; s < 4; s++)
            for (int b = 0; b < 3; b++)
                if (shards[s] >= world)
                    run_case((exchange_case){rows[r], shards[s], bucket_bytes[b], 0});
}

/* The data can tell orders apart, and steps differ. */
static void data_is_sharp(void **state)
{
    (void)state;
    float *line = calloc(floats, sizeof *line), *leaf = calloc(floats, sizeof *leaf);

    assert_true(line && leaf);
    for (int shard = 0; shard < 8; shard++) {
        fill(leaf, 0, floats, shard, 0);
        for (size_t i = 0; i < floats; i++)
            line[i] += leaf[i];
    }
    assert_memory_not_equal(line, wanted(8, 0), floats * sizeof *line);
    assert_memory_not_equal(wanted(8, 0), wanted(8, 1), floats * sizeof *line);
    free(line);
    free(leaf);
}

/* What all ranks send, all ranks receive, and the volume is the method's. */
static void statistics_add_up(void **state)
{
    (void)state;
    const int64_t world = dt_comm_world(comm);
    const int64_t others = world - 1;

    for (int r = 0; r < ROWS; r++) {
        const exchange_case k = {rows[r], dt_comm_world(comm), 20000, 1};
        const dt_exchange_opts o = opts_of(&k);
        const bool padded = strcmp(k.row, "tree") == 0 || strcmp(k.row, "buckets") == 0;
        float *memory = memory_for(&o);
        dt_exchange *x = NULL;
        dt_exchange_stats s;

        assert_ok(dt_exchange_open(&x, comm, &o, memory));
        run_step(x, &k);
        dt_exchange_stats_get(x, &s);
        assert_true(s.wait_s >= 0);
        int64_t moved[3] = {(int64_t)s.bytes_sent, (int64_t)s.bytes_received,
                            (int64_t)s.messages};
        assert_ok(dt_comm_sum_i64(comm, moved, 3));
        /* Every rank's leaf goes out and the sum comes back, but for what is at home.
         * Rounding down per message: less than one float per rank and message. */
        const int64_t want = 2 * others * (int64_t)(padded ? floats : payload) * 4;
        assert_in_range(moved[0], want - 4 * moved[2], want);
        assert_int_equal(moved[0], moved[1]);
        assert_int_equal(moved[2] > 0, world > 1);
        const bool star = strcmp(k.row, "gather") == 0 || strcmp(k.row, "p2p") == 0;
        if (star && dt_comm_rank(comm) == 0)
            assert_int_equal(s.bytes_received, (int64_t)payload * 4 * others);
        dt_exchange_close(x);
        free(memory);
    }
}

/* Buckets leave while backward still runs: only then can messages hide behind it. */
static void tree_and_buckets_start_early(void **state)
{
    (void)state;
    static const char *const early[] = {"tree", "buckets"};
    const int world = dt_comm_world(comm);

    for (int r = 0; r < 2; r++) {
        const exchange_case k = {early[r], world, 4, 0};
        const dt_exchange_opts o = opts_of(&k);
        float *memory = memory_for(&o);
        dt_exchange *x = NULL;
        dt_exchange_stats s;
        const float *sum = NULL;
        dt_span owned;

        assert_ok(dt_exchange_open(&x, comm, &o, memory));
        float *leaf = dt_exchange_leaf(x);
        fill(leaf, 0, floats, dt_comm_rank(comm), 0);
        assert_ok(dt_exchange_ready(x, floats / 2));
        dt_exchange_stats_get(x, &s);
        assert_int_equal(s.messages > 0, world > 1);
        assert_ok(dt_exchange_ready(x, floats));
        assert_ok(dt_exchange_finish(x, &sum, &owned));
        check_sum(x, &k, sum);
        dt_exchange_close(x);
        free(memory);
    }
}

/* After a failure in mid-step an exchange is closed with messages under way; nobody
 * waits for them, and the next exchange is not confused by them. */
static void closed_in_mid_step(void **state)
{
    (void)state;
    const exchange_case k = {"tree", dt_comm_world(comm), 4, 0};
    const dt_exchange_opts o = opts_of(&k);
    float *memory = memory_for(&o);
    dt_exchange *x = NULL;

    assert_ok(dt_exchange_open(&x, comm, &o, memory));
    write_leaf(x, dt_comm_rank(comm), 0, floats / 2);
    assert_ok(dt_comm_barrier(comm));
    dt_exchange_close(x);
    assert_ok(dt_comm_barrier(comm));
    free(memory);
    run_case(k);
    dt_exchange_close(NULL);
}

static void choice_and_refusal(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);
    const dt_span huge = {0, (size_t)1 << 31}; /* one float more than MPI can count */
    dt_exchange_opts o = {.name = "auto",
                          .shards = world,
                          .floats = huge.count,
                          .tensor = &huge,
                          .tensors = 1};
    size_t slabs = 0;

    /* A slice each is short enough; the whole tensor is not. */
    assert_ok(dt_exchange_slabs(comm, &o, &slabs));
    assert_int_equal(slabs, world == 1 ? 1 : 2);
    for (int r = 0; r < ROWS; r++) {
        o.name = rows[r];
        if (world > 1 && strcmp(o.name, "tree") != 0)
            assert_fails(dt_exchange_slabs(comm, &o, &slabs), DT_UNSUPPORTED, o.name);
        else
            assert_ok(dt_exchange_slabs(comm, &o, &slabs));
    }
    o.name = "magic";
    assert_fails(dt_exchange_slabs(comm, &o, &slabs), DT_CONFIG,
                 "'magic'; use one of: auto tree gather p2p allreduce buckets");
    o.name = "tree";
    o.shards = world - 1;
    assert_fails(dt_exchange_slabs(comm, &o, &slabs), DT_CONFIG, "shards");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_sharp),
        cmocka_unit_test(every_row_sums),
        cmocka_unit_test(statistics_add_up),
        cmocka_unit_test(tree_and_buckets_start_early),
        cmocka_unit_test(closed_in_mid_step),
        cmocka_unit_test(choice_and_refusal),
    };
    lay_out();
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

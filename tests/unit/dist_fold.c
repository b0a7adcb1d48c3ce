/* dist_fold.c - ownership, the counter, the fold, and cutting the slab: all ranks of every world
 * are played here, one after the other, and the bits compared with the recursive definition. */
#include "test.h"

#include "compress/compress.h"

enum { MOST = 40, COUNT = 9 };

static void leaf(int shard, float x[COUNT])
{
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t bits[4];
        dt_random(1, DT_STREAM_TEST, 0, i, (uint32_t)shard, bits);
        x[i] = (dt_uniform(bits[0]) - 0.5f) * (float)(1u << bits[1] % 30);
    }
}

/* docs/numerics.md section 3 */
static void definition(int a, int b, float x[COUNT])
{
    float right[COUNT];
    int half = 1;

    if (b - a == 1) {
        leaf(a, x);
        return;
    }
    while (2 * half < b - a)
        half *= 2;
    definition(a, a + half, x);
    definition(a + half, b, right);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = x[i] + right[i];
}

TEST(owners_cover_all_shards)
{
    for (int shards = 1; shards <= MOST; shards++)
        for (int world = 1; world <= shards; world++) {
            int next = 0, least = shards, most = 0;
            for (int r = 0; r < world; r++) {
                int first, end;
                dt_shards_of(shards, world, r, &first, &end);
                assert_int_equal(first, next);
                next = end;
                least = end - first < least ? end - first : least;
                most = end - first > most ? end - first : most;
            }
            assert_int_equal(next, shards);
            assert_true(least >= 1 && most - least <= 1);
        }
}

/* One rank's partial sums into slot [], as every owner folds them. */
static int fold_rank(int shards, int world, int rank, float (*slot)[COUNT])
{
    dt_counter k = {.depth = 0};
    int first, end;

    dt_shards_of(shards, world, rank, &first, &end);
    const int slots = dt_counter_slots(first, end);
    for (int shard = first; shard < end; shard++) {
        int top = k.depth;
        assert_true(top < slots);
        leaf(shard, slot[top]);
        for (int merges = dt_counter_push(&k, (dt_subtree){(unsigned)shard, 1}); merges > 0;
             merges--, top--)
            dt_fold_f32.add(slot[top - 1], slot[top - 1], slot[top], COUNT);
        assert_int_equal(k.depth, top + 1);
    }
    return k.depth;
}

/* The partial sums of all ranks, folded node by node, every root where its first operand lies, and
 * then over nodes; the result goes to an operand of the last fold, or elsewhere. */
static void fold_world(int shards, int world, int nodes, int result_at)
{
    static float partial[2 * MOST][COUNT];
    static char scratch[DT_COUNTER_DEPTH * DT_FOLD_BYTES];
    float want[COUNT], apart[COUNT], slot[DT_COUNTER_DEPTH][COUNT];
    const int ranks = world / nodes;
    void *root[2 * MOST], *result = apart;
    dt_operand operand[2 * MOST];
    int operands = 0, roots = 0;
    dt_fold inner, outer;

    for (int n = 0; n < nodes; n++) {
        assert_ok(
            dt_fold_init(&inner, (dt_groups){shards, world, n * ranks, 1, ranks}, NULL, false));
        const int base = operands, base_root = roots;
        for (int r = 0; r < ranks; r++) {
            assert_int_equal(inner.start[r], operands - base);
            const int parts = fold_rank(shards, world, n * ranks + r, slot);
            memcpy(partial[operands], slot, (size_t)parts * sizeof slot[0]);
            operands += parts;
        }
        assert_int_equal(inner.operands, operands - base);
        for (int i = 0; i < inner.operands; i++) {
            operand[i] = (dt_operand){.at = partial[base + i]};
            if (i == 0 || inner.part[i - 1].root >= 0)
                root[roots++] = partial[base + i];
        }
        assert_int_equal(inner.roots, roots - base_root);
        dt_fold_run(&inner, &dt_fold_f32, operand, root + base_root, COUNT, scratch, 1);
        dt_fold_release(&inner);
    }
    assert_ok(dt_fold_init(&outer, (dt_groups){shards, world, 0, ranks, nodes}, NULL, true));
    assert_int_equal(outer.operands, roots);
    for (int i = 0; i < roots; i++)
        operand[i] = (dt_operand){.at = root[i]};
    if (result_at < roots)
        result = root[result_at];
    dt_fold_run(&outer, &dt_fold_f32, operand, &result, COUNT, scratch, 1);
    definition(0, shards, want);
    if (memcmp(result, want, sizeof want) != 0)
        fail_msg("%d shards, %d ranks, %d nodes, result in operand %d", shards, world, nodes,
                 result_at);
    dt_fold_release(&outer);
}

TEST(fold_equals_the_definition)
{
    for (int shards = 1; shards <= MOST; shards++)
        for (int world = 1; world <= shards; world++)
            for (int nodes = 1; nodes <= world; nodes++)
                for (int at = 0; at < 3 && world % nodes == 0; at++)
                    fold_world(shards, world, nodes, at < 2 ? at * (nodes - 1) : 2 * MOST);
}

/* All leaves of a rank at once: its partial sums go to the first slots, in their order. */
TEST(leaves_fold_into_the_first_slots)
{
    static float value[MOST][COUNT];
    static char scratch[DT_COUNTER_DEPTH * DT_FOLD_BYTES];
    float want[DT_COUNTER_DEPTH][COUNT];
    dt_operand operand[MOST];
    void *result[MOST];
    dt_fold f;

    for (int shards = 1; shards <= MOST; shards++)
        for (int world = 1; world <= shards; world++)
            for (int rank = 0; rank < world; rank++) {
                int first, end;
                dt_shards_of(shards, world, rank, &first, &end);
                assert_ok(dt_fold_init(&f, (dt_groups){shards, shards, first, 1, end - first}, NULL,
                                       false));
                for (int i = 0; i < end - first; i++) {
                    leaf(first + i, value[i]);
                    operand[i] = (dt_operand){.at = value[i]};
                    result[i] = value[i];
                }
                dt_fold_run(&f, &dt_fold_f32, operand, result, COUNT, scratch, 1);
                assert_int_equal(f.roots, fold_rank(shards, world, rank, want));
                assert_memory_equal(value, want, (size_t)f.roots * sizeof want[0]);
                dt_fold_release(&f);
            }
}

/* Beyond one block of dt_fold_run, by several threads, in a place that no vector length divides;
 * one operand as bf16. */
TEST(fold_of_many_floats)
{
    enum { N = 10007 };
    static float x[3][N], want[N], scratch[9 * DT_FOLD_BYTES / sizeof(float)];
    static dt_bf16 half[N];
    const dt_operand operand[] = {{x[0], NULL}, {half, &dt_form_half}, {x[2], NULL}};
    void *result = x[0];
    dt_fold f;

    assert_ok(dt_fold_init(&f, (dt_groups){3, 3, 0, 1, 3}, NULL, true));
    assert_true(f.depth <= 3);
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < 3; k++)
            x[k][i] = (float)((i * 7 + k) % 1000) * (k == 1 ? 1e7f : 1.1f);
        half[i] = dt_f32_to_bf16(x[1][i]);
        want[i] = (x[0][i] + dt_bf16_to_f32(half[i])) + x[2][i];
    }
    dt_fold_run(&f, &dt_fold_f32, operand, &result, N, scratch, 3);
    assert_memory_equal(x[0], want, sizeof want);
    dt_fold_release(&f);
}

/* A leaf alone, read in one of two ways and written to where it lies. */
static void read_leaf(float *x, const void *from, const dt_form *form, size_t count)
{
    static char scratch[DT_FOLD_BYTES];
    const dt_operand operand = {from, form};
    dt_fold_part part;
    const dt_fold f = dt_fold_cascade(&part, 1);
    void *result = x;

    dt_fold_run(&f, &dt_fold_f32, &operand, &result, count, scratch, 1);
}

/* Against base.h's conversions, for every upper half and a few lower ones. */
TEST(rounding_to_bf16)
{
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { LOWS = sizeof low / sizeof *low, N = 65536 * LOWS };
    static uint32_t bits[N], rounded[N];
    static float back[N];
    static dt_bf16 half[N];

    for (uint32_t i = 0; i < N; i++)
        bits[i] = i / LOWS << 16 | low[i % LOWS];
    memcpy(rounded, bits, sizeof bits);
    read_leaf((void *)rounded, rounded, &dt_form_rounded, N);
    dt_form_half.pack(half, (void *)bits, N);
    read_leaf(back, half, &dt_form_half, N);
    for (uint32_t i = 0; i < N; i++) {
        float f;
        memcpy(&f, &bits[i], sizeof f);
        const uint32_t want = (uint32_t)dt_f32_to_bf16(f) << 16;
        assert_int_equal(rounded[i], want);
        assert_memory_equal(&back[i], &want, sizeof want);
    }
}

/* Whole numbers come back from 2 bits and from bytes, also NaN, also beyond dt_fold_run's block. */
TEST(whole_numbers_are_packed)
{
    enum { N = 10003 };
    static float x[N], back[N];
    static uint8_t packed[N];

    for (int k = 0; k < 2; k++) {
        const dt_form *form = k ? &dt_form_byte : &dt_form_ternary;
        const int most = k ? 127 : 1;
        for (int i = 0; i < N; i++)
            x[i] = i % 1001 == 1000 ? NAN : (float)(i * 7 % (2 * most + 1) - most);
        assert_int_equal(dt_form_bytes(form, N), k ? N : N / 4 + 1);
        form->pack(packed, x, N);
        read_leaf(back, packed, form, N);
        for (int i = 0; i < N; i++)
            assert_true(back[i] == x[i] || (isnan(back[i]) && isnan(x[i])));
    }
}

/* What is sent and what is left make the value and what was left; no number hides. */
TEST(values_become_thresholds)
{
    static const struct {
        float x, left, sent, leaves;
    } of[] = {{0.5f, 0, 1, 0},       {-0.5f, 0, -1, 0},         {0.25f, 0.125f, 0, 0.375f},
              {2, 0.25f, 1, 1.75f},  {-0.75f, 0.5f, 0, -0.25f}, {NAN, 0, NAN, NAN},
              {INFINITY, 0, NAN, 0}, {1, NAN, NAN, NAN}};

    for (size_t i = 0; i < DT_COUNT_OF(of); i++) {
        float x = of[i].x, left = of[i].left;
        dt_quantise_f32(&x, &left, 0.5f, 1, 1);
        assert_true(isnan(of[i].sent) ? isnan(x) && !isfinite(left)
                                      : x == of[i].sent && left == of[i].leaves);
    }
}

TEST(slots_are_few)
{
    assert_int_equal(dt_counter_slots(0, 1), 1);
    assert_int_equal(dt_counter_slots(5, 6), 1);
    assert_int_equal(dt_counter_slots(0, 2), 2);
    assert_int_equal(dt_counter_slots(0, 1024), 11);
    assert_int_equal(dt_counter_slots(1, 5), 3); /* 1 | 2 3 | 4: never merged */
    assert_true(dt_counter_slots(1, 1 << 20) <= DT_COUNTER_DEPTH);
    const int most = (1 << 30) + 1; /* the deepest ranges end far right */
    assert_true(dt_counter_slots(most - 100000, most) <= DT_COUNTER_DEPTH);
}

/* ---- Buckets of whole tensors, slices of buckets: both are partitions ------------- */

enum { TENSORS = 7, MIB = 1 << 18 }; /* floats in 1 MiB */
static const dt_span tensor[TENSORS] = {{0, MIB / 2},       {MIB, 2 * MIB},     {3 * MIB, MIB - 5},
                                        {4 * MIB, MIB},     {5 * MIB, 6 * MIB}, {11 * MIB, MIB / 2},
                                        {12 * MIB - 16, 16}};

TEST(buckets_close_at_their_size)
{
    const struct {
        double mib;
        size_t count, starts[TENSORS]; /* MiB */
    } row[] = {
        {1e-6, 7, {0, 1, 3, 4, 5, 11, 12}}, /* a tensor each */
        {0, 1, {0}},                        /* no limit: the whole slab */
        {1, 6, {0, 1, 3, 4, 5, 11}},        /* the last takes two to reach its size */
        {3, 4, {0, 1, 4, 11}},
        {7, 3, {0, 1, 11}},
        {1000, 3, {0, 1, 11}},
    };
    for (size_t i = 0; i < DT_COUNT_OF(row); i++) {
        const dt_exchange_opts o = {.floats = 12 * MIB,
                                    .tensor = tensor,
                                    .tensors = TENSORS,
                                    .bucket_bytes = (size_t)(row[i].mib * 4 * MIB)};
        dt_span bucket[TENSORS];
        assert_int_equal(dt_spans_buckets(&o, bucket), row[i].count);
        size_t next = 0;
        for (size_t k = 0; k < row[i].count; k++) {
            assert_int_equal(bucket[k].first, next);
            assert_int_equal((bucket[k].first + 16) / MIB, row[i].starts[k]);
            next += bucket[k].count;
        }
        assert_int_equal(next, o.floats);
    }
}

TEST(slices_partition)
{
    static const size_t counts[] = {1, 15, 16, 17, 100, 1000, 12345};

    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        for (int parts = 1; parts <= 9; parts++) {
            size_t next = 48;
            for (int k = 0; k < parts; k++) {
                const dt_span s = dt_spans_slice((dt_span){48, counts[n]}, k, parts);
                assert_int_equal(s.first, next);
                assert_int_equal((s.first - 48) % 16, 0);
                /* no longer than its share, one cut and a rest */
                assert_true(s.count <= counts[n] / (size_t)parts + 16);
                next = s.first + s.count;
            }
            assert_int_equal(next, 48 + counts[n]);
        }
}

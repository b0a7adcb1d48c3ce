/* dist_sumtree.c - ownership, the counter and the fold: all ranks of every world are played here,
 * one after the other, and the bits compared with the recursive definition. */
#include "test.h"

#include "dist/fold.h"

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

static void owners_cover_all_shards(void **state)
{
    (void)state;
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
            dt_add_f32(slot[top - 1], slot[top], COUNT);
        assert_int_equal(k.depth, top + 1);
    }
    return k.depth;
}

static void fold_world(int shards, int world, int result_at)
{
    static float partial[2 * MOST][COUNT];
    float want[COUNT], apart[COUNT], slot[DT_COUNTER_DEPTH][COUNT];
    static char scratch[DT_COUNTER_DEPTH * DT_FOLD_BYTES];
    dt_operand operand[2 * MOST];
    int operands = 0;
    dt_fold f;

    assert_ok(dt_fold_init_ranks(&f, shards, world));
    for (int r = 0; r < world; r++) {
        const int parts = fold_rank(shards, world, r, slot);
        assert_int_equal(f.start[r], operands);
        memcpy(partial[operands], slot, (size_t)parts * sizeof slot[0]);
        operands += parts;
    }
    assert_int_equal(f.operands, operands);
    for (int i = 0; i < operands; i++)
        operand[i] = (dt_operand){.at = partial[i]};
    void *result = result_at < operands ? partial[result_at] : apart;
    dt_fold_run(&f, &dt_fold_f32, operand, &result, COUNT, scratch);
    definition(0, shards, want);
    if (memcmp(result, want, sizeof want) != 0)
        fail_msg("%d shards, %d ranks, result in operand %d", shards, world, result_at);
    dt_fold_release(&f);
}

/* The result may lie in the first operand, in any other, or apart. */
static void fold_equals_the_definition(void **state)
{
    (void)state;
    for (int shards = 1; shards <= MOST; shards++)
        for (int world = 1; world <= shards; world++) {
            fold_world(shards, world, 0);
            fold_world(shards, world, world - 1);
            fold_world(shards, world, MOST * 2);
        }
}

/* The halves of shards that two nodes of unequal ranks hold, folded node by node and then
 * over nodes: the same bits, and every root where its first operand lies. */
static void fold_in_two_stages(int shards, int world, int cut)
{
    static float partial[2 * MOST][COUNT];
    static char scratch[DT_COUNTER_DEPTH * DT_FOLD_BYTES];
    float want[COUNT], slot[DT_COUNTER_DEPTH][COUNT];
    void *root[2 * MOST];
    const int node_end[] = {0, cut, world};
    int bound[MOST + 1], node[3], roots = 0;
    dt_operand operand[2 * MOST];
    dt_fold ranks, inner, outer;

    assert_ok(dt_fold_init_ranks(&ranks, shards, world));
    for (int r = 0; r < world; r++) {
        dt_shards_of(shards, world, r, &bound[r], &bound[r + 1]);
        const int parts = fold_rank(shards, world, r, slot);
        memcpy(partial[ranks.start[r]], slot, (size_t)parts * sizeof slot[0]);
    }
    for (int n = 0; n < 2; n++) {
        const int first = node_end[n], held = node_end[n + 1] - first;
        assert_ok(dt_fold_init(&inner, bound + first, held, false));
        assert_int_equal(inner.operands, ranks.start[node_end[n + 1]] - ranks.start[first]);
        for (int i = 0; i < inner.operands; i++)
            operand[i] = (dt_operand){.at = partial[ranks.start[first] + i]};
        assert_int_equal(inner.roots + inner.additions, inner.operands);
        for (int j = 0; j < inner.roots; j++)
            root[roots + j] = partial[ranks.start[first] + inner.root[j]];
        dt_fold_run(&inner, &dt_fold_f32, operand, root + roots, COUNT, scratch);
        roots += inner.roots;
        dt_fold_release(&inner);
    }
    for (int n = 0; n < 3; n++)
        node[n] = bound[node_end[n]];
    assert_ok(dt_fold_init(&outer, node, 2, true));
    assert_int_equal(outer.operands, roots);
    for (int i = 0; i < roots; i++)
        operand[i] = (dt_operand){.at = root[i]};
    dt_fold_run(&outer, &dt_fold_f32, operand, &root[roots - 1], COUNT, scratch);
    definition(0, shards, want);
    if (memcmp(root[roots - 1], want, sizeof want) != 0)
        fail_msg("%d shards, %d ranks, %d on the first node", shards, world, cut);
    dt_fold_release(&outer);
    dt_fold_release(&ranks);
}

static void nodes_fold_to_the_same(void **state)
{
    (void)state;
    for (int shards = 2; shards <= MOST; shards++)
        for (int world = 2; world <= shards; world++)
            for (int cut = 1; cut < world; cut++)
                fold_in_two_stages(shards, world, cut);
}

/* Beyond one block of dt_fold_run, and in a place that no vector length divides; one
 * operand as bf16. */
static void fold_of_many_floats(void **state)
{
    (void)state;
    enum { N = 10007 };
    static float x[3][N], want[N], scratch[3 * DT_FOLD_BYTES / sizeof(float)];
    static dt_bf16 half[N];
    const dt_operand operand[] = {
        {x[0], DT_LEAF_PLAIN}, {half, DT_LEAF_HALF}, {x[2], DT_LEAF_PLAIN}};
    void *result = x[0];
    dt_fold f;

    assert_ok(dt_fold_init_ranks(&f, 3, 3));
    assert_true(f.depth <= 3);
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < 3; k++)
            x[k][i] = (float)((i * 7 + k) % 1000) * (k == 1 ? 1e7f : 1.1f);
        half[i] = dt_f32_to_bf16(x[1][i]);
        want[i] = (x[0][i] + dt_bf16_to_f32(half[i])) + x[2][i];
    }
    dt_fold_run(&f, &dt_fold_f32, operand, &result, N, scratch);
    assert_memory_equal(x[0], want, sizeof want);
    dt_fold_release(&f);
}

/* A leaf alone, read in one of two ways and written to where it lies. */
static void read_leaf(float *x, const void *from, dt_leaf leaf, size_t count)
{
    static char scratch[DT_FOLD_BYTES];
    const dt_operand operand = {from, leaf};
    const dt_fold f = dt_fold_cascade(NULL, 1);
    void *result = x;

    dt_fold_run(&f, &dt_fold_f32, &operand, &result, count, scratch);
}

/* Against base.h's conversions, for every upper half and a few lower ones; the halves may
 * be written over the floats that they come from. */
static void rounding_to_bf16(void **state)
{
    (void)state;
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { LOWS = sizeof low / sizeof *low, N = 65536 * LOWS };
    static uint32_t bits[N], rounded[N];
    static float back[N];

    for (uint32_t i = 0; i < N; i++)
        bits[i] = i / LOWS << 16 | low[i % LOWS];
    memcpy(rounded, bits, sizeof bits);
    read_leaf((void *)rounded, rounded, DT_LEAF_ROUNDED, N);
    float *const in_place = malloc(sizeof bits);
    assert_non_null(in_place);
    memcpy(in_place, bits, sizeof bits);
    dt_halves_of_f32((void *)in_place, in_place, N);
    read_leaf(back, in_place, DT_LEAF_HALF, N);
    for (uint32_t i = 0; i < N; i++) {
        float f;
        memcpy(&f, &bits[i], sizeof f);
        const uint32_t want = (uint32_t)dt_f32_to_bf16(f) << 16;
        assert_int_equal(rounded[i], want);
        assert_memory_equal(&back[i], &want, sizeof want);
    }
    free(in_place);
}

static void slots_are_few(void **state)
{
    (void)state;
    assert_int_equal(dt_counter_slots(0, 1), 1);
    assert_int_equal(dt_counter_slots(5, 6), 1);
    assert_int_equal(dt_counter_slots(0, 2), 2);
    assert_int_equal(dt_counter_slots(0, 1024), 11);
    assert_int_equal(dt_counter_slots(1, 5), 3); /* 1 | 2 3 | 4: never merged */
    assert_true(dt_counter_slots(1, 1 << 20) <= DT_COUNTER_DEPTH);
    const int most = (1 << 30) + 1; /* the deepest ranges end far right */
    assert_true(dt_counter_slots(most - 100000, most) <= DT_COUNTER_DEPTH);
}

static void too_many_ranks(void **state)
{
    (void)state;
    dt_fold f;

    assert_fails(dt_fold_init_ranks(&f, 2, 3), DT_CONFIG, "3 ranks cannot share 2 shards");
    assert_fails(dt_fold_init_ranks(&f, 0, 1), DT_CONFIG, "shards");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_cover_all_shards), cmocka_unit_test(fold_equals_the_definition),
        cmocka_unit_test(nodes_fold_to_the_same),  cmocka_unit_test(fold_of_many_floats),
        cmocka_unit_test(rounding_to_bf16),        cmocka_unit_test(slots_are_few),
        cmocka_unit_test(too_many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

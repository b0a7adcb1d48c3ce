/* Ownership, the counter and the fold: all ranks of every world are played here, one
 * after the other, and the bits compared with the recursive definition. */
#include "test.h"

#include "shards.h"

enum { MOST = 40, COUNT = 9 };

static void leaf(int shard, float x[COUNT])
{
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t bits[4];
        dt_random(1, DT_STREAM_TEST, 0, i, (uint32_t)shard, bits);
        x[i] = (dt_uniform(bits[0]) - 0.5f) * (float)(1u << bits[1] % 30);
    }
}

/* numerics.md section 3 */
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
        for (int merges = dt_counter_push(&k, (dt_subtree){(unsigned)shard, 1});
             merges > 0; merges--, top--)
            dt_add_f32(slot[top - 1], slot[top], COUNT);
        assert_int_equal(k.depth, top + 1);
    }
    return k.depth;
}

static void fold_world(int shards, int world, int result_at)
{
    static float partial[2 * MOST][COUNT];
    float want[COUNT], apart[COUNT], slot[DT_COUNTER_DEPTH][COUNT], *operand[2 * MOST];
    int operands = 0;
    dt_fold f;

    assert_ok(dt_fold_init(&f, shards, world));
    for (int r = 0; r < world; r++) {
        const int parts = fold_rank(shards, world, r, slot);
        assert_int_equal(f.start[r], operands);
        memcpy(partial[operands], slot, (size_t)parts * sizeof slot[0]);
        operands += parts;
    }
    assert_int_equal(f.operands, operands);
    for (int i = 0; i < operands; i++)
        operand[i] = partial[i];
    float *result = result_at < operands ? partial[result_at] : apart;
    dt_fold_f32(&f, operand, result, COUNT);
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

/* Beyond one block of dt_fold_f32, and in a place that no vector length divides. */
static void fold_of_many_floats(void **state)
{
    (void)state;
    enum { N = 10007 };
    static float x[3][N], want[N];
    float *const operand[] = {x[0], x[1], x[2]};
    dt_fold f;

    assert_ok(dt_fold_init(&f, 3, 3));
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < 3; k++)
            x[k][i] = (float)((i * 7 + k) % 1000) * (k == 1 ? 1e7f : 1.1f);
        want[i] = (x[0][i] + x[1][i]) + x[2][i];
    }
    dt_fold_f32(&f, operand, x[1], N);
    assert_memory_equal(x[1], want, sizeof want);
    dt_fold_release(&f);
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

    assert_fails(dt_fold_init(&f, 2, 3), DT_CONFIG, "3 ranks cannot share 2 shards");
    assert_fails(dt_fold_init(&f, 0, 1), DT_CONFIG, "shards");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_cover_all_shards),
        cmocka_unit_test(fold_equals_the_definition),
        cmocka_unit_test(fold_of_many_floats),
        cmocka_unit_test(slots_are_few),
        cmocka_unit_test(too_many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* reduce.c - the tree over shards: bits equal the recursive definition, whatever rank owns
 * a leaf. */
#include "ranks.h"

#include "dist/comm.h"

enum { MOST_SHARDS = 16, MOST_COUNT = 1000 };

/* Leaf values differ in size by up to 2^40, so that another order gives other bits. */
static double leaf_value(int shard, size_t i, int round)
{
    uint32_t bits[4];
    dt_random(7, DT_STREAM_TEST, (uint32_t)round, i, (uint32_t)shard, bits);
    const double size = (double)((uint64_t)1 << bits[1] % 40);
    return ((double)dt_uniform(bits[0]) - 0.5) * size;
}

/* ---- Types of value: how a leaf is filled, how the oracle combines two ----------- */

static void f32_fill(void *x, size_t i, double v)
{
    ((float *)x)[i] = (float)v;
}
static void f32_add(void *x, const void *y, size_t i)
{
    ((float *)x)[i] = ((float *)x)[i] + ((const float *)y)[i];
}
static void f64_fill(void *x, size_t i, double v)
{
    ((double *)x)[i] = v;
}
static void f64_add(void *x, const void *y, size_t i)
{
    ((double *)x)[i] = ((double *)x)[i] + ((const double *)y)[i];
}
/* Some leaves are empty, as the shards of an uneven last batch are. */
static void moments_fill(void *x, size_t i, double v)
{
    const bool empty = v > 0 && v < 0.25;
    ((dt_moment *)x)[i] = empty ? (dt_moment){0, 0, 0} : (dt_moment){3, v, v * v};
}
static void moments_add(void *x, const void *y, size_t i)
{
    dt_moment *a = (dt_moment *)x + i;
    *a = dt_moment_merge(*a, ((const dt_moment *)y)[i]);
}

typedef struct value_type {
    const char *name;
    const dt_fold_type *type;
    void (*fill)(void *x, size_t i, double v);
    void (*add)(void *x, const void *y, size_t i);
} value_type;
static const value_type types[] = {
    {"f32", &dt_fold_f32, f32_fill, f32_add},
    {"f64", &dt_fold_f64, f64_fill, f64_add},
    {"moments", &dt_fold_moments, moments_fill, moments_add},
};

/* ---- Oracle ---------------------------------------------------------------------- */

typedef struct tree_case {
    const value_type *type;
    int shards, round;
    size_t count;
} tree_case;

static void fill_leaf(const tree_case *t, int shard, void *x)
{
    for (size_t i = 0; i < t->count; i++)
        t->type->fill(x, i, leaf_value(shard, i, t->round));
}

/* docs/numerics.md section 3: sum[a, b) = sum[a, m) + sum[m, b). x: [count] */
static void definition(const tree_case *t, int a, int b, void *x)
{
    int half = 1;

    if (b - a == 1) {
        fill_leaf(t, a, x);
        return;
    }
    while (2 * half < b - a)
        half *= 2;
    void *right = calloc(t->count, t->type->type->bytes);
    assert_non_null(right);
    definition(t, a, a + half, x);
    definition(t, a + half, b, right);
    for (size_t i = 0; i < t->count; i++)
        t->type->add(x, right, i);
    free(right);
}

/* A rank without shards has the sum of all, if that is one group. */
static void check_guest(const tree_case *t, const dt_reduce *tree, int group, void *want)
{
    if (group < t->shards)
        return;
    definition(t, 0, t->shards, want);
    assert_memory_equal(dt_reduce_result(tree, 0), want, t->count * t->type->type->bytes);
}

/* One round, and every own shard's group against the definition over its shards. */
static void run_case(const tree_case *t, dt_reduce *tree, int group, void *want)
{
    int first, end;

    dt_shards_of(t->shards, comm->world, comm->rank, &first, &end);
    for (int shard = first; shard < end; shard++) {
        fill_leaf(t, shard, dt_reduce_leaf(tree));
        dt_reduce_push(tree);
    }
    assert_ok(dt_reduce_finish(tree));
    if (first == end)
        check_guest(t, tree, group, want);
    for (int shard = first; shard < end; shard++) {
        const int a = shard / group * group;
        const int b = a + group < t->shards ? a + group : t->shards;
        if (shard > first && shard > a) {
            assert_ptr_equal(dt_reduce_result(tree, shard), dt_reduce_result(tree, shard - 1));
            continue;
        }
        definition(t, a, b, want);
        if (memcmp(dt_reduce_result(tree, shard), want, t->count * t->type->type->bytes) != 0)
            fail_msg("%s, %d shards, group of %d, [%d, %d), %zu values, round %d", t->type->name,
                     t->shards, group, a, b, t->count, t->round);
    }
}

static dt_moment want_room[MOST_COUNT]; /* the largest of the types */

/* Each group is a tree of its own, from its first shard on; rounds of one tree may have
 * fewer values than it was made for. */
TEST(groups_equal_the_definition)
{
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        for (int shards = 1; shards <= MOST_SHARDS; shards++)
            for (int group = 1; group <= shards + 1; group++) {
                const size_t most = group == shards ? MOST_COUNT : 7, counts[] = {5, 2, most, 1};
                dt_reduce *tree = NULL;
                assert_ok(dt_reduce_create(&tree, comm, shards, most, types[k].type, group));
                for (int round = 0; round < 4; round++) {
                    const tree_case t = {&types[k], shards, round, counts[round]};
                    dt_reduce_resize(tree, t.count);
                    run_case(&t, tree, group, want_room);
                }
                dt_reduce_destroy(tree);
            }
}

/* In two levels, where ranks have several. */
TEST(levels_equal_the_definition)
{
    comm->own->few = 1;
    groups_equal_the_definition(state);
    comm->own->few = 16;
}

/* Groups that lie on one rank each need no other rank: here only rank 0 completes them. */
TEST(own_groups_send_nothing)
{
    const int world = comm->world;
    dt_reduce *tree = NULL;

    for (int group = 1; group <= 2; group++) {
        const tree_case t = {&types[1], 2 * world, 0, 3};
        assert_ok(dt_reduce_create(&tree, comm, t.shards, t.count, &dt_fold_f64, group));
        if (comm->rank == 0)
            run_case(&t, tree, group, want_room);
        assert_ok(dt_comm_barrier(comm));
        dt_reduce_destroy(tree);
    }
}

/* Groups that lie on two ranks need no third: here only the first two ranks complete theirs. */
TEST(other_groups_are_not_awaited)
{
    const tree_case t = {&types[1], comm->world, 0, 3};
    dt_reduce *tree = NULL;

    assert_ok(dt_reduce_create(&tree, comm, t.shards, t.count, &dt_fold_f64, 2));
    if (comm->rank < 2)
        run_case(&t, tree, 2, want_room);
    assert_ok(dt_comm_barrier(comm));
    dt_reduce_destroy(tree);
}

/* The data above can tell orders apart: a sum from left to right has other bits. */
TEST(order_matters)
{
    const tree_case t = {&types[0], 8, 0, MOST_COUNT};
    static float tree[MOST_COUNT], line[MOST_COUNT], leaf[MOST_COUNT];

    definition(&t, 0, 8, tree);
    for (int shard = 0; shard < 8; shard++) {
        fill_leaf(&t, shard, leaf);
        for (size_t i = 0; i < MOST_COUNT; i++)
            line[i] = shard == 0 ? leaf[i] : line[i] + leaf[i];
    }
    assert_memory_not_equal(tree, line, sizeof tree);
}

TEST(misuse_is_refused)
{
    const int world = comm->world;
    dt_reduce *tree = NULL;

    assert_ok(dt_reduce_create(&tree, comm, world, 1, &dt_fold_f32, 1));
    assert_fails(dt_reduce_finish(tree), DT_BUG, "ended at");
    dt_reduce_destroy(tree);
    dt_reduce_destroy(NULL);
}

int main(int argc, char **argv)
{
    ranks_open(argc, argv);
    return ranks_close(tests_run(NULL, NULL));
}

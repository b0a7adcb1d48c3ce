/* dist_alone.c - a world of one, without MPI: every call of dist.h works and moves nothing. */
#include "test.h"

#include "dist/dist.h"

static dt_comm *comm;

static void numbers_of_one(void **state)
{
    (void)state;
    int64_t x[2] = {5, -7};
    char data[3] = "ab";

    assert_int_equal(dt_comm_rank(comm), 0);
    assert_int_equal(dt_comm_world(comm), 1);
    assert_int_equal(dt_comm_node_rank(comm), 0);
    assert_int_equal(dt_comm_node_ranks(comm), 1);
    assert_int_equal(dt_comm_nodes(comm), 1);
    assert_non_null(strstr(dt_comm_version(), "MPI"));
    assert_ok(dt_comm_barrier(comm));
    assert_ok(dt_comm_bcast(comm, data, sizeof data, 0));
    assert_ok(dt_comm_sum_i64(comm, x, 2));
    assert_ok(dt_comm_max_i64(comm, x, 2));
    assert_ok(dt_comm_split_nodes(comm, 1));
    assert_fails(dt_comm_split_nodes(comm, 2), DT_CONFIG, "cannot be treated as 2");
    assert_int_equal(dt_comm_nodes(comm), 1);
    assert_string_equal(data, "ab");
    assert_int_equal(x[0], 5);
    assert_int_equal(x[1], -7);
}

static void memory_of_one(void **state)
{
    (void)state;
    dt_node_mem *m = NULL;
    void *memory = NULL;
    const char *why = NULL;

    assert_ok(dt_node_mem_create(&m, comm, 1000, "test", &memory, &why));
    assert_null(why); /* all ranks of the node, one, see it */
    assert_int_equal((uintptr_t)memory % 64, 0);
    memset(memory, 1, 1000);
    dt_node_mem_destroy(m);
}

static const char *const rows[] = {"auto",
#define X(name) #name,
                                   DT_EXCHANGE_LIST(X)
#undef X
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Leaves of which the first is 2^24, the others 1 + 2^-10, which bf16 rounds to 1. */
static void leaves_of_one(dt_exchange *x, int shards, bool lockstep)
{
    float *leaf[16];

    for (int shard = 0; shard < shards; shard++) {
        leaf[shard] = dt_exchange_leaf(x);
        for (int i = 0; i < 4; i++)
            leaf[shard][i] = shard == 0 ? 0x1p24f : 1.0f + 0x1p-10f;
        assert_true(!lockstep || shard == 0 || leaf[shard] != leaf[shard - 1]);
        if (lockstep && shard + 1 < shards)
            continue;
        assert_ok(dt_exchange_ready(x, 3));
        assert_ok(dt_exchange_ready(x, 16));
    }
}

static float sum_of_one(const char *row, int shards, bool lockstep, bool bf16)
{
    const dt_span tensor = {0, 4};
    const dt_exchange_opts o = {.name = row,
                                .shards = shards,
                                .floats = 16,
                                .tensor = &tensor,
                                .tensors = 1,
                                .bf16 = bf16,
                                .lockstep = lockstep};
    dt_exchange_needs needs;
    dt_exchange *x = NULL;
    dt_slab slab;
    const float *sum = NULL;
    const dt_span *owned = NULL;
    size_t spans = 0;
    dt_exchange_stats s;

    assert_ok(dt_exchange_plan(comm, &o, &needs));
    assert_false(needs.shares);
    assert_ok(dt_slab_create(&slab, needs.slabs * 16 * sizeof(float), "test"));
    assert_ok(dt_exchange_open(&x, comm, &o, slab.mem));
    for (int step = 0; step < 2; step++) {
        leaves_of_one(x, shards, lockstep);
        assert_ok(dt_exchange_finish(x, &sum, &owned, &spans));
        assert_true(spans == 1 && owned->first == 0 && owned->count == 16);
        for (int i = 0; i < 16; i++)
            assert_true(sum[i] == (i < 4 ? sum[0] : 0));
        assert_ok(dt_exchange_publish(x));
    }
    const float result = sum[0];
    dt_exchange_stats_get(x, &s);
    assert_int_equal(s.messages + s.bytes_sent + s.bytes_received, 0);
    assert_int_equal(s.memory, slab.bytes);
    dt_exchange_close(x);
    dt_slab_destroy(&slab);
    return result;
}

/* 2^24 + 1 rounds back to 2^24, so the order shows. With bf16 the tree of 4 is
 * (2^24 + 1) + (1 + 1), that of 6 adds (1 + 1) to it, that of 8 adds 4. Without, 2^24 +
 * 1.001 rounds to 2^24 + 2, the next float, and 2.002 and 4.004 round to 2 and 4. */
static void exchange_of_one(void **state)
{
    (void)state;
    const struct {
        int shards;
        float sum, rounded; /* beyond 2^24 */
    } row[] = {{1, 0, 0}, {2, 2, 0}, {3, 4, 0}, {4, 4, 2}, {6, 6, 4}, {8, 8, 6}};

    for (int r = 0; r < ROWS; r++)
        for (size_t k = 0; k < sizeof row / sizeof *row; k++)
            for (int lockstep = 0; lockstep < 2; lockstep++) {
                const int shards = row[k].shards;
                assert_true(sum_of_one(rows[r], shards, lockstep, false) == 0x1p24f + row[k].sum);
                assert_true(sum_of_one(rows[r], shards, lockstep, true) ==
                            0x1p24f + row[k].rounded);
            }
}

static void misuse_of_the_exchange(void **state)
{
    (void)state;
    const dt_span tensor = {0, 4};
    const dt_exchange_opts o = {
        .name = "tree", .shards = 1, .floats = 16, .tensor = &tensor, .tensors = 1};
    _Alignas(64) float memory[16] = {0};
    dt_exchange *x = NULL;
    const float *sum = NULL;
    const dt_span *owned = NULL;
    size_t spans = 0;

    assert_ok(dt_exchange_open(&x, comm, &o, memory));
    assert_fails(dt_exchange_finish(x, &sum, &owned, &spans), DT_BUG, "ended at");
    dt_exchange_leaf(x);
    assert_fails(dt_exchange_ready(x, 17), DT_BUG, "17 floats of 16");
    assert_fails(dt_exchange_finish(x, &sum, &owned, &spans), DT_BUG, "ended at");
    assert_ok(dt_exchange_ready(x, 16));
    assert_ok(dt_exchange_finish(x, &sum, &owned, &spans));
    dt_exchange_close(x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_one),
        cmocka_unit_test(memory_of_one),
        cmocka_unit_test(exchange_of_one),
        cmocka_unit_test(misuse_of_the_exchange),
    };
    if (dt_comm_open(&comm, &argc, &argv) != DT_OK)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dt_comm_close(comm);
    return failed;
}

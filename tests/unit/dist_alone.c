/* A world of one, without MPI: every call of dist.h works and moves nothing. */
#include "test.h"

#include "dist.h"

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
    bool shared = false;

    assert_ok(dt_node_mem_create(&m, comm, 1000, "test", &memory, &shared));
    assert_true(shared); /* all ranks of the node, one, see it */
    assert_int_equal((uintptr_t)memory % 64, 0);
    memset(memory, 1, 1000);
    dt_node_mem_destroy(m);
}

/* Leaves 2^24, 1, 1, ...: 2^24 + 1 rounds back to 2^24, so the order shows. The tree of
 * 4 is (2^24 + 1) + (1 + 1), that of 6 adds (1 + 1) to it, that of 8 adds 4. */
static void exchange_of_one(void **state)
{
    (void)state;
    const dt_span tensor = {0, 4};
    const struct {
        int shards;
        float sum;
    } row[] = {
        {1, 0x1p24f},     {2, 0x1p24f},     {3, 0x1p24f},
        {4, 0x1p24f + 2}, {6, 0x1p24f + 4}, {8, 0x1p24f + 6},
    };

    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        const dt_exchange_opts o = {.name = "auto",
                                    .shards = row[k].shards,
                                    .floats = 16,
                                    .tensor = &tensor,
                                    .tensors = 1};
        dt_exchange *x = NULL;
        dt_slab slab;
        dt_exchange_needs needs;
        const float *sum = NULL;
        const dt_span *owned = NULL;
        size_t spans = 0;
        dt_exchange_stats s;

        assert_ok(dt_exchange_plan(comm, &o, &needs));
        assert_false(needs.shares);
        assert_ok(dt_slab_create(&slab, needs.slabs * 16 * sizeof(float), "test"));
        assert_ok(dt_exchange_open(&x, comm, &o, slab.mem));
        for (int shard = 0; shard < row[k].shards; shard++) {
            float *leaf = dt_exchange_leaf(x);
            for (int i = 0; i < 4; i++)
                leaf[i] = shard == 0 ? 0x1p24f : 1.0f;
            assert_ok(dt_exchange_ready(x, 3));
            assert_ok(dt_exchange_ready(x, 16));
        }
        assert_ok(dt_exchange_finish(x, &sum, &owned, &spans));
        assert_true(spans == 1 && owned->first == 0 && owned->count == 16);
        for (int i = 0; i < 4; i++)
            assert_true(sum[i] == row[k].sum);
        dt_exchange_stats_get(x, &s);
        assert_int_equal(s.messages + s.bytes_sent + s.bytes_received, 0);
        assert_int_equal(s.memory, slab.bytes);
        dt_exchange_close(x);
        dt_slab_destroy(&slab);
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

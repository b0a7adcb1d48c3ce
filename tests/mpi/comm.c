/* The communicator: ranks, nodes, small collectives, and the end by abort. With the
 * argument `abort`, the last rank ends the others, who wait for it (see abort.sh). */
#include "ranks.h"

#include <unistd.h>

static void numbers_fit(void **state)
{
    (void)state;
    const char *launched = getenv("OMPI_COMM_WORLD_SIZE");
    const int world = dt_comm_world(comm), rank = dt_comm_rank(comm);

    assert_int_equal(world, launched ? strtol(launched, NULL, 10) : 1);
    assert_in_range(rank, 0, world - 1);
    assert_in_range(dt_comm_node_rank(comm), 0, dt_comm_node_ranks(comm) - 1);
    assert_true(strlen(dt_comm_version()) > 5);

    int64_t x[3] = {1 << rank, dt_comm_node_rank(comm) == 0, 1};
    assert_ok(dt_comm_sum_i64(comm, x, 3));
    assert_int_equal(x[0], (1 << world) - 1); /* every number once */
    assert_int_equal(x[1], dt_comm_nodes(comm));
    assert_int_equal(x[2], world);
}

static void sum_and_max(void **state)
{
    (void)state;
    enum { N = 5000 };
    static int64_t sum[N], max[N];
    const int64_t world = dt_comm_world(comm), rank = dt_comm_rank(comm);

    for (int64_t i = 0; i < N; i++) {
        sum[i] = rank * i + ((int64_t)1 << 40);
        max[i] = (rank + i) % world - 3;
    }
    assert_ok(dt_comm_sum_i64(comm, sum, N));
    assert_ok(dt_comm_max_i64(comm, max, N));
    for (int64_t i = 0; i < N; i++) {
        assert_int_equal(sum[i], world * (world - 1) / 2 * i + (world << 40));
        assert_int_equal(max[i], world - 4);
    }
}

static void bcast_from_every_root(void **state)
{
    (void)state;
    enum { N = 300000 };
    static unsigned char data[N];
    static const size_t bytes[] = {0, 1, 4097, N};

    for (int root = 0; root < dt_comm_world(comm); root++)
        for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++) {
            const bool mine = root == dt_comm_rank(comm);
            for (size_t i = 0; i < N; i++)
                data[i] = mine ? (unsigned char)(i * 7 + (size_t)root) : 0xee;
            assert_ok(dt_comm_bcast(comm, data, bytes[k], root));
            for (size_t i = 0; i < N; i++)
                if (data[i] != (i < bytes[k] || mine
                                    ? (unsigned char)(i * 7 + (size_t)root)
                                    : 0xee))
                    fail_msg("root %d, %zu bytes: byte %zu", root, bytes[k], i);
        }
}

/* Nobody leaves the barrier before the last has come: each rank writes that it came
 * before, and reads that all came after. */
static void barrier_waits_for_all(void **state)
{
    (void)state;
    dt_node_mem *m = NULL;
    void *memory = NULL;
    bool shared = false;

    assert_ok(dt_node_mem_create(&m, comm, 64, "barrier test", &memory, &shared));
    volatile char *came = memory;
    if (dt_comm_rank(comm) == dt_comm_world(comm) - 1)
        usleep(100 * 1000);
    came[dt_comm_node_rank(comm)] = 1;
    assert_ok(dt_comm_barrier(comm));
    for (int r = 0; shared && r < dt_comm_node_ranks(comm); r++)
        assert_int_equal(came[r], 1);
    assert_ok(dt_comm_barrier(comm));
    dt_node_mem_destroy(m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_fit),
        cmocka_unit_test(sum_and_max),
        cmocka_unit_test(bcast_from_every_root),
        cmocka_unit_test(barrier_waits_for_all),
    };
    ranks_open(argc, argv);
    if (argc > 1 && strcmp(argv[1], "abort") == 0) {
        if (dt_comm_rank(comm) == dt_comm_world(comm) - 1)
            dt_comm_abort(comm, 79);
        return dt_comm_barrier(comm) == DT_OK ? 0 : 1;
    }
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

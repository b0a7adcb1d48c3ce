/* comm.c - the communicator: ranks, nodes, small collectives, memory of a node, the end by abort
 * (abort.sh gives the argument `abort`). */
#include "ranks.h"

#include <sys/mman.h>
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

/* The ranks of a node are neighbours, in the order of their rank on the node. Rank r's
 * node begins at rank first[r]. */
static void neighbours_share_a_node(void **state)
{
    (void)state;
    enum { MOST = 64 };
    const int world = dt_comm_world(comm), rank = dt_comm_rank(comm);
    int64_t first[MOST] = {0}, host[MOST] = {0};
    char name[64] = "";

    assert_true(world <= MOST);
    assert_int_equal(gethostname(name, sizeof name - 1), 0);
    first[rank] = rank - dt_comm_node_rank(comm);
    host[rank] = (int64_t)(dt_hash_bytes(name, strlen(name)).low >> 8);
    assert_ok(dt_comm_sum_i64(comm, first, (size_t)world));
    assert_ok(dt_comm_sum_i64(comm, host, (size_t)world));
    for (int r = 0; r < world; r++) {
        assert_in_range(first[r], r > 0 ? first[r - 1] : 0, r);
        assert_int_equal(first[first[r]], first[r]);
        assert_int_equal(host[first[r]], host[r]);
    }
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
                if (data[i] !=
                    (i < bytes[k] || mine ? (unsigned char)(i * 7 + (size_t)root) : 0xee))
                    fail_msg("root %d, %zu bytes: byte %zu", root, bytes[k], i);
        }
}

/* No rank leaves the barrier before the last has come: each rank writes that it came
 * before, and reads that all came after. */
static void barrier_waits_for_all(void **state)
{
    (void)state;
    dt_node_mem *m = NULL;
    void *memory = NULL;
    const char *why = NULL;

    assert_ok(dt_node_mem_create(&m, comm, 64, "barrier test", &memory, &why));
    assert_null(why);
    volatile char *came = memory;
    if (dt_comm_rank(comm) == dt_comm_world(comm) - 1)
        usleep(100 * 1000);
    came[dt_comm_node_rank(comm)] = 1;
    assert_ok(dt_comm_barrier(comm));
    for (int r = 0; r < dt_comm_node_ranks(comm); r++)
        assert_int_equal(came[r], 1);
    assert_ok(dt_comm_barrier(comm));
    dt_node_mem_destroy(m);
}

/* A page that is not there yet would be a SIGBUS where it cannot be had. */
static void all_is_there(unsigned char *memory, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
    unsigned char *there = calloc(pages, 1);

    assert_non_null(there);
    assert_int_equal((uintptr_t)memory % page, 0);
    assert_int_equal(mincore(memory, bytes, there), 0);
    for (size_t i = 0; i < pages; i++)
        if (!(there[i] & 1))
            fail_msg("page %zu of %zu is not reserved", i, pages);
    free(there);
}

static void one_block_for_all(void **state)
{
    (void)state;
    static const size_t bytes[] = {1, 100, 4096, 5000001};
    enum { BLOCKS = sizeof bytes / sizeof *bytes };
    dt_node_mem *block[BLOCKS];
    unsigned char *memory[BLOCKS];
    const bool leads = dt_comm_node_rank(comm) == 0;

    for (size_t k = 0; k < BLOCKS; k++) {
        void *p = NULL;
        const char *why = NULL;
        assert_ok(dt_node_mem_create(&block[k], comm, bytes[k], "test", &p, &why));
        assert_null(why);
        assert_int_equal((uintptr_t)p % 64, 0);
        memory[k] = p;
        if (dt_comm_node_ranks(comm) > 1)
            all_is_there(p, bytes[k]);
        for (size_t i = 0; i < bytes[k]; i++)
            if (memory[k][i] != 0)
                fail_msg("byte %zu of %zu is not zero", i, bytes[k]);
    }
    assert_ok(dt_comm_barrier(comm));
    for (size_t k = 0; k < BLOCKS && leads; k++)
        for (size_t i = 0; i < bytes[k]; i++)
            memory[k][i] = (unsigned char)(i * 31 + k);
    assert_ok(dt_comm_barrier(comm));
    for (size_t k = 0; k < BLOCKS; k++)
        for (size_t i = 0; i < bytes[k]; i++)
            if (memory[k][i] != (unsigned char)(i * 31 + k))
                fail_msg("block %zu, byte %zu", k, i);
    for (size_t k = 0; k < BLOCKS; k++)
        dt_node_mem_destroy(block[k]);
    dt_node_mem_destroy(NULL);
}

/* In the middle of a step the last rank fails alone: it gives back what it holds, for
 * which it must not wait for the others, and ends them with its code. */
static int fail_alone(const char *row)
{
    const dt_span tensor = {0, 100000};
    const dt_exchange_opts o = {.name = row,
                                .shards = dt_comm_world(comm),
                                .floats = tensor.count,
                                .tensor = &tensor,
                                .tensors = 1};
    dt_node_mem *m = NULL;
    dt_exchange *x = NULL;
    dt_slab slab;
    void *memory = NULL;
    const char *why = NULL;
    const float *sum = NULL;
    const dt_span *owned = NULL;
    size_t spans = 0;
    dt_exchange_needs needs;

    if (dt_exchange_plan(comm, &o, &needs) != DT_OK)
        return 1;
    const size_t bytes = needs.slabs * tensor.count * sizeof(float);
    if (dt_node_mem_create(&m, comm, bytes, "test", &memory, &why) != DT_OK ||
        dt_slab_create(&slab, bytes, "test") != DT_OK ||
        dt_exchange_open(&x, comm, &o, needs.shares ? memory : slab.mem) != DT_OK)
        return 1;
    memset(dt_exchange_leaf(x), 0, tensor.count * sizeof(float));
    if (dt_comm_rank(comm) < dt_comm_world(comm) - 1) {
        if (dt_exchange_ready(x, tensor.count) != DT_OK)
            return 1;
        return dt_exchange_finish(x, &sum, &owned, &spans) == DT_OK ? 0 : 1;
    }
    const dt_status st = dt_fail(DT_NUMERIC, "this rank alone");
    dt_exchange_close(x);
    dt_slab_destroy(&slab);
    dt_node_mem_destroy(m);
    dt_comm_abort(comm, dt_status_exit_code(st));
    _exit(dt_status_exit_code(st)); /* alone */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_fit),           cmocka_unit_test(neighbours_share_a_node),
        cmocka_unit_test(sum_and_max),           cmocka_unit_test(bcast_from_every_root),
        cmocka_unit_test(barrier_waits_for_all), cmocka_unit_test(one_block_for_all),
    };
    ranks_open(argc, argv);
    if (argc > 1 && strcmp(argv[1], "abort") == 0)
        return fail_alone(argc > 2 ? argv[2] : "tree");
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

/* comm.c - the communicator: ranks, nodes, small collectives, memory of a node, and agreement: for
 * every pattern of failing ranks all return the same status, the cause of the lowest is printed
 * once, and no record is left. */
#include "ranks.h"

#include "bench/bench.h"
#include "capture.h"

#include <sys/mman.h>

/* All ranks' bytes, and on one machine one clock: what is said of it holds. */
TEST(rank_zero_learns_of_all)
{
    enum { MOST = 64, N = 3000 };
    static int64_t mine[N], all[MOST][N];
    static dt_comm_clock of[MOST];
    const int world = comm->world, rank = comm->rank;
    char host[DT_HOST_CHARS];

    for (int i = 0; i < N; i++)
        mine[i] = rank * N + i;
    assert_ok(dt_comm_gather(comm, mine, all, sizeof mine));
    assert_ok(dt_comm_clocks(comm, of));
    dt_host_name(host);
    for (int r = 0; r < world && rank == 0; r++) {
        for (int i = 0; i < N; i++)
            assert_int_equal(all[r][i], r * N + i);
        assert_string_equal(of[r].host, host);
        assert_true(r == 0 ? of[r].bound == 0 : of[r].bound > 0 && of[r].bound < 1000000000);
        assert_in_range(of[r].ahead + of[r].bound, 0, 2 * of[r].bound);
    }
}

/* Every number once. The ranks of a node are neighbours, in the order of their rank on the node;
 * rank r's node begins at rank first[r]. */
TEST(numbers_fit)
{
    enum { MOST = 64 };
    const char *by_ompi = getenv("OMPI_COMM_WORLD_SIZE");
    const char *launched = by_ompi ? by_ompi : getenv("PMI_SIZE");
    const int world = comm->world, rank = comm->rank;
    int64_t once[MOST] = {0}, first[MOST] = {0}, host[MOST] = {0};
    int64_t nodes = comm->node_rank == 0;
    char name[64] = "";

    assert_int_equal(world, launched ? strtol(launched, NULL, 10) : 1);
    assert_in_range(world, 1, MOST);
    assert_in_range(rank, 0, world - 1);
    assert_in_range(comm->node_rank, 0, comm->node_ranks - 1);
    assert_true(strlen(dt_comm_version()) > 5);
    assert_int_equal(gethostname(name, sizeof name - 1), 0);
    once[rank] = 1;
    first[rank] = rank - comm->node_rank;
    host[rank] = (int64_t)(dt_hash_bytes(name, strlen(name)).low >> 8);
    assert_ok(dt_comm_sum_i64(comm, once, (size_t)world));
    assert_ok(dt_comm_sum_i64(comm, first, (size_t)world));
    assert_ok(dt_comm_sum_i64(comm, host, (size_t)world));
    assert_ok(dt_comm_sum_i64(comm, &nodes, 1));
    assert_int_equal(nodes, comm->nodes);
    for (int r = 0; r < world; r++) {
        assert_int_equal(once[r], 1);
        assert_in_range(first[r], r > 0 ? first[r - 1] : 0, r);
        assert_int_equal(first[first[r]], first[r]);
        assert_int_equal(host[first[r]], host[r]);
    }
}

TEST(sum_and_max)
{
    enum { N = 5000 };
    static int64_t sum[N], max[N];
    const int64_t world = comm->world, rank = comm->rank;

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

TEST(bcast_from_every_root)
{
    enum { N = 300000 };
    static unsigned char data[N];
    static const size_t bytes[] = {0, 1, 4097, N};

    for (int root = 0; root < comm->world; root++)
        for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++) {
            const bool mine = root == comm->rank;
            for (size_t i = 0; i < N; i++)
                data[i] = mine ? (unsigned char)(i * 7 + (size_t)root) : 0xee;
            assert_ok(dt_comm_bcast(comm, data, bytes[k], root));
            for (size_t i = 0; i < N; i++)
                if (data[i] !=
                    (i < bytes[k] || mine ? (unsigned char)(i * 7 + (size_t)root) : 0xee))
                    fail_msg("root %d, %zu bytes: byte %zu", root, bytes[k], i);
        }
}

/* No rank leaves the barrier before the last one has come: each writes before it that it came,
 * and reads after it that all came. */
TEST(barrier_waits_for_all)
{
    dt_slab block;

    assert_ok(dt_node_slab_create(&block, comm, 64, "barrier test"));
    volatile char *came = block.mem;
    if (comm->rank == comm->world - 1)
        usleep(100 * 1000);
    came[comm->node_rank] = 1;
    assert_ok(dt_comm_barrier(comm));
    for (int r = 0; r < comm->node_ranks; r++)
        assert_int_equal(came[r], 1);
    assert_ok(dt_comm_barrier(comm));
    dt_slab_destroy(&block);
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

TEST(one_block_for_all)
{
    static const size_t bytes[] = {1, 100, 4096, 5000001};
    enum { BLOCKS = sizeof bytes / sizeof *bytes };
    dt_slab block[BLOCKS];
    unsigned char *memory[BLOCKS];

    for (size_t k = 0; k < BLOCKS; k++) {
        assert_ok(dt_node_slab_create(&block[k], comm, bytes[k], "test"));
        memory[k] = block[k].mem;
        assert_int_equal((uintptr_t)memory[k] % 64, 0);
        if (comm->node_ranks > 1)
            all_is_there(memory[k], bytes[k]);
    }
    for (int written = 0; written < 2; written++) { /* zeros, then what the first rank wrote */
        for (size_t k = 0; k < BLOCKS; k++)
            for (size_t i = 0; i < bytes[k]; i++)
                if (memory[k][i] != (written ? (unsigned char)(i * 31 + k) : 0))
                    fail_msg("block %zu, byte %zu, written %d", k, i, written);
        assert_ok(dt_comm_barrier(comm));
        for (size_t k = 0; k < BLOCKS && comm->node_rank == 0 && !written; k++)
            for (size_t i = 0; i < bytes[k]; i++)
                memory[k][i] = (unsigned char)(i * 31 + k);
        assert_ok(dt_comm_barrier(comm));
    }
    for (size_t k = 0; k < BLOCKS; k++)
        dt_slab_destroy(&block[k]);
    dt_slab_destroy(&(dt_slab){0});
}

/* ---- Agreement ------------------------------------------------------------------- */

static const dt_status status_of[] = {DT_NOINPUT, DT_FORMAT, DT_NOMEM, DT_CONFIG};

/* One agreement, or two, as callers pass an agreed failure on: the second prints nothing. Ranks
 * that succeed have a record of a failure that they recovered from. */
TEST(every_pattern)
{
    const int world = comm->world, rank = comm->rank;

    for (int pattern = 0; pattern < 2 << world; pattern++) {
        const bool twice = pattern & 1, fails = pattern >> (rank + 1) & 1;
        const dt_status failure = dt_fail(status_of[rank % 4], "cannot read 'file %d'", rank);
        int lowest = 0;
        char want[64];
        capture c;

        while (lowest < world && !(pattern >> (lowest + 1) & 1))
            lowest++;
        capture_begin(&c);
        dt_status got = dt_comm_agree(comm, fails ? failure : DT_OK);
        if (twice)
            got = dt_comm_agree(comm, got);
        const int lines = capture_end(&c);
        assert_int_equal(got, lowest < world ? status_of[lowest % 4] : DT_OK);
        assert_string_equal(dt_fail_text(), "");
        assert_int_equal(lines, lowest < world && rank == 0);
        if (lines == 0)
            continue;
        snprintf(want, sizeof want, ": cannot read 'file %d'\n", lowest);
        assert_non_null(strstr(c.text, want));
        snprintf(want, sizeof want, "dtrain: rank %d on ", lowest);
        if (world > 1)
            assert_ptr_equal(strstr(c.text, want), c.text);
    }
}

TEST(alike_names_no_rank)
{
    capture c;

    capture_begin(&c);
    const dt_status st = dt_comm_agree(comm, dt_fail(DT_NOINPUT, "no folder 'x'"));
    const int lines = capture_end(&c);
    assert_int_equal(st, DT_NOINPUT);
    assert_int_equal(lines, comm->rank == 0);
    if (lines)
        assert_string_equal(c.text, "dtrain: no folder 'x'\n");
}

/* Each rank in turn has other data, or (odd == world) none; it has another build, too, which the
 * first difference hides. */
TEST(other_value_is_named)
{
    const int world = comm->world, rank = comm->rank;

    for (int odd = world > 1 ? 0 : 1; odd <= world; odd++) {
        const dt_field fields[] = {{"seed", "1"},
                                   {"data", rank == odd ? "other-set" : "one-set"},
                                   {"build", rank == odd ? "new" : "old"},
                                   {"note", ""}};
        char part[64];
        capture c;

        capture_begin(&c);
        const dt_status st = dt_comm_same(comm, fields, 4);
        const int lines = capture_end(&c);
        assert_int_equal(st, odd < world ? DT_MISMATCH : DT_OK);
        assert_string_equal(dt_fail_text(), "");
        assert_int_equal(lines, odd < world && rank == 0);
        if (lines == 0)
            continue;
        assert_non_null(strstr(c.text, "disagree on data: rank 0 on "));
        assert_non_null(strstr(c.text, odd ? "has 'one-set', " : "has 'other-set', "));
        snprintf(part, sizeof part, ", rank %d on ", odd ? odd : 1);
        assert_non_null(strstr(c.text, part));
        assert_non_null(strstr(c.text, odd ? "has 'other-set';" : "has 'one-set';"));
        assert_null(strstr(c.text, "build"));
    }
}

/* A grid of neighbours and of ranks that are as many apart. */
TEST(parts_of_a_world)
{
    for (int wide = 1; wide <= comm->world; wide++) {
        dt_comm *row = NULL, *column = NULL;
        int64_t ranks = 1;
        assert_ok(dt_comm_split(&row, comm, comm->rank / wide));
        assert_ok(dt_comm_split(&column, comm, comm->rank % wide == 0 ? 0 : -1));
        assert_int_equal(row->rank, comm->rank % wide);
        assert_ok(dt_comm_sum_i64(row, &ranks, 1));
        assert_int_equal(ranks, row->world);
        assert_int_equal(column != NULL, comm->rank % wide == 0);
        if (column)
            assert_int_equal(column->rank, comm->rank / wide);
        dt_comm_close(column);
        dt_comm_close(row);
    }
}

int main(int argc, char **argv)
{
    ranks_open(argc, argv);
    return ranks_close(tests_run(NULL, NULL));
}

/* exchange_nodes.c - the ranks as several nodes, even and uneven: the tree works in a node's memory
 * and sends between nodes, with the bits of the definition; and that ranks are numbered for it. */
#include "ranks.h"

#include "gradients.h"

/* Node k of n has the ranks [k * world / n, (k + 1) * world / n). */
static void split(int nodes)
{
    const int world = dt_comm_world(comm), rank = dt_comm_rank(comm);
    int node = 0;

    assert_ok(dt_comm_split_nodes(comm, nodes));
    while ((node + 1) * world / nodes <= rank)
        node++;
    assert_int_equal(dt_comm_nodes(comm), nodes);
    assert_int_equal(dt_comm_node_rank(comm), rank - node * world / nodes);
    assert_int_equal(dt_comm_node_ranks(comm), (node + 1) * world / nodes - node * world / nodes);
    assert_true(dt_comm_node_cpus(comm) >= 1);
}

static void tree_over_nodes(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);

    for (int nodes = 2; nodes <= 3 && nodes <= world; nodes++) {
        split(nodes);
        run_row("tree", "tree");
        run_case((exchange_case){.row = "auto", .shards = world, .bucket_bytes = 12000}, "tree");
        run_case((exchange_case){.row = "buckets", .shards = world}, "buckets");
    }
    split(1);
    run_case((exchange_case){.row = "auto", .shards = world}, "shared");
}

/* Bytes per float of what is sent of leaves [a, b): their maximal aligned subtrees. */
static int64_t sent_of(int a, int b, bool bf16)
{
    int64_t bytes = 0;

    while (a < b) {
        int leaves = 1;
        while (a % (2 * leaves) == 0 && a + 2 * leaves <= b)
            leaves *= 2;
        bytes += bf16 && leaves == 1 ? 2 : 4;
        a += leaves;
    }
    return bytes;
}

/* Between two nodes of as many ranks, each node's partial sums go out once and the sum comes
 * back once, however many ranks a node has: half of every bucket each way, within one cut. */
static void little_is_sent(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm), cut = world / 2;

    for (int bf16 = 0; bf16 < 2 && world > 1; bf16++) {
        const exchange_case k = {
            .row = "tree", .shards = world, .bucket_bytes = 12000, .bf16 = bf16};
        const int64_t a = sent_of(0, cut, bf16), b = sent_of(cut, world, bf16);
        dt_exchange_stats s;
        trial t;

        split(2);
        trial_open(&t, k);
        assert_int_equal(t.needs.shares, world > 2 && world % 2 == 0);
        backward(&t);
        update(&t);
        check_weights(&t, 0);
        dt_exchange_stats_get(t.x, &s);
        int64_t moved[2] = {(int64_t)s.bytes_sent, (int64_t)s.bytes_received};
        assert_ok(dt_comm_sum_i64(comm, moved, 2));
        assert_int_equal(moved[0], moved[1]);
        const int64_t n = (int64_t)floats, less = a < b ? a : b, more = a + b - less;
        if (world % 2 == 0) /* else each rank sends for itself */
            assert_in_range(moved[0], n * (less + 4), n * (more + 4));
        trial_close(&t);
    }
}

static void refusals(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);
    const exchange_case k = {.row = "shared", .shards = world};
    const dt_exchange_opts o = opts_of(&k);
    dt_exchange_needs needs;

    assert_fails(dt_comm_split_nodes(comm, world + 1), DT_CONFIG, "at most");
    assert_fails(dt_comm_split_nodes(comm, 0), DT_CONFIG, "at most");
    if (world == 1)
        return;
    split(2);
    assert_fails(dt_exchange_plan(comm, &o, &needs), DT_UNSUPPORTED,
                 "exchange shared: the ranks run on 2 nodes");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_over_nodes),
        cmocka_unit_test(little_is_sent),
        cmocka_unit_test(refusals),
    };
    lay_out();
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

/* exchange_nodes.c - the ranks as several nodes, even and uneven, in time and late, with and
 * without memory that they share: always the bits of the definition; and that ranks are numbered
 * for it. */
#include "ranks.h"

#include "capture.h"
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

/* Ranks are late by chance, at every place where another could overtake them. */
static void no_rank_overtakes(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);

    for (int nodes = 1; nodes <= 3 && nodes <= world; nodes++) {
        const char *row = nodes == 1 ? "shared" : "tree";
        assert_ok(dt_comm_split_nodes(comm, nodes));
        for (int kind = 0; kind < 4; kind++)
            run_case((exchange_case){.row = row,
                                     .shards = world + kind,
                                     .bucket_bytes = kind % 2 ? 4 : 12000,
                                     .lockstep = kind == 2,
                                     .bf16 = kind > 1,
                                     .delays = true},
                     row);
    }
    split(1);
}

/* ---- Ranks of a node that cannot share memory: the named row that needs it declines, `auto`
 * says so in one line and takes messages, a tree over nodes sends inside them, too. -------- */

static const char why[] = "1.5 MB cannot be shared";

/* What a plan prints, and how many lines; the status is the plan's. */
static dt_status plan(const dt_exchange_opts *o, dt_exchange_needs *needs, capture *c, int *lines)
{
    capture_begin(c);
    const dt_status st = dt_exchange_plan(comm, o, needs);
    *lines = capture_end(c);
    return st;
}

static void named_rows(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);
    const bool says = world > 1 && dt_comm_rank(comm) == 0;
    dt_exchange_opts o = opts_of(&(exchange_case){.row = "shared", .shards = world, .apart = why});
    dt_exchange_needs needs = {true, 0};
    capture c;
    int lines;

    if (world > 1) {
        assert_fails(plan(&o, &needs, &c, &lines), DT_UNSUPPORTED, why);
        assert_int_equal(lines, 0); /* the record is printed by the rank that gives up */
    }
    o.name = "auto";
    assert_ok(plan(&o, &needs, &c, &lines));
    assert_false(needs.shares);
    assert_int_equal(lines, says);
    if (says)
        assert_non_null(strstr(c.text, "exchange shared: 1.5 MB cannot be shared"));
    o.name = "tree"; /* on one node it sends messages anyway */
    assert_ok(plan(&o, &needs, &c, &lines));
    assert_false(needs.shares);
    assert_int_equal(lines, 0);
}

static void auto_takes_the_tree(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);

    run_case((exchange_case){.row = "auto", .shards = world, .bucket_bytes = 12000, .apart = why},
             world == 1 ? "shared" : "tree");
}

static void tree_inside_nodes(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);
    const exchange_case k = {.row = "tree", .shards = world, .bucket_bytes = 12000, .apart = why};
    const dt_exchange_opts o = opts_of(&k);
    dt_exchange_needs needs;
    capture c;
    int lines;

    if (world < 4 || world % 2 != 0)
        skip(); /* two nodes of as many ranks, more than one */
    assert_ok(dt_comm_split_nodes(comm, 2));
    assert_ok(plan(&o, &needs, &c, &lines));
    assert_false(needs.shares);
    assert_int_equal(lines, dt_comm_rank(comm) == 0);
    if (lines)
        assert_non_null(strstr(c.text, "exchange tree: "));
    run_case(k, "tree");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_over_nodes),     cmocka_unit_test(little_is_sent),
        cmocka_unit_test(no_rank_overtakes),   cmocka_unit_test(named_rows),
        cmocka_unit_test(auto_takes_the_tree), cmocka_unit_test(refusals),
        cmocka_unit_test(tree_inside_nodes),
    };
    lay_out();
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

/* exchange.c - every exchange of the table, on one node: exact ones give the bits of the recursive
 * definition, whatever the shards, ranks and buckets; inexact ones give equal bits on all ranks.
 * With the argument `nodes`, on several real ones (namespaces.sh). */
#include "ranks.h"

#include "gradients.h"

static bool is(const char *row, const char *name)
{
    return strcmp(row, name) == 0;
}

static void every_row_sums(void **state)
{
    (void)state;
    for (int r = 0; r < ROWS; r++)
        if (dt_comm_nodes(comm) == 1 || !is(rows[r], "shared"))
            run_row(rows[r], rows[r]);
}

/* Two nodes of two ranks, which share where they can. */
static void real_nodes(void **state)
{
    (void)state;
    const exchange_case k = {.row = "auto", .shards = 4, .bucket_bytes = 12000};
    const dt_exchange_opts o = opts_of(&k);
    dt_exchange_needs needs;

    assert_int_equal(dt_comm_world(comm), 4);
    assert_int_equal(dt_comm_nodes(comm), 2);
    assert_int_equal(dt_comm_node_ranks(comm), 2);
    assert_ok(dt_exchange_plan(comm, &o, &needs));
    assert_true(needs.shares);
    run_case(k, "tree");
}

/* The data can tell orders apart, and steps differ, and rounding shows. */
static void data_is_sharp(void **state)
{
    (void)state;
    float *line = zeros();

    for (int shard = 0; shard < 8; shard++)
        for (size_t i = 0; i < floats; i++)
            line[i] += leaf_of(shard, 0)[i];
    const size_t bytes = floats * sizeof *line;
    assert_memory_not_equal(line, wanted(8, 0, false), bytes);
    assert_memory_not_equal(wanted(8, 0, false), wanted(8, 1, false), bytes);
    assert_memory_not_equal(wanted(8, 0, false), wanted(8, 0, true), bytes);
    free(line);
}

/* What all ranks send, all ranks receive, and the volume is the method's. */
static void statistics_add_up(void **state)
{
    (void)state;
    const int64_t world = dt_comm_world(comm), others = world - 1;

    for (int r = 0; r < 2 * ROWS; r++) {
        const exchange_case k = {
            .row = rows[r / 2], .shards = (int)world, .bucket_bytes = 12000, .bf16 = r % 2};
        const bool star = is(k.row, "gather") || is(k.row, "p2p"),
                   none = is(k.row, "none") || is(k.row, "shared"),
                   whole = is(k.row, "tree") || is(k.row, "ring") || is(k.row, "buckets");
        dt_exchange_stats s;
        trial t;

        trial_open(&t, k);
        backward(&t);
        update(&t);
        dt_exchange_stats_get(t.x, &s);
        assert_true(s.wait_s >= 0);
        const uint64_t mine =
            t.needs.slabs * floats * sizeof(float) / (t.needs.shares ? (uint64_t)world : 1);
        assert_in_range(s.memory, floats * sizeof(float), mine);
        if (t.needs.shares)
            assert_int_equal(t.needs.slabs, world); /* a leaf each, and nothing else */
        int64_t moved[3] = {(int64_t)s.bytes_sent, (int64_t)s.bytes_received, (int64_t)s.messages};
        assert_ok(dt_comm_sum_i64(comm, moved, 3));
        /* Every rank's leaf goes out and the sum comes back, but for what is at home;
         * the tree's leaves go as bf16 if they are. Rounding down per message: less than
         * one float per rank and message. */
        const int64_t bytes = is(k.row, "tree") && k.bf16 ? 2 + 4 : 4 + 4;
        const int64_t want = none ? 0 : others * (int64_t)(whole ? floats : payload) * bytes;
        assert_in_range(moved[0], want - 4 * moved[2], want);
        assert_int_equal(moved[0], moved[1]);
        assert_int_equal(moved[2] > 0, world > 1 && !none);
        if (star && dt_comm_rank(comm) == 0)
            assert_int_equal(s.bytes_received, (int64_t)payload * 4 * others);
        trial_close(&t);
    }
}

/* Buckets leave while backward still runs: only then can messages hide behind it. */
static void some_start_early(void **state)
{
    (void)state;
    static const char *const early[] = {"tree", "ring", "buckets"};
    const int world = dt_comm_world(comm), rank = dt_comm_rank(comm);

    for (int r = 0; r < 3; r++) {
        trial t;
        dt_exchange_stats s;

        trial_open(&t, (exchange_case){.row = early[r], .shards = world, .bucket_bytes = 4});
        float *leaf = leaf_take(t.x);
        write_leaves(&t, &leaf, rank, 1, 0, floats / 2);
        dt_exchange_stats_get(t.x, &s);
        assert_int_equal(s.messages > 0, world > 1);
        write_leaves(&t, &leaf, rank, 1, floats / 2, floats);
        update(&t);
        check_weights(&t, 0);
        trial_close(&t);
    }
}

/* After a failure in mid-step an exchange is closed with messages under way; no rank
 * waits for them, and the next exchange is not confused by them. */
static void closed_in_mid_step(void **state)
{
    (void)state;
    static const char *const row[] = {"tree", "ring", "shared"};

    for (int r = 0; r < 3; r++) {
        const exchange_case k = {.row = row[r], .shards = dt_comm_world(comm), .bucket_bytes = 4};
        trial t;

        trial_open(&t, k);
        float *leaf = leaf_take(t.x);
        write_leaves(&t, &leaf, dt_comm_rank(comm), 1, 0, floats / 2);
        assert_ok(dt_comm_barrier(comm));
        dt_exchange_close(t.x);
        t.x = NULL;
        assert_ok(dt_comm_barrier(comm));
        trial_close(&t);
        run_case(k, k.row);
    }
    dt_exchange_close(NULL);
}

static void choice_and_refusal(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);
    const dt_span huge = {0, (size_t)1 << 31}; /* beyond MPI's int, but no slice of it is */
    dt_exchange_opts o = {
        .name = "tree", .shards = world, .floats = huge.count, .tensor = &huge, .tensors = 1};
    dt_exchange_needs needs;

    assert_ok(dt_exchange_plan(comm, &o, &needs));
    assert_int_equal(needs.slabs, world == 1 ? 1 : 2);
    assert_false(needs.shares);
    o.bf16 = true; /* what is received takes half */
    assert_ok(dt_exchange_plan(comm, &o, &needs));
    assert_int_equal(needs.slabs, world == 1 ? 1 : 2);
    o.name = "magic";
    assert_fails(dt_exchange_plan(comm, &o, &needs), DT_CONFIG,
                 "'magic'; use one of: auto shared tree ring gather p2p");
    o.name = "tree";
    o.shards = world - 1;
    assert_fails(dt_exchange_plan(comm, &o, &needs), DT_CONFIG, "shards");

    run_case((exchange_case){.row = "auto", .shards = world, .bucket_bytes = 12000}, "shared");
}

/* In a world of one, which no other rank waits for. */
static void misuse_of_the_exchange(void **state)
{
    (void)state;
    if (dt_comm_world(comm) > 1)
        skip();
    const dt_span four = {0, 4};
    const dt_exchange_opts o = {
        .name = "tree", .shards = 1, .floats = 16, .tensor = &four, .tensors = 1};
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
        cmocka_unit_test(data_is_sharp),          cmocka_unit_test(every_row_sums),
        cmocka_unit_test(statistics_add_up),      cmocka_unit_test(some_start_early),
        cmocka_unit_test(closed_in_mid_step),     cmocka_unit_test(choice_and_refusal),
        cmocka_unit_test(misuse_of_the_exchange),
    };
    const struct CMUnitTest nodes[] = {
        cmocka_unit_test(real_nodes),
        cmocka_unit_test(every_row_sums),
    };
    lay_out();
    ranks_open(argc, argv);
    return ranks_close(argc > 1 && is(argv[1], "nodes")
                           ? cmocka_run_group_tests(nodes, NULL, NULL)
                           : cmocka_run_group_tests(tests, NULL, NULL));
}

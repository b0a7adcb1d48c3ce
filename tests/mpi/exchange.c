/* exchange.c - every exchange of the table, on one node and on several, even and uneven, in time
 * and late: exact ones give the bits of the recursive
 * definition, inexact ones equal bits on all ranks. With the argument `nodes`, on several real ones
 * (namespaces.sh); with `abort ROW`, the last rank fails in mid-step (abort.sh). */
#include "ranks.h"

#include "gradients.h"

static bool is(const char *row, const char *name)
{
    return strcmp(row, name) == 0;
}

/* Node k of n has the ranks [k * world / n, (k + 1) * world / n). */
static void split(int nodes)
{
    const int world = comm->world, rank = comm->rank;
    int node = 0;

    assert_ok(dt_comm_split_nodes(comm, nodes));
    while ((node + 1) * world / nodes <= rank)
        node++;
    assert_int_equal(comm->nodes, nodes);
    assert_int_equal(comm->node_rank, rank - node * world / nodes);
    assert_int_equal(comm->node_ranks, (node + 1) * world / nodes - node * world / nodes);
    assert_true(dt_comm_node_cpus(comm) >= 1);
}

/* ---- Sums ------------------------------------------------------------------------ */

/* ranks, ranks + 1, 8, 13 shards, where these are more, and some for half of the ranks; a bucket
 * per tensor, some, the whole slab; each leaf by itself and in lockstep, float32, bf16 and, with
 * some, 2 bits and half of the ranks. */
static void run_grid(exchange_case k, const char *takes)
{
    static const size_t bytes[] = {4, 12000, 0};
    const int world = comm->world, shards[] = {world, world + 1, (world + 1) / 2, 8, 13};

    for (int s = 0; s < 5; s++)
        for (int b = 0; b < 3; b++)
            for (int kind = 0; kind < (b == 1 ? 6 : 4) && (s < 3 || shards[s] > world + 1);
                 kind++) {
                if (s == 2 && (b != 1 || world == 1))
                    continue;
                k.shards = shards[s];
                k.bucket_bytes = bytes[b];
                k.lockstep = kind % 2 != 0;
                k.compress = (compress)(kind / 2);
                run_case(k, takes);
            }
}

static void run_one(exchange_case k, const char *takes)
{
    k.shards = comm->world;
    k.bucket_bytes = 12000;
    run_case(k, takes);
}

enum {
#define X(name) +1
    ROWS = DT_EXCHANGE_LIST(X) /* sums begins with them */
#undef X
};
static const struct sums {
    const char *row, *takes; /* takes NULL: itself */
    int nodes;               /* at most the ranks, else there is no such case */
    void (*run)(exchange_case k, const char *takes);
    int few; /* ranks that are few; 0: as it is */
} sums[] = {
#define X(name) {#name, NULL, 1, run_grid, 0},
    DT_EXCHANGE_LIST(X)
#undef X
        {"tree", NULL, 1, run_grid, 1},
    {"tree", NULL, 4, run_grid, 1},    {"tree", NULL, 4, run_late, 1},
    {"tree", NULL, 2, run_grid, 0},    {"tree", NULL, 3, run_grid, 0},
    {"buckets", NULL, 2, run_one, 0},  {"buckets", NULL, 3, run_one, 0},
    {"auto", "shared", 1, run_one, 0}, {"auto", "tree", 2, run_one, 0},
    {"auto", "tree", 3, run_one, 0},   {"shared", NULL, 1, run_late, 0},
    {"tree", NULL, 2, run_late, 0},    {"tree", NULL, 3, run_late, 0},
};

TEST(every_row_sums)
{
    const int world = comm->world;
    const bool real = comm->nodes > 1;

    for (const struct sums *s = sums; s < sums + sizeof sums / sizeof *sums; s++) {
        const char *takes = s->takes ? s->takes : s->row;
        if (s->nodes > world ||
            (real && (s->nodes > 1 || s->run != run_grid || is(s->row, "shared"))))
            continue;
        if (!real)
            split(s->nodes);
        comm->own->few = s->few ? s->few : 16;
        s->run((exchange_case){.row = s->row}, world == 1 && s->takes ? "shared" : takes);
    }
    if (!real)
        split(1);
}

/* Two nodes of two ranks, which share where they can. */
static void real_nodes(void **state)
{
    (void)state;
    const exchange_case k = {.row = "auto", .shards = 4, .bucket_bytes = 12000};
    const dt_exchange_opts o = opts_of(&k);
    dt_exchange_needs needs;
    dt_exchange *x;

    assert_int_equal(comm->world, 4);
    assert_int_equal(comm->nodes, 2);
    assert_int_equal(comm->node_ranks, 2);
    assert_ok(dt_exchange_create(&x, comm, &o, &needs));
    dt_exchange_close(x);
    assert_true(needs.shares);
    run_case(k, "tree");
}

/* The data can tell orders apart, and steps differ, and rounding shows. */
TEST(data_is_sharp)
{
    float *line = zeros();

    for (int shard = 0; shard < 8; shard++)
        for (size_t i = 0; i < floats; i++)
            line[i] += leaf_of(shard, 0)[i];
    const size_t bytes = floats * sizeof *line;
    assert_memory_not_equal(line, wanted(8, 0, NONE), bytes);
    assert_memory_not_equal(wanted(8, 0, NONE), wanted(8, 1, NONE), bytes);
    assert_memory_not_equal(wanted(8, 0, NONE), wanted(8, 0, BF16), bytes);
    assert_memory_not_equal(wanted(8, 0, TWO_BITS), wanted(8, STEPS, TWO_BITS), bytes);
    free(line);
}

/* ---- Messages -------------------------------------------------------------------- */

/* One step; what all ranks together sent, received, and in how many messages. */
static dt_exchange_stats measure(exchange_case k, int64_t moved[3], dt_exchange_needs *needs)
{
    dt_exchange_stats s;
    trial t;

    trial_open(&t, k);
    backward(&t);
    update(&t);
    t.checked = 0;
    check_weights(&t);
    dt_exchange_stats_get(t.x, &s);
    *needs = t.needs;
    trial_close(&t);
    moved[0] = (int64_t)s.bytes_sent;
    moved[1] = (int64_t)s.bytes_received;
    moved[2] = (int64_t)s.messages;
    assert_ok(dt_comm_sum_i64(comm, moved, 3));
    assert_int_equal(moved[0], moved[1]);
    return s;
}

/* How a leaf goes in the tree, and a sum. */
static const int64_t leaf_bits[] = {32, 16, 2}, sum_bits[] = {32, 32, 8};

/* Every rank's leaf goes out and the sum comes back, but for what is at home; the tree packs them.
 * Rounding down per message: less than one float per rank and message; or up, to a byte. */
TEST(statistics_add_up)
{
    const int64_t world = comm->world, others = world - 1;

    for (int r = 0; r < 3 * ROWS; r++) {
        const compress how = (compress)(r % 3);
        const exchange_case k = {
            .row = sums[r / 3].row, .shards = (int)world, .bucket_bytes = 12000, .compress = how};
        const bool star = is(k.row, "gather") || is(k.row, "p2p"), none = is(k.row, "shared"),
                   whole = is(k.row, "tree") || is(k.row, "buckets");
        const int64_t bits = is(k.row, "tree") ? leaf_bits[how] + sum_bits[how] : 32 + 32;
        const int64_t want = none ? 0 : others * (int64_t)(whole ? floats : payload) * bits / 8;
        dt_exchange_needs needs;
        int64_t moved[3];

        const dt_exchange_stats s = measure(k, moved, &needs);
        assert_in_range(s.memory, floats * sizeof(float),
                        needs.slabs * floats * sizeof(float) /
                            (needs.shares ? (uint64_t)world : 1));
        if (needs.shares)
            assert_int_equal(needs.slabs, how == TWO_BITS ? 2 * world : world); /* a leaf each */
        assert_in_range(moved[0], want - 4 * moved[2], want + moved[2]);
        assert_int_equal(moved[2] > 0, world > 1 && !none);
        if (star && comm->rank == 0)
            assert_int_equal(s.bytes_received, (int64_t)payload * 4 * others);
        comm->own->few = 1; /* two neighbours in each of four groups: 4 (1 + 3) messages */
        if (is(k.row, "tree") && world == 8)
            assert_int_equal(7 * measure(k, moved, &needs).messages, 4 * s.messages);
        comm->own->few = 16;
    }
}

/* Bits per float of what is sent of leaves [a, b): their maximal aligned subtrees. */
static int64_t sent_of(int a, int b, compress how)
{
    int64_t bits = 0;

    while (a < b) {
        int leaves = 1;
        while (a % (2 * leaves) == 0 && a + 2 * leaves <= b)
            leaves *= 2;
        bits += leaves == 1 ? leaf_bits[how] : sum_bits[how];
        a += leaves;
    }
    return bits;
}

/* Between two nodes of as many ranks, each node's partial sums go out once and the sum comes
 * back once, however many ranks a node has: half of every bucket each way, within one cut. */
TEST(little_is_sent_between_nodes)
{
    const int world = comm->world, cut = world / 2;

    for (compress how = NONE; how <= TWO_BITS && world > 1; how++) {
        const exchange_case k = {
            .row = "tree", .shards = world, .bucket_bytes = 12000, .compress = how};
        const int64_t a = sent_of(0, cut, how), b = sent_of(cut, world, how), sum = sum_bits[how];
        const int64_t n = (int64_t)floats, less = DT_MIN(a, b), more = DT_MAX(a, b);
        dt_exchange_needs needs;
        int64_t moved[3];

        split(2);
        measure(k, moved, &needs);
        assert_int_equal(needs.shares, world > 2 && world % 2 == 0);
        if (world % 2 == 0) /* else each rank sends for itself */
            assert_in_range(moved[0], n * (less + sum) / 8, n * (more + sum) / 8 + moved[2]);
    }
    split(1);
}

/* Buckets are sent while backward still runs: only then can messages hide behind it. */
TEST(some_start_early)
{
    static const char *const row[] = {"tree", "buckets", "shared"};
    const int world = comm->world;

    for (int r = 0; r < 3; r++) {
        const exchange_case k = {.row = row[r], .shards = world, .bucket_bytes = 4};
        dt_exchange_stats s;
        trial t;

        trial_open(&t, k);
        float *leaf = leaf_take(t.x);
        write_leaves(&t, &leaf, comm->rank, 1, 0, floats / 2);
        dt_exchange_stats_get(t.x, &s);
        assert_int_equal(s.messages > 0, world > 1 && !is(k.row, "shared"));
        write_leaves(&t, &leaf, comm->rank, 1, floats / 2, floats);
        update(&t);
        t.checked = 0;
        check_weights(&t);
        trial_close(&t);
    }
}

/* ---- Looks from kernels ---------------------------------------------------------- */

static int tested, broken; /* calls of MPI_Testall; what it returns, if not 0 */
int __real_MPI_Testall(int count, void *requests, int *flag, void *statuses);
int __wrap_MPI_Testall(int count, void *requests, int *flag, void *statuses);
int __wrap_MPI_Testall(int count, void *requests, int *flag, void *statuses)
{
    tested++;
    return broken ? broken : __real_MPI_Testall(count, requests, flag, statuses);
}

/* Once backward has written its last float, all of a step's messages are sent and received by
 * looks; where there are none, nothing is called. */
TEST(kernels_look_after_messages)
{
    static const char *const row[] = {"tree", "shared"};

    for (int r = 0; r < 2; r++) {
        dt_exchange_stats one, two = {.messages = 0};
        trial t;

        trial_open(&t, (exchange_case){.row = row[r], .shards = comm->world});
        backward(&t);
        update(&t);
        dt_exchange_stats_get(t.x, &one);
        t.k.step = 1;
        backward(&t);
        const int before = tested;
        const double end = dt_seconds() + 0.03;
        while (dt_seconds() < end || two.messages < 2 * one.messages) {
            dt_poll();
            dt_exchange_stats_get(t.x, &two);
        }
        if (one.messages == 0)
            assert_int_equal(tested, before);
        update(&t);
        t.checked = 1;
        check_weights(&t);
        trial_close(&t);
    }
}

/* A look cannot return a failure: the next call does, and those after it. */
TEST(failures_of_looks_are_kept)
{
    const int world = comm->world, rank = comm->rank;
    const exchange_case k = {.row = "tree", .shards = world, .bucket_bytes = 4};
    trial t;

    if (world == 1)
        skip();
    trial_open(&t, k);
    float *leaf = leaf_take(t.x);
    if (rank < world - 1) { /* the last rank sends nothing, so the others' messages wait */
        write_leaves(&t, &leaf, rank, 1, 0, floats / 2);
        broken = 16; /* MPI_ERR_OTHER */
        for (const int before = tested; tested == before;)
            dt_poll();
        broken = 0;
        assert_fails(dt_exchange_ready(t.x, floats / 2), DT_COMM, "MPI_Testall: ");
        assert_int_equal(dt_exchange_ready(t.x, floats), DT_COMM);
    }
    assert_ok(dt_comm_barrier(comm));
    trial_close(&t);
    run_case(k, k.row);
}

/* In the middle of a step the last rank fails alone: it gives back what it holds, for
 * which it must not wait for the others, and ends them with its code. */
static int fail_alone(const char *row)
{
    const int world = comm->world, rank = comm->rank;
    trial t;

    trial_open(&t, (exchange_case){.row = row, .shards = world});
    if (rank < world - 1) {
        backward(&t);
        update(&t); /* waits for ever */
        return 1;
    }
    leaf_take(t.x);
    const dt_status st = dt_fail(DT_NUMERIC, "this rank alone");
    trial_close(&t);
    dt_comm_abort(comm, dt_status_exit_code(st));
    _exit(dt_status_exit_code(st)); /* alone */
}

/* ---- Choice and refusal ---------------------------------------------------------- */

/* What is chosen. */
enum { ALL = -1, MORE = ~(1 << 1), HALVES = 1 << 4 | 1 << 8 }; /* 1 << ranks */
static const struct plans {
    const char *row;
    int worlds, nodes, shards; /* shards: more than ranks */
    dt_status st;
    bool shares;
    const char *fails; /* a part of the failure */
} plans[] = {
    {"shared", MORE, 1, 0, DT_OK, true, NULL},
    {"shared", MORE, 2, 0, DT_UNSUPPORTED, false, "shared: the ranks run on 2 nodes"},
    {"tree", ALL, 1, 0, DT_OK, false, NULL},
    {"tree", HALVES, 2, 0, DT_OK, true, NULL},
    {"magic", ALL, 1, 0, DT_CONFIG, false, "use one of: auto shared tree gather"},
};

TEST(choice_and_refusal)
{
    const int world = comm->world;

    for (const struct plans *p = plans; p < plans + sizeof plans / sizeof *plans; p++) {
        const exchange_case k = {.row = p->row, .shards = world + p->shards};
        const dt_exchange_opts o = opts_of(&k);
        dt_exchange_needs needs = {.slabs = 0};
        dt_exchange *x;

        if (!(p->worlds >> world & 1))
            continue;
        split(p->nodes);
        const dt_status st = dt_exchange_create(&x, comm, &o, &needs);
        dt_exchange_close(x);
        assert_int_equal(st, p->st);
        assert_int_equal(needs.shares, p->shares);
        if (p->fails)
            assert_fails(st, p->st, p->fails);
    }
    split(1);
    assert_ok(dt_comm_split_nodes(comm, world + 1)); /* as where other nodes have more ranks */
    assert_int_equal(comm->nodes, world);
    assert_fails(dt_comm_split_nodes(comm, 0), DT_CONFIG, "0 nodes");
}

/* A slab beyond MPI's int is planned if no slice of it is; messages take less than a slab. */
TEST(slabs_may_be_huge)
{
    const int world = comm->world;
    const dt_span huge = {0, (size_t)1 << 31};
    dt_exchange_opts o = {
        .name = "tree", .shards = world, .floats = huge.count, .tensor = &huge, .tensors = 1};

    for (compress how = NONE; how <= TWO_BITS; how++) {
        dt_exchange_needs needs;
        dt_exchange *x;
        o.compress = compress_word[how];
        o.threshold = 1;
        assert_ok(dt_exchange_create(&x, comm, &o, &needs));
        dt_exchange_close(x);
        assert_int_equal(needs.slabs, (world == 1 ? 1 : 2) + (how == TWO_BITS));
        assert_false(needs.shares);
    }
}

/* In a world of one, which no other rank waits for. */
TEST(misuse_of_the_exchange)
{
    if (comm->world > 1)
        skip();
    const dt_span four = {0, 4};
    const dt_exchange_opts o = {
        .name = "tree", .shards = 1, .floats = 16, .tensor = &four, .tensors = 1};
    _Alignas(64) float memory[16] = {0};
    dt_exchange_needs needs;
    dt_exchange *x;
    dt_exchange_sum sum;

    assert_ok(dt_exchange_create(&x, comm, &o, &needs));
    assert_ok(dt_exchange_open(x, memory));
    assert_fails(dt_exchange_finish(x, &sum), DT_BUG, "ended at");
    dt_exchange_leaf(x);
    assert_fails(dt_exchange_ready(x, 17), DT_BUG, "17 floats of 16");
    assert_fails(dt_exchange_finish(x, &sum), DT_BUG, "ended at");
    assert_ok(dt_exchange_ready(x, 16));
    assert_ok(dt_exchange_finish(x, &sum));
    dt_exchange_close(x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest nodes[] = {
        cmocka_unit_test(real_nodes),
        cmocka_unit_test(every_row_sums),
    };
    lay_out();
    ranks_open(argc, argv);
    if (argc > 1 && is(argv[1], "abort"))
        return fail_alone(argc > 2 ? argv[2] : "tree");
    return ranks_close(argc > 1 && is(argv[1], "nodes")
                           ? cmocka_run_group_tests(nodes, NULL, NULL)
                           : tests_run(NULL, NULL));
}

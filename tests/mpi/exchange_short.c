/* Too little shared memory: the named row that needs it declines, `auto` says so in one
 * line and goes on with messages, and a tree over nodes sends inside them, too.
 *   (no argument)  a directory with 0 bytes free
 *   BYTES          the default directory, which has that many (exchange_shm.sh): what
 *                  fits is shared */
#include "ranks.h"

#include "capture.h"
#include "gradients.h"

static size_t room; /* 0: none at all */

/* What a plan prints, and how many lines; the status is the plan's. */
static dt_status plan(const dt_exchange_opts *o, dt_exchange_needs *needs, capture *c,
                      int *lines)
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
    const bool short_of_it = world > 1, says = short_of_it && dt_comm_rank(comm) == 0;
    dt_exchange_opts o = opts_of(&(exchange_case){.row = "shared", .shards = world});
    dt_exchange_needs needs = {true, 0};
    capture c;
    int lines;

    o.node_bytes = room; /* more than is left, with what the exchange needs */
    if (short_of_it) {
        assert_fails(plan(&o, &needs, &c, &lines), DT_UNSUPPORTED,
                     "docker run --shm-size");
        assert_int_equal(lines, 0); /* the record is printed by whoever gives up */
    }
    o.name = "auto";
    assert_ok(plan(&o, &needs, &c, &lines));
    assert_false(needs.shares);
    assert_int_equal(lines, says);
    if (says) {
        assert_non_null(strstr(c.text, "exchange shared: "));
        assert_non_null(strstr(c.text, "osc_sm_backing_directory"));
    }
    o.name = "tree"; /* on one node it sends messages anyway */
    assert_ok(plan(&o, &needs, &c, &lines));
    assert_false(needs.shares);
    assert_int_equal(lines, 0);
}

static void auto_takes_the_tree(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);

    if (room == 0)
        run_case((exchange_case){.row = "auto", .shards = world, .bucket_bytes = 12000},
                 world == 1 ? "shared" : "tree");
    else
        run_case((exchange_case){.row = "auto", .shards = world}, "shared");
}

static void tree_inside_nodes(void **state)
{
    (void)state;
    const int world = dt_comm_world(comm);
    dt_exchange_opts o = opts_of(&(exchange_case){.row = "auto", .shards = world});
    dt_exchange_needs needs;
    capture c;
    int lines;

    if (world < 3)
        return;
    assert_ok(dt_comm_split_nodes(comm, 2));
    o.node_bytes = room;
    assert_ok(plan(&o, &needs, &c, &lines));
    assert_false(needs.shares);
    assert_int_equal(lines, dt_comm_rank(comm) == 0);
    if (lines)
        assert_non_null(strstr(c.text, "exchange tree: "));
    run_case((exchange_case){.row = "tree", .shards = world, .bucket_bytes = 12000},
             "tree");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_rows),
        cmocka_unit_test(auto_takes_the_tree),
        cmocka_unit_test(tree_inside_nodes),
    };
    if (argc > 1)
        room = (size_t)strtoull(argv[1], NULL, 10);
    else
        setenv("OMPI_MCA_osc_sm_backing_directory", "/proc", 1);
    lay_out();
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

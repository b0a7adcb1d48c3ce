/* exchange_short.c - ranks of a node that cannot share memory: the named row that needs it
 * declines, `auto` says so in one line and goes on with messages, and a tree over nodes sends
 * inside them, too. */
#include "ranks.h"

#include "capture.h"
#include "gradients.h"

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
        assert_int_equal(lines, 0); /* the record is printed by whoever gives up */
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
        cmocka_unit_test(named_rows),
        cmocka_unit_test(auto_takes_the_tree),
        cmocka_unit_test(tree_inside_nodes),
    };
    lay_out();
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

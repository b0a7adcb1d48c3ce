/* train_lockstep.c - what --bn node means. */
#include "test.h"

#include "small_run.h"

/* One rank on one node: its node's shards are all shards, and it says so. */
static void node_becomes_a_number(void **state)
{
    (void)state;
    char **argv = NULL;
    dt_comm *c = NULL;
    dt_options o = small_run("vgg11");
    dt_run r;
    int argc = 0;

    o.shards = 5;
    o.bn = "node";
    assert_ok(dt_comm_open(&c, &argc, &argv));
    assert_ok(dt_run_open(&r, c, &o, DT_FOR_TRAINING));
    assert_string_equal(r.o.bn, "group:5");
    assert_int_equal(r.bn_group, 5);
    dt_run_close(&r);
    assert_ok(dt_run_open(&r, c, &o, DT_FOR_EVALUATION)); /* needs no shards */
    assert_int_equal(r.bn_group, 0);
    dt_run_close(&r);
    dt_comm_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_becomes_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

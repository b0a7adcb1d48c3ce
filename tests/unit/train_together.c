/* What --bn means. */
#include "test.h"

#include "../../src/train/together.h"

static void words_and_groups(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t group;
    } good[] = {{"local", 0},    {"sync", 8},      {"node", -1},
                {"group:1", 1},  {"group:2", 2},   {"group:8", 8},
                {"group:09", 8}, {"group:100", 8}, {"group:9223372036854775807", 8}};
    int64_t group;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(dt_bn_parse(good[i].text, 8, &group));
        assert_int_equal(group, good[i].group);
    }
}

static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",         "Local",    "group",    "group:",   "group:0",
        "group:-1", "group:+2", "group: 2", "group:2 ", "group:1.5",
        "groups:2", "sync2",    "2"};
    int64_t group;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(dt_bn_parse(bad[i], 8, &group), DT_CONFIG, "group:N with N >= 1");
}

/* One rank on one node: its node's shards are all shards, and it says so. */
static void node_becomes_a_number(void **state)
{
    (void)state;
    char **argv = NULL;
    dt_comm *c = NULL;
    dt_options o;
    dt_run r;
    int argc = 0;

    dt_options_init(&o);
    o.data = "synthetic:16";
    o.net = "vgg11";
    o.image_size = 32;
    o.width_divisor = 16;
    o.batch = 2;
    o.shards = 5;
    o.threads = 1;
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
        cmocka_unit_test(words_and_groups),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(node_becomes_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

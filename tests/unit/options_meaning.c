/* options_meaning.c - what texts of options mean: --bn, --save-every. */
#include "options/options.h"
#include "test.h"

static void bn_words_and_groups(void **state)
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

static void bn_else_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",         "Local",    "group",    "group:",   "group:0",
                                      "group:-1", "group:+2", "group: 2", "group:2 ", "group:1.5",
                                      "groups:2", "sync2",    "2"};
    int64_t group;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(dt_bn_parse(bad[i], 8, &group), DT_CONFIG, "group:N with N >= 1");
}

static void save_every_is_steps_or_time(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t steps;
        double seconds;
    } good[] = {{"0", 0, 0}, {"50", 50, 0}, {"30s", 0, 30}, {"1.5m", 0, 90}, {"2h", 0, 7200}};
    static const char *const bad[] = {"",     "often", "-1",   "1.5", "0s",
                                      "10 m", "10d",   "0x10", "1e13"};
    int64_t steps;
    double seconds;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(dt_save_every_parse(good[i].text, &steps, &seconds));
        assert_int_equal(steps, good[i].steps);
        assert_true(!(seconds < good[i].seconds) && !(seconds > good[i].seconds));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(dt_save_every_parse(bad[i], &steps, &seconds), DT_CONFIG, "30s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bn_words_and_groups),
        cmocka_unit_test(bn_else_is_refused),
        cmocka_unit_test(save_every_is_steps_or_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* options_meaning.c - what texts of options mean: --bn, --save-every, --milestones, --flip. */
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

static void milestones_are_fractions(void **state)
{
    (void)state;
    static const char *const bad[] = {"0.5,x", "0.5,", ",0.5", "0.5 0.7", "1.5", "-0.1", "nan"};
    double fraction[DT_MAX_MILESTONES];
    char many[400] = "0.5";
    int count;

    assert_ok(dt_milestones_parse("0.5,0,1", fraction, &count));
    assert_int_equal(count, 3);
    assert_true(fraction[0] == 0.5 && fraction[1] == 0 && fraction[2] == 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(dt_milestones_parse(bad[i], fraction, &count), DT_CONFIG, bad[i]);
    for (int i = 1; i < DT_MAX_MILESTONES; i++)
        strncat(many, ",0.5", sizeof many - strlen(many) - 1);
    assert_ok(dt_milestones_parse(many, fraction, &count));
    strncat(many, ",0.5", sizeof many - strlen(many) - 1);
    assert_fails(dt_milestones_parse(many, fraction, &count), DT_CONFIG, "at most 32");
}

static void a_flip_has_four_fields_or_five(void **state)
{
    (void)state;
    dt_flip_form f;

    assert_ok(dt_flip_parse("", &f));
    assert_int_equal(f.step, 0);
    assert_ok(dt_flip_parse("momentum:3:7:fc.bias:31", &f));
    assert_int_equal(f.what, DT_FLIP_momentum);
    assert_true(f.rank == 3 && f.step == 7 && f.bit == 31);
    assert_string_equal(f.tensor, "fc.bias");
    assert_fails(dt_flip_parse("momentum:3:7::31", &f), DT_CONFIG, "want WHAT:RANK:STEP");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bn_words_and_groups),
        cmocka_unit_test(bn_else_is_refused),
        cmocka_unit_test(save_every_is_steps_or_time),
        cmocka_unit_test(milestones_are_fractions),
        cmocka_unit_test(a_flip_has_four_fields_or_five),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* options_table.c - the option table: every row by its own rules, values as text, cross checks. */
#include "options/options.h"
#include "test.h"

static const dt_option_row *row_of(const char *name)
{
    const dt_option_row *row = dt_option_find(name);
    assert_non_null(row);
    return row;
}

/* Set one option; the record is left for the caller to look at. */
static dt_status set(dt_options *o, const char *name, const char *text)
{
    dt_fail_clear();
    return dt_option_set(row_of(name), o, text, "here", DT_CONFIG);
}

static void test_rows_are_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < dt_option_count; i++) {
        const dt_option_row *r = &dt_option_table[i];
        assert_ptr_equal(dt_option_find(r->name), r); /* also: names are unique */
        assert_null(strchr(r->name, '-'));
        assert_true(strlen(r->help) > 5 && strlen(r->help) < 200);
        assert_true(strlen(r->group) > 0);
        assert_int_equal(r->metavar == NULL, r->type == DT_OPTION_FLAG);
        assert_int_equal(r->choices[0] == ' ', r->type == DT_OPTION_CHOICE);
    }
}

/* A group is one block of rows: the listings open its heading once. */
static void test_groups_are_contiguous(void **state)
{
    (void)state;
    for (size_t i = 2; i < dt_option_count; i++)
        for (size_t j = 0; j + 1 < i; j++)
            if (strcmp(dt_option_table[i].group, dt_option_table[j].group) == 0)
                assert_string_equal(dt_option_table[j].group, dt_option_table[j + 1].group);
}

static void test_defaults_are_values(void **state)
{
    dt_options o, copy;
    char text[256], again[256];

    (void)state;
    dt_options_init(&o);
    memset(&copy, 0, sizeof copy);
    for (size_t i = 0; i < dt_option_count; i++) {
        const dt_option_row *r = &dt_option_table[i];
        dt_option_text(r, &o, text, sizeof text);
        assert_int_equal(dt_option_set(r, &copy, text, "here", DT_BUG), DT_OK);
        assert_string_equal(dt_option_text(r, &copy, again, sizeof again), text);
    }
}

/* The tutorial's recipe, written out again. */
static void test_defaults_are_the_tutorial(void **state)
{
    static const char *const recipe[][2] = {
        {"net", "resnet50"},      {"variant", "mindspore"},  {"stem", "imagenet"},
        {"batch", "32"},          {"global_batch", "auto"},  {"drop_remainder", "true"},
        {"augment", "cifar"},     {"normalize", "tutorial"}, {"lr", "0.01"},
        {"momentum", "0.9"},      {"weight_decay", "0"},     {"schedule", "constant"},
        {"warmup", "0"},          {"epochs", "10"},          {"label_smoothing", "0"},
        {"nesterov", "false"},    {"image_size", "auto"},    {"max_steps", "-1"},
        {"loss_epsilon", "auto"}, {"resize", "auto"}};
    dt_options o;
    char text[256];

    (void)state;
    dt_options_init(&o);
    for (size_t i = 0; i < sizeof recipe / sizeof *recipe; i++)
        assert_string_equal(dt_option_text(row_of(recipe[i][0]), &o, text, sizeof text),
                            recipe[i][1]);
}

static void test_values(void **state)
{
    static const struct {
        const char *name, *text, *want; /* want NULL: refused */
    } cases[] = {
        /* clang-format off */
        {"epochs", "3", "3"}, {"epochs", "0", NULL}, {"epochs", "", NULL},
        {"epochs", " 3", NULL}, {"epochs", "3 ", NULL}, {"epochs", "3.5", NULL},
        {"epochs", "1e3", NULL}, {"epochs", "0x10", NULL}, {"epochs", "three", NULL},
        {"epochs", "99999999999999999999", NULL}, {"epochs", "auto", NULL},
        {"max_steps", "-1", "-1"}, {"max_steps", "-2", NULL}, {"max_steps", "0", "0"},
        {"seed", "4294967295", "4294967295"}, {"seed", "4294967296", NULL},
        {"batch", "auto", "auto"}, {"batch", "0", NULL}, {"batch", "-4", NULL},
        {"image_size", "224", "224"}, {"image_size", "7", NULL},
        {"lr", "0.1", "0.1"}, {"lr", "1e-3", "0.001"}, {"lr", ".5", "0.5"},
        {"lr", "-0.1", NULL}, {"lr", "nan", NULL}, {"lr", "inf", NULL}, {"lr", "", NULL},
        {"lr", "-nan", NULL}, {"lr", "1e400", NULL}, {"lr", "0.1x", NULL},
        {"lr", "0.30000000000000004", "0.30000000000000004"}, {"lr", "-0", "0"},
        {"lr", "1e-5", "1.0e-05"}, {"lr", "1.5e-7", "1.5e-07"}, {"lr", "1e-300", "1.0e-300"},
        {"loss_epsilon", "auto", "auto"}, {"loss_epsilon", "0", "0"},
        {"loss_epsilon", "1e-24", "1.0e-24"}, {"loss_epsilon", "-1", NULL},
        {"loss_epsilon", "Auto", NULL}, {"loss_epsilon", "2", NULL},
        {"momentum", "1.5", NULL}, {"label_smoothing", "1", NULL},
        {"nesterov", "true", "true"}, {"nesterov", "No", "false"},
        {"nesterov", "maybe", NULL}, {"nesterov", "", NULL},
        {"net", "vgg11", "vgg11"}, {"net", "vgg", NULL}, {"net", "", NULL},
        {"net", " vgg11", NULL}, {"net", "resnet50 vgg11", NULL}, {"net", "VGG11", NULL},
        {"data", "", ""}, {"data", "a b", "a b"},
        {"bn", "group:2", "group:2"}, {"bn", "foo", NULL}, {"save_every", "2h", "2h"},
        {"save_every", "often", NULL}, {"milestones", "", ""}, {"milestones", "1,2", NULL},
        {"flip", "", ""}, {"flip", "weight:0:1:a", "weight:0:1:a"}, {"flip", "weight", NULL},
        /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_options o, before;
        char text[256];
        dt_options_init(&o);
        before = o;
        const dt_status st = set(&o, cases[i].name, cases[i].text);
        if (cases[i].want) {
            assert_int_equal(st, DT_OK);
            dt_option_text(row_of(cases[i].name), &o, text, sizeof text);
            assert_string_equal(text, cases[i].want);
        } else {
            assert_int_equal(st, DT_CONFIG);
            assert_memory_equal(&o, &before, sizeof o);
            assert_non_null(strstr(dt_fail_text(), "here"));
            assert_non_null(strstr(dt_fail_text(), cases[i].name));
            snprintf(text, sizeof text, "'%s'", cases[i].text);
            assert_non_null(strstr(dt_fail_text(), text));
        }
    }
    dt_fail_clear();
}

static void test_ranges_are_named(void **state)
{
    dt_options o;

    (void)state;
    dt_options_init(&o);
    for (size_t i = 0; i < dt_option_count; i++) {
        const dt_option_row *r = &dt_option_table[i];
        char text[64];
        if (r->low >= r->high) /* texts, choices, flags */
            continue;
        snprintf(text, sizeof text, "%.0f", r->low - 1);
        assert_int_equal(set(&o, r->name, text), DT_CONFIG);
        snprintf(text, sizeof text, "%.0f", r->high + 1);
        assert_int_equal(set(&o, r->name, text), DT_CONFIG);
        snprintf(text, sizeof text, "from %.15g to %.15g", r->low, r->high);
        assert_non_null(strstr(dt_fail_text(), text));
        snprintf(text, sizeof text, "%.15g", r->high);
        assert_int_equal(set(&o, r->name, text), DT_OK);
    }
    assert_int_equal(set(&o, "net", "x"), DT_CONFIG);
    assert_non_null(strstr(dt_fail_text(), "resnet50"));
    assert_non_null(strstr(dt_fail_text(), "vgg11"));
    dt_fail_clear();
}

/* What could not be read back from options.yaml and state.json is not taken. */
static void test_texts(void **state)
{
    static const char *const good[] = {"",
                                       "a b",
                                       "caf\xc3\xa9",
                                       "\xe2\x80\xa7\xe2\x80\xaa",
                                       "\xef\xbb\xbe\xef\xbf\xbd",
                                       "\xf0\x9f\x98\x80",
                                       "\xc2\xa0"};
    static const char *const bad[] = {
        "caf\xe9",       "a\tb",         "a\n",          "\x01",          "\x7f",
        "\xc2\x80",      "\xc2\x85",     "\xc2\x9f",     "x\xe2\x80\xa8", "\xe2\x80\xa9",
        "\xef\xbb\xbfx", "\xef\xbf\xbf", "\xed\xa0\x80", "\xc0\xaf",      "a\xc3"};
    dt_options o;

    (void)state;
    dt_options_init(&o);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(set(&o, "data", good[i]), DT_OK);
        assert_string_equal(o.data, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(set(&o, "out", bad[i]), DT_CONFIG);
        assert_non_null(strstr(dt_fail_text(), "want UTF-8"));
        assert_string_equal(o.out, "");
    }
    dt_fail_clear();
}

/* Any double comes back as itself, whatever text was chosen for it. */
static void test_reals_round_trip(void **state)
{
    dt_options o, copy;
    char text[64];

    (void)state;
    dt_options_init(&o);
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t r[4];
        dt_random(7, DT_STREAM_TEST, 0, i, 0, r);
        o.lr = (double)r[0] / 4294967296.0 * (i % 2 ? 1.0 : 1e-7) + (double)r[1] * 1e-15;
        dt_option_text(row_of("lr"), &o, text, sizeof text);
        assert_int_equal(set(&copy, "lr", text), DT_OK);
        assert_memory_equal(&copy.lr, &o.lr, sizeof o.lr);
        /* YAML 1.1, as PyYAML reads it: a number with an exponent has a point */
        assert_true(strchr(text, '.') || !strchr(text, 'e'));
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_ptr_equal(dt_option_find("global-batch"), row_of("global_batch"));
    assert_null(dt_option_find("global"));
    assert_null(dt_option_find("global_batch_"));
    assert_null(dt_option_find(""));
    assert_true(dt_words_have(" a bc", "a") && dt_words_have(" a bc", "bc"));
    assert_false(dt_words_have(" a bc", "b") || dt_words_have(" a bc", "a bc") ||
                 dt_words_have(" a bc", "") || dt_words_have("", "a"));
    assert_ptr_equal(dt_option_nearest("epoch"), row_of("epochs"));
    assert_ptr_equal(dt_option_nearest("weight-decy"), row_of("weight_decay"));
    assert_ptr_equal(dt_option_nearest("momentun"), row_of("momentum"));
}

static void test_check(void **state)
{
    static const struct {
        int world;
        int64_t batch, global, shards, accum;
        dt_status status;
        int64_t want_global, want_shards;
    } cases[] = {
        {1, 32, 0, 0, 0, DT_OK, 32, 1},
        {8, 32, 0, 0, 0, DT_OK, 256, 8},
        {2, 32, 0, 8, 0, DT_OK, 256, 8},
        {2, 32, 0, 0, 4, DT_OK, 256, 8},
        {2, 32, 0, 8, 4, DT_OK, 256, 8},
        {3, 32, 0, 8, 0, DT_OK, 256, 8},
        {2, 32, 100, 0, 0, DT_OK, 100, 2},
        {2, 0, 100, 0, 0, DT_OK, 100, 2},
        {8, 32, 0, 4, 0, DT_CONFIG, 0, 0},
        {2, 32, 0, 8, 2, DT_CONFIG, 0, 0},
        {2, 0, 0, 0, 0, DT_CONFIG, 0, 0},
        {3, 32, 0, 8, 3, DT_CONFIG, 0, 0},
        {1, 1000000, 0, 65536, 0, DT_CONFIG, 0, 0},
        {64, 1, 0, 0, 65536, DT_CONFIG, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_options o, again;
        dt_options_init(&o);
        o.batch = cases[i].batch;
        o.global_batch = cases[i].global;
        o.shards = cases[i].shards;
        o.accum = cases[i].accum;
        again = o;
        dt_fail_clear();
        assert_int_equal(dt_options_check(&o, cases[i].world), cases[i].status);
        if (cases[i].status != DT_OK) {
            assert_memory_equal(&o, &again, sizeof o);
            continue;
        }
        assert_int_equal(o.global_batch, cases[i].want_global);
        assert_int_equal(o.shards, cases[i].want_shards);
        again = o; /* resolved options mean the same on one rank: a run can be replayed */
        assert_int_equal(dt_options_check(&again, 1), DT_OK);
        assert_memory_equal(&o, &again, sizeof o);
    }
    dt_fail_clear();
}

static void test_too_many_ranks_names_both(void **state)
{
    dt_options o;

    (void)state;
    dt_options_init(&o);
    o.shards = 4;
    assert_int_equal(dt_options_check(&o, 9), DT_CONFIG);
    assert_non_null(strstr(dt_fail_text(), "9 ranks"));
    assert_non_null(strstr(dt_fail_text(), "4 shards"));
    assert_non_null(strstr(dt_fail_text(), "--shards 9"));
    dt_fail_clear();
}

/* Both listings hold every option once, and long values are not cut. */
static void test_listings(void **state)
{
    static void (*const lists[])(FILE *, const dt_options *) = {dt_options_yaml, dt_options_print};
    dt_options o;
    char path[3000];

    (void)state;
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    dt_options_init(&o);
    o.out = path;
    for (int l = 0; l < 2; l++) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        assert_non_null(f);
        lists[l](f, &o);
        fclose(f);
        for (size_t i = 0; i < dt_option_count; i++) {
            char key[64];
            snprintf(key, sizeof key, l == 0 ? "\n%s: " : " %s=", dt_option_table[i].name);
            const char *found = strstr(text, key);
            assert_non_null(found);
            assert_null(strstr(found + 1, key));
        }
        assert_non_null(strstr(text, path));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_complete),
        cmocka_unit_test(test_groups_are_contiguous),
        cmocka_unit_test(test_defaults_are_values),
        cmocka_unit_test(test_defaults_are_the_tutorial),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_ranges_are_named),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_reals_round_trip),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_too_many_ranks_names_both),
        cmocka_unit_test(test_listings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

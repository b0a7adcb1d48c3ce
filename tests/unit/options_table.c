/* options_table.c - the option table: every row by its own rules, values as text, what texts mean,
 * cross checks. */
#include "options/options.h"
#include "test.h"

static const dt_option_row *row_of(const char *name)
{
    const dt_option_row *row = dt_option_find(name);
    assert_non_null(row);
    return row;
}

static dt_status set(dt_options *o, const char *name, const char *text)
{
    dt_fail_clear();
    return dt_option_set(row_of(name), o, text, "here", DT_CONFIG);
}

/* Names are unique, defaults are values, a range is named with both ends, and a group is one block:
 * listings open its heading once. */
TEST(rows_keep_the_rules)
{
    dt_options defaults, o;
    char text[256], again[256];

    dt_options_init(&defaults);
    memset(&o, 0, sizeof o);
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        const dt_option_row *r = &dt_option_table[i];
        assert_ptr_equal(dt_option_find(r->name), r);
        assert_null(strchr(r->name, '-'));
        assert_true(strlen(r->help) > 5 && strlen(r->help) < 200 && r->group[0]);
        assert_int_equal(r->metavar == NULL, r->type == DT_OPTION_FLAG);
        assert_int_equal(r->choices[0] == ' ', r->type == DT_OPTION_CHOICE);
        assert_int_equal(r->commands[0] == ' ', r->scope == DT_SCOPE_COMMAND);
        for (size_t j = 0; j + 1 < i; j++)
            if (strcmp(r->group, dt_option_table[j].group) == 0)
                assert_string_equal(dt_option_table[j].group, dt_option_table[j + 1].group);

        dt_option_text(r, &defaults, text, sizeof text);
        assert_ok(dt_option_set(r, &o, text, "here", DT_BUG));
        assert_string_equal(dt_option_text(r, &o, again, sizeof again), text);
        if (r->low >= r->high)
            continue;
        snprintf(again, sizeof again, "from %.15g to %.15g", r->low, r->high);
        snprintf(text, sizeof text, "%.0f", r->low - 1);
        assert_fails(set(&o, r->name, text), DT_CONFIG, again);
        snprintf(text, sizeof text, "%.0f", r->high + 1);
        assert_fails(set(&o, r->name, text), DT_CONFIG, again);
        snprintf(text, sizeof text, "%.15g", r->high);
        assert_ok(set(&o, r->name, text));
    }
}

TEST(texts_become_values)
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
        {"data", "", ""}, {"data", "a b", "a b"}, {"data", "caf\xc3\xa9", "caf\xc3\xa9"},
        {"data", "\xe2\x80\xa7\xe2\x80\xaa", "\xe2\x80\xa7\xe2\x80\xaa"},
        {"data", "\xef\xbb\xbe\xef\xbf\xbd", "\xef\xbb\xbe\xef\xbf\xbd"},
        {"data", "\xf0\x9f\x98\x80\xc2\xa0", "\xf0\x9f\x98\x80\xc2\xa0"},
        /* what could not be read back from options.yaml and state.json */
        {"out", "caf\xe9", NULL}, {"out", "a\tb", NULL}, {"out", "a\n", NULL},
        {"out", "\x01", NULL}, {"out", "\x7f", NULL}, {"out", "\xc2\x80", NULL},
        {"out", "\xc2\x85", NULL}, {"out", "\xc2\x9f", NULL}, {"out", "x\xe2\x80\xa8", NULL},
        {"out", "\xe2\x80\xa9", NULL}, {"out", "\xef\xbb\xbfx", NULL},
        {"out", "\xef\xbf\xbf", NULL}, {"out", "\xed\xa0\x80", NULL}, {"out", "\xc0\xaf", NULL},
        {"out", "a\xc3", NULL},
        /* clang-format on */
    };

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
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
            assert_non_null(strstr(dt_fail_text(), cases[i].name));
            assert_fails(st, DT_CONFIG, "here: '");
            assert_memory_equal(&o, &before, sizeof o);
        }
    }
}

/* Any double comes back as itself, whatever text was chosen for it. */
TEST(reals_come_back)
{
    dt_options o, copy;
    char text[64];

    dt_options_init(&o);
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t r[4];
        dt_random(7, DT_STREAM_TEST, 0, i, 0, r);
        o.lr = (double)r[0] / 4294967296.0 * (i % 2 ? 1.0 : 1e-7) + (double)r[1] * 1e-15;
        dt_option_text(row_of("lr"), &o, text, sizeof text);
        assert_ok(set(&copy, "lr", text));
        assert_memory_equal(&copy.lr, &o.lr, sizeof o.lr);
        /* YAML 1.1, as PyYAML reads it: a number with an exponent has a point */
        assert_true(strchr(text, '.') || !strchr(text, 'e'));
    }
}

/* ---- Texts that have a form ------------------------------------------------------------ */

/* What a text means, as numbers: bn's group of 8 shards; steps and seconds; milestones; the number
 * of a word; the length of a file's name, and steps. */
static void meaning(const char *option, const char *text, double n[4])
{
    const dt_option_form f = dt_option_meaning(row_of(option)->syntax, text);
    const double said[][4] = {{(double)DT_MIN(f.bn, 8)},
                              {(double)f.save_every.steps, f.save_every.seconds},
                              {f.milestones.count, f.milestones.fraction[0],
                               f.milestones.fraction[1], f.milestones.fraction[2]},
                              {f.worded.number},
                              {f.trace.file, (double)f.trace.steps[0], (double)f.trace.steps[1]}};
    const size_t which = strcspn("bsmlt", (const char[]){*option == 'g' ? 'l' : *option, '\0'});
    memcpy(n, said[which], sizeof said[which]);
}

TEST(forms_have_meanings)
{
    static const struct {
        const char *option, *text;
        double n[4];
    } good[] = {
        /* clang-format off */
        {"bn", "local", {0}}, {"bn", "sync", {8}}, {"bn", "node", {-1}}, {"bn", "group:1", {1}},
        {"bn", "group:8", {8}}, {"bn", "group:09", {8}}, {"bn", "group:9223372036854775807", {8}},
        {"save_every", "0", {0}}, {"save_every", "50", {50}}, {"save_every", "30s", {0, 30}},
        {"save_every", "1.5m", {0, 90}}, {"save_every", "2h", {0, 7200}},
        {"milestones", "", {0}}, {"milestones", "0.5,0,1", {3, 0.5, 0, 1}},
        {"lr_scale", "none", {256}}, {"lr_scale", "linear", {256}}, {"lr_scale", "sqrt:32", {32}},
        {"grad_compress", "2bit", {0.001}}, {"grad_compress", "2bit:1e-4", {0.0001}},
        {"trace", "a@2.json", {8, 1, 20}}, {"trace", "a.json@3:3", {6, 3, 3}},
        /* clang-format on */
    };
    static const struct {
        const char *option, *want, *bad[16];
    } refused[] = {
        {"bn",
         "group:N with N >= 1",
         {"", "Local", "group", "group:", "group:0", "group:-1", "group:+2", "group: 2", "group:2 ",
          "group:1.5", "groups:2", "sync2", "2", "foo"}},
        {"stop_after", "30s", {"", "often", "-1s", "5", "0s", "10 m"}},
        {"save_every", "30s", {"", "often", "-1", "1.5", "0s", "10 m", "10d", "0x10", "1e13"}},
        {"lr_scale", "linear:N", {"", "Linear", "none:3", "linear:", "sqrt:0", "sqrt:x"}},
        {"grad_compress", "2bit:T", {"", "fp32", "bf16:1", "2bit:", "2bit:0", "2bit:1 "}},
        {"trace", "FILE.json@A:B", {"a.json@", "a.json@0:3", "a.json@4:3", "a.json@5"}},
        {"milestones",
         "from 0 to 1, at most 32",
         {"0.5,x", "0.5,", ",0.5", "0.5 0.7", "1.5", "-0.1", "nan",
          "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"}},
    };
    double n[4];
    dt_options o;

    dt_options_init(&o);
    for (size_t i = 0; i < DT_COUNT_OF(good); i++) {
        meaning(good[i].option, good[i].text, n);
        assert_memory_equal(n, good[i].n, sizeof n);
        assert_ok(set(&o, good[i].option, good[i].text));
    }
    for (size_t i = 0; i < DT_COUNT_OF(refused); i++)
        for (size_t k = 0; k < 16 && refused[i].bad[k]; k++) {
            const dt_status st = set(&o, refused[i].option, refused[i].bad[k]);
            assert_true(strncmp(dt_fail_text(), "here: '", 7) == 0);
            assert_fails(st, DT_CONFIG, refused[i].want);
        }
}

TEST(names_are_found)
{
    assert_ptr_equal(dt_option_find("global-batch"), row_of("global_batch"));
    assert_null(dt_option_find("global"));
    assert_null(dt_option_find("global_batch_"));
    assert_null(dt_option_find(""));
    assert_true(dt_words_have(" a bc", "a") && dt_words_have(" a bc", "bc"));
    assert_false(dt_words_have(" a bc", "b") || dt_words_have(" a bc", "a bc") ||
                 dt_words_have(" a bc", "") || dt_words_have("", "a"));
    assert_string_equal(dt_option_meant("epoch", true), "epochs");
    assert_string_equal(dt_option_meant("weight-decy", true), "weight_decay");
    assert_string_equal(dt_option_meant("momentun", true), "momentum");
    assert_null(dt_option_meant("nothing", true));
}

/* ---- Together ---------------------------------------------------------------------------- */

TEST(batches_and_shards_fit)
{
    static const struct {
        int world;
        int64_t batch, global, shards, accum, want_global, want_shards;
        const char *refused;
    } cases[] = {
        {1, 32, 0, 0, 0, 32, 1, NULL},
        {8, 32, 0, 0, 0, 256, 8, NULL},
        {2, 32, 0, 8, 0, 256, 8, NULL},
        {2, 32, 0, 0, 4, 256, 8, NULL},
        {2, 32, 0, 8, 4, 256, 8, NULL},
        {3, 32, 0, 8, 0, 256, 8, NULL},
        {2, 32, 100, 0, 0, 100, 2, NULL},
        {2, 0, 100, 0, 0, 100, 2, NULL},
        {8, 32, 0, 4, 0, 0, 0, "8 ranks for 4 shards"},
        {9, 32, 0, 4, 0, 0, 0, "--shards 9"},
        {2, 32, 0, 8, 2, 0, 0, "contradict each other"},
        {3, 32, 0, 8, 3, 0, 0, "contradict each other"},
        {2, 0, 0, 0, 0, 0, 0, "are both auto"},
        {1, 1000000, 0, 65536, 0, 0, 0, "global_batch would be"},
        {64, 1, 0, 0, 65536, 0, 0, "shards would be"},
    };

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        dt_options o, again;
        dt_options_init(&o);
        o.batch = cases[i].batch;
        o.global_batch = cases[i].global;
        o.shards = cases[i].shards;
        o.accum = cases[i].accum;
        again = o;
        const dt_status st = dt_options_check(&o, cases[i].world);
        if (cases[i].refused) {
            assert_fails(st, DT_CONFIG, cases[i].refused);
            assert_memory_equal(&o, &again, sizeof o);
            continue;
        }
        assert_int_equal(st, DT_OK);
        assert_int_equal(o.global_batch, cases[i].want_global);
        assert_int_equal(o.shards, cases[i].want_shards);
        again = o; /* resolved options mean the same on one rank: a run can be replayed */
        assert_ok(dt_options_check(&again, 1));
        assert_memory_equal(&o, &again, sizeof o);
    }
}

/* Without extra/split no strategy is taken. */
TEST(a_build_may_not_cut)
{
    static const char *const strategies[] = {"",   "data_parallel", "all=batch fc=out",
                                             "fc", "@a.yaml",       "auto all=batch"};

    for (size_t i = 0; i < DT_COUNT_OF(strategies); i++) {
        dt_options o;
        dt_options_init(&o);
        o.strategy = strategies[i];
        o.tensor_parallel = i == 0 ? 2 : 0;
        assert_fails(dt_options_check(&o, 4), DT_CONFIG, "(DTRAIN_EXTRAS)");
    }
}

/* Every option once, and long values are not cut. */
TEST(listings_hold_all)
{
    dt_options o;
    char path[3000], *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    dt_options_init(&o);
    o.out = path;
    dt_options_yaml(f, &o);
    fclose(f);
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        char key[64];
        snprintf(key, sizeof key, "\n%s: ", dt_option_table[i].name);
        const char *found = strstr(text, key);
        assert_non_null(found);
        assert_null(strstr(found + 1, key));
    }
    assert_non_null(strstr(text, path));
    free(text);
}

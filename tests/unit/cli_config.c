/* cli_config.c - configuration files: what is read, and that every mistake is named with its
 * place. */
#include "cli/cli.h"
#include "test.h"
#include <unistd.h>

static char path[] = "/tmp/dtrain_config_XXXXXX";

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    alarm(60); /* a quadratic time must not hang the test */
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    alarm(0);
    return unlink(path);
}

static dt_status read_text(dt_settings *s, const char *text, size_t size, dt_layer *layer)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    dt_fail_clear();
    return dt_config_read(&s->kept, path, layer);
}

static const dt_layer_value *value_of(const dt_layer *layer, const char *name)
{
    const dt_option_row *row = dt_option_find(name);
    assert_non_null(row);
    return &layer->value[row - dt_option_table];
}

static void test_values_and_places(void **state)
{
    static const char text[] = "# comment\n"
                               "epochs: 3   # another\n"
                               "\n"
                               "data: \"a \\\"b\\\": #c\\n\"\n"
                               "global-batch: 256\n"
                               "lr:   1e-3\n"
                               "init: \"\"\n"
                               "out: \"null\"\n"
                               "resume: !!str ~\n";
    dt_settings s = {0};
    dt_layer layer = {.code = DT_CONFIG};
    char place[64];

    (void)state;
    assert_int_equal(read_text(&s, text, strlen(text), &layer), DT_OK);
    assert_string_equal(value_of(&layer, "epochs")->text, "3");
    assert_string_equal(value_of(&layer, "data")->text, "a \"b\": #c\n");
    assert_string_equal(value_of(&layer, "global_batch")->text, "256");
    assert_string_equal(value_of(&layer, "init")->text, "");
    assert_string_equal(value_of(&layer, "out")->text, "null");
    assert_string_equal(value_of(&layer, "resume")->text, "~");
    assert_null(value_of(&layer, "batch")->text);
    snprintf(place, sizeof place, "%s:6:7", path);
    assert_string_equal(value_of(&layer, "lr")->place, place);
    dt_settings_release(&s);
}

/* Nothing but comments is a file that says nothing. */
static void test_empty(void **state)
{
    static const char *const texts[] = {"", "# only this\n", "\n\n", "---\n", "{}\n"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dt_settings s = {0};
        dt_layer layer = {.code = DT_CONFIG};
        const dt_status st = read_text(&s, texts[i], strlen(texts[i]), &layer);
        if (strcmp(texts[i], "---\n") == 0) /* an explicit null is a scalar */
            assert_int_equal(st, DT_CONFIG);
        else
            assert_int_equal(st, DT_OK);
        for (size_t v = 0; v < DT_SETTINGS; v++)
            assert_null(layer.value[v].text);
        dt_settings_release(&s);
    }
    dt_fail_clear();
}

static void test_mistakes(void **state)
{
    static const struct {
        const char *text, *place; /* after the file's name */
        const char *says;
    } cases[] = {
        {"epochs: 3\nlearning_rate: 1\n", ":2:1: ", "learning_rate"},
        {"epoch: 3\n", ":1:1: ", "did you mean epochs?"},
        {"epochs: 3\nlr: 1\nepochs: 4\n", ":3:1: ", "first at"},
        {"global_batch: 8\nglobal-batch: 8\n", ":2:1: ", "twice"},
        {"lr: [1, 2]\n", ":1:5: ", "list"},
        {"lr:\n  - 1\n", ":2:3: ", "list"},
        {"training:\n  lr: 1\n", ":1:1: ", "training"},
        {"lr:\n  value: 1\n", ":2:3: ", "mapping"},
        {"[lr, 1]\n", ":1:1: ", "list"},
        {"lr\n", ":1:1: ", "'lr'"},
        {"? [a]\n: 1\n", ":1:3: ", "list"},
        {"? {a: b}\n: 1\n", ":1:3: ", "mapping"},
        {"lr: 1\n---\nlr: 2\n", ":2:1: ", "second document"},
        {"lr: 1\n\tepochs: 2\n", ":2:1: ", "not YAML"},
        {"lr: \"open\n", ":2:1: ", "not YAML"},
        {"lr: {\n", ":1:5: ", "not a mapping"},
        {"lr: *nobody\n", ":1:5: ", "not an alias"},
        {"lr: &a 1\nweight_decay: *a\n", ":2:15: ", "not an alias"},
        {"*a : 1\n", ":1:1: ", "not an alias"},
        {"data: null\n", ":1:7: ", "'data' has no value"},
        {"data: ~\n", ":1:7: ", "quote '~'"},
        {"lr: 1\ndata:\nnet: vgg11\n", ":2:6: ", "leave the line out"},
        {"<<: {lr: 1}\n", ":1:1: ", "<<"},
        {"lr: \"1\\0\"\n", ":1:5: ", "zero byte"},
        {"\"l\\0r\": 1\n", ":1:1: ", "zero byte"},
        {"lr: 1\n  epochs: 2\n", ":2:9: ", "not YAML"},
        {"lr: \xff\xfe\n", ": byte 4: ", "not YAML"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_settings s = {0};
        dt_layer layer = {.code = DT_CONFIG};
        char place[128];
        const size_t size = strlen(cases[i].text);
        assert_int_equal(read_text(&s, cases[i].text, size, &layer), DT_CONFIG);
        snprintf(place, sizeof place, "%s%s", path, cases[i].place);
        if (strncmp(dt_fail_text(), place, strlen(place)) != 0)
            print_error("case %zu: %s\n", i, dt_fail_text());
        assert_int_equal(strncmp(dt_fail_text(), place, strlen(place)), 0);
        assert_non_null(strstr(dt_fail_text(), cases[i].says));
        dt_settings_release(&s);
    }
    dt_fail_clear();
}

/* However deep or long, it is refused where it stops being lines of key: value; libyaml's
 * documents take minutes for some of these. */
static void test_deep_and_long(void **state)
{
    enum { DEPTH = 200000, LARGEST = 256 << 10 };
    static const char *const opening[] = {"[", "{", "- ", "? ", "{a: ", "lr: {"};
    static char text[8 * DEPTH];

    (void)state;
    for (size_t i = 0; i < sizeof opening / sizeof *opening; i++) {
        dt_settings s = {0};
        dt_layer layer = {.code = DT_CONFIG};
        const size_t n = strlen(opening[i]), size = n * DEPTH < LARGEST ? n * DEPTH : LARGEST;
        for (size_t at = 0; at < size; at++)
            text[at] = opening[i][at % n];
        assert_int_equal(read_text(&s, text, size, &layer), DT_CONFIG);
        assert_non_null(strstr(dt_fail_text(), ":1:"));
        dt_settings_release(&s);
    }
    memset(text, '#', sizeof text);
    for (size_t i = 0; i < 2; i++) {
        dt_settings s = {0};
        dt_layer layer = {.code = DT_CONFIG};
        assert_int_equal(read_text(&s, text, LARGEST + i, &layer), i ? DT_CONFIG : DT_OK);
        dt_settings_release(&s);
    }
    assert_non_null(strstr(dt_fail_text(), "262144 bytes"));
    dt_fail_clear();
}

static void test_no_file(void **state)
{
    static const char *const paths[] = {"/dev/null/none/a.yaml", "/tmp", "/dev/zero"};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        dt_settings s = {0};
        dt_layer layer = {.code = DT_CONFIG};
        dt_fail_clear();
        assert_int_equal(dt_config_read(&s.kept, paths[i], &layer), DT_NOINPUT);
        assert_non_null(strstr(dt_fail_text(), paths[i]));
        dt_settings_release(&s);
    }
    dt_fail_clear();
}

/* Cut and changed files are read or refused, never worse (the sanitizers look on). */
static void test_mutations(void **state)
{
    static const char text[] = "data: \"synthetic:64\"\nlr: 0.1 # rate\nnet: &a vgg11\n"
                               "nesterov: true\nout: |\n  folder\nbatch: [8]\n";
    const size_t size = strlen(text);
    size_t refused = 0;

    (void)state;
    for (uint32_t i = 0; i < 2000; i++) {
        char changed[sizeof text];
        uint32_t r[4];
        dt_settings s = {0};
        dt_layer layer = {.code = DT_CONFIG};
        memcpy(changed, text, sizeof text);
        dt_random(3, DT_STREAM_TEST, 0, i, 0, r);
        changed[dt_below(r[0], (uint32_t)size)] = (char)(r[1] & 0xff);
        const size_t cut = i % 2 ? size : dt_below(r[2], (uint32_t)size);
        const dt_status st = read_text(&s, changed, cut, &layer);
        assert_true(st == DT_OK || st == DT_CONFIG);
        assert_int_equal(st != DT_OK, dt_fail_text()[0] != '\0');
        refused += st != DT_OK;
        dt_settings_release(&s);
    }
    assert_true(refused > 500);
    dt_fail_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_and_places), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_mistakes),          cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_deep_and_long),     cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}

/* options_config.c - configuration files: what is read, and that every mistake is named with its
 * place. */
#include "cli/cli.h"
#include "test.h"

static dt_layer layer; /* of the last text that was read */

static dt_status parse(const char *text, size_t length)
{
    dt_layer_release(&layer);
    dt_fail_clear();
    return dt_config_parse(&layer, "a.yaml", text, length);
}

static const dt_layer_value *value_of(const char *name)
{
    return &layer.value[dt_option_find(name) - dt_option_table];
}

TEST(values_and_places)
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

    assert_ok(parse(text, strlen(text)));
    assert_string_equal(value_of("epochs")->text, "3");
    assert_string_equal(value_of("data")->text, "a \"b\": #c\n");
    assert_string_equal(value_of("global_batch")->text, "256");
    assert_string_equal(value_of("init")->text, "");
    assert_string_equal(value_of("out")->text, "null");
    assert_string_equal(value_of("resume")->text, "~");
    assert_null(value_of("batch")->text);
    assert_true(value_of("lr")->line == 6 && value_of("lr")->column == 7);
}

/* Nothing but comments is a file that says nothing. */
TEST(empty_files)
{
    static const char *const texts[] = {"", "# only this\n", "\n\n", "{}\n"};

    for (size_t i = 0; i < DT_COUNT_OF(texts); i++) {
        assert_ok(parse(texts[i], strlen(texts[i])));
        for (size_t v = 0; v < DT_OPTIONS; v++)
            assert_null(layer.value[v].text);
    }
}

TEST(mistakes)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"epochs: 3\nlearning_rate: 1\n", "a.yaml:2:1: unknown option 'learning_rate'"},
        {"epoch: 3\n", "a.yaml:1:1: unknown option 'epoch'; did you mean epochs?"},
        {"epochs: 3\nlr: 1\nepochs: 4\n",
         "a.yaml:3:1: 'epochs' is given twice, first at a.yaml:1:9"},
        {"global_batch: 8\nglobal-batch: 8\n", "a.yaml:2:1: 'global-batch' is given twice"},
        {"lr: [1, 2]\n", "a.yaml:1:5: 'lr' takes one value"},
        {"lr:\n  - 1\n", "a.yaml:2:3: 'lr' takes one value"},
        {"lr:\n  value: 1\n", "a.yaml:2:3: 'lr' takes one value"},
        {"lr: {\n", "a.yaml:1:5: 'lr' takes one value"},
        {"lr: *none\n", "a.yaml:1:5: 'lr' takes one value"},
        {"lr: &a 1\nweight_decay: *a\n", "a.yaml:2:15: 'weight_decay' takes one value"},
        {"lr: \"1\\0\"\n", "a.yaml:1:5: 'lr' takes one value without zero bytes"},
        {"training:\n  lr: 1\n", "a.yaml:1:1: unknown option 'training'"},
        {"<<: {lr: 1}\n", "a.yaml:1:1: unknown option '<<'"},
        {"[lr, 1]\n", "a.yaml:1:1: expected one document"},
        {"- lr\n", "a.yaml:1:1: expected one document"},
        {"lr\n", "a.yaml:1:1: expected one document"},
        {"---\n", "a.yaml:2:1: expected one document"},
        {"lr: 1\n---\nlr: 2\n", "a.yaml:3:1: expected one document"},
        {"? [a]\n: 1\n", "a.yaml:1:3: expected the name of an option"},
        {"? {a: b}\n: 1\n", "a.yaml:1:3: expected the name of an option"},
        {"*a : 1\n", "a.yaml:1:1: expected the name of an option"},
        {"\"l\\0r\": 1\n", "a.yaml:1:1: expected the name of an option"},
        {"data: null\n", "a.yaml:1:7: 'data' has no value"},
        {"data: ~\n", "a.yaml:1:7: 'data' has no value: leave the line out"},
        {"lr: 1\ndata:\nnet: vgg11\n", "a.yaml:2:6: 'data' has no value"},
        {"lr: 1\n\tepochs: 2\n", "a.yaml:2:1: not YAML"},
        {"lr: \"open\n", "a.yaml:2:1: not YAML"},
        {"lr: 1\n  epochs: 2\n", "a.yaml:2:9: not YAML"},
        {"lr: \xff\xfe\n", "a.yaml: byte 4: not YAML"},
    };

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++)
        assert_fails(parse(cases[i].text, strlen(cases[i].text)), DT_CONFIG, cases[i].says);
}

/* However deep, it is refused where it stops being lines of key: value; libyaml's documents take
 * minutes for some of these. */
TEST(deep_texts)
{
    static const char *const opening[] = {"[", "{", "- ", "? ", "{a: ", "lr: {"};
    static char text[DT_CONFIG_BYTES];

    alarm(60);
    for (size_t i = 0; i < DT_COUNT_OF(opening); i++) {
        for (size_t at = 0; at < sizeof text; at++)
            text[at] = opening[i][at % strlen(opening[i])];
        assert_fails(parse(text, sizeof text), DT_CONFIG, "a.yaml:1:");
    }
    alarm(0);
}

TEST(files)
{
    char path[] = "/tmp/dtrain_config_XXXXXX";
    const int fd = mkstemp(path);

    assert_int_equal(write(fd, "lr: 2\n#", 7), 7);
    assert_int_equal(close(fd), 0);
    dt_layer_release(&layer);
    assert_ok(dt_config_read(&layer, path));
    assert_string_equal(value_of("lr")->text, "2");
    assert_string_equal(layer.file, path);
    dt_layer_release(&layer);
    assert_int_equal(truncate(path, DT_CONFIG_BYTES + 1), 0);
    assert_fails(dt_config_read(&layer, path), DT_FORMAT, path);
    assert_int_equal(unlink(path), 0);
    assert_fails(dt_config_read(&layer, path), DT_NOINPUT, path);
    assert_fails(dt_config_read(&layer, "/tmp"), DT_NOINPUT, "/tmp");
    assert_fails(dt_config_read(&layer, "/dev/zero"), DT_NOINPUT, "/dev/zero");
    dt_layer_release(&layer);
}

/* cli_settings.c - settings from all places: who wins, what is refused, and that listings read
 * back. */
#include "cli/cli.h"
#include "test.h"
#include <unistd.h>

enum { MAX_WORDS = 16 };

/* Words and variables are one text each, cut at '|'; "" is none. */
typedef struct front {
    char text[2][512], *argv[MAX_WORDS], *environment[MAX_WORDS];
    int argc;
    dt_settings s;
} front;

static int cut(char *text, char **words)
{
    int n = 0;
    for (char *save = NULL, *w = strtok_r(text, "|", &save); w; w = strtok_r(NULL, "|", &save)) {
        assert_true(n < MAX_WORDS - 1);
        words[n++] = w;
    }
    words[n] = NULL;
    return n;
}

static dt_status start(front *f, const char *arguments, const char *environment)
{
    snprintf(f->text[0], sizeof f->text[0], "dtrain|%.500s", arguments);
    snprintf(f->text[1], sizeof f->text[1], "%s", environment);
    f->argc = cut(f->text[0], f->argv);
    cut(f->text[1], f->environment);
    dt_fail_clear();
    return dt_settings_init(&f->s, f->argc, f->argv, f->environment);
}

static const char *text_of(const dt_options *o, const char *name)
{
    static char text[DT_OPTION_CHARS];
    const dt_option_row *row = dt_option_find(name);
    assert_non_null(row);
    return dt_option_text(row, o, text, sizeof text);
}

static void write_file(char *path, const char *text)
{
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_commands(void **state)
{
    static const struct {
        const char *words;
        const dt_command *command;
    } cases[] = {
        {"", &dt_command_train},
        {"--lr|1", &dt_command_train},
        {"train|--lr|1", &dt_command_train},
        {"eval|--model|m", &dt_command_eval},
        {"summary", &dt_command_summary},
        {"plan", &dt_command_plan},
        {"env|--json", &dt_command_env},
        {"bench", &dt_command_bench},
        {"version", &dt_command_version},
        {"--version", &dt_command_version},
        {"help", &dt_command_help},
        {"--help", &dt_command_help},
        {"bench|--help", &dt_command_help},
        {"--print-config", &dt_command_config},
        {"train|--print-config", &dt_command_config},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        front f;
        assert_int_equal(start(&f, cases[i].words, ""), DT_OK);
        assert_ptr_equal(f.s.command, cases[i].command);
        dt_settings_release(&f.s);
    }
}

static void test_command_line(void **state)
{
    static const struct {
        const char *words, *name, *want;
    } cases[] = {
        {"--max-steps|-1", "max_steps", "-1"},
        {"--max-steps=-1", "max_steps", "-1"},
        {"--lr=0.5", "lr", "0.5"},
        {"--lr|0.5|--lr|0.25", "lr", "0.25"},
        {"--nesterov", "nesterov", "true"},
        {"--nesterov|--no-nesterov", "nesterov", "false"},
        {"--no-drop-remainder", "drop_remainder", "false"},
        {"--global-batch|64", "global_batch", "64"},
        {"--out|--odd", "out", "--odd"},
        {"--out=", NULL, "--out: nothing is given"},
        {"--resume=", NULL, "--resume: nothing is given"},
        {"-lr|0.5", NULL, "unknown option '-lr'"},
        {"--epoch|3", NULL, "did you mean --epochs?"},
        {"--epoch=3", NULL, "unknown option '--epoch'"},
        {"--learning-rate|1", NULL, "--learning-rate"},
        {"--momentun|1", NULL, "did you mean --momentum?"},
        {"--max_steps|3", NULL, "did you mean --max-steps?"},
        {"--no-nesterof", NULL, "did you mean --no-nesterov?"},
        {"--no-lr", NULL, "'--no-lr'"},
        {"--bat|3", NULL, "unknown option '--bat'"},
        {"--lr", NULL, "--lr needs a value"},
        {"--seed|3|--lr", NULL, "--lr needs a value"},
        {"--nesterov=true", NULL, "takes no value"},
        {"--help=x", NULL, "takes no value"},
        {"--no-nesterov=1", NULL, "takes no value"},
        {"--lr|0.1|extra", NULL, "'extra'"},
        {"train|bench", NULL, "'bench'"},
        {"--lr|0.1|train", NULL, "'train'"},
        {"trian", NULL, "did you mean train?"},
        {"-x", NULL, "unknown option '-x'"},
        {"-xyz", NULL, "unknown option '-xyz'"},
        {"-x|-1", NULL, "unknown option '-x'"},
        {"--lr|fast", NULL, "--lr: 'fast'"},
        {"--batch|0", NULL, "--batch: '0'"},
        {"--net|resnet", NULL, "--net: 'resnet'"},
        {"--|--lr", NULL, "'--lr'"},
        {"--batch|4|--global-batch|8", NULL, "give one of them"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        front f;
        const dt_status st = start(&f, cases[i].words, "");
        if (cases[i].name) {
            assert_int_equal(st, DT_OK);
            assert_string_equal(text_of(&f.s.options, cases[i].name), cases[i].want);
        } else {
            if (st != DT_USAGE || !strstr(dt_fail_text(), cases[i].want))
                print_error("%s -> %d %s\n", cases[i].words, st, dt_fail_text());
            assert_int_equal(st, DT_USAGE);
            assert_non_null(strstr(dt_fail_text(), cases[i].want));
        }
        dt_settings_release(&f.s);
    }
    dt_fail_clear();
}

static void test_who_wins(void **state)
{
    char path[] = "/tmp/dtrain_settings_XXXXXX", named[256], both[512];
    front f;

    (void)state;
    write_file(path, "lr: 0.2\nmomentum: 0.2\nepochs: 2\nglobal_batch: 64\n");
    snprintf(named, sizeof named, "DTRAIN_CONFIG=%s", path);
    snprintf(both, sizeof both, "%s|DTRAIN_LR=0.3|DTRAIN_MOMENTUM=0.3|HOME=/|LR=9", named);

    assert_int_equal(start(&f, "--lr|0.4", both), DT_OK);
    assert_string_equal(text_of(&f.s.options, "lr"), "0.4");
    assert_string_equal(text_of(&f.s.options, "momentum"), "0.3");
    assert_string_equal(text_of(&f.s.options, "epochs"), "2");
    assert_string_equal(text_of(&f.s.options, "seed"), "1");
    assert_string_equal(text_of(&f.s.options, "global_batch"), "64");
    assert_string_equal(text_of(&f.s.options, "batch"), "auto");
    dt_settings_release(&f.s);

    /* a batch per shard on the command line replaces the file's global batch */
    assert_int_equal(start(&f, "--batch|8", named), DT_OK);
    assert_string_equal(text_of(&f.s.options, "global_batch"), "auto");
    assert_string_equal(text_of(&f.s.options, "batch"), "8");
    dt_settings_release(&f.s);

    /* --config wins over DTRAIN_CONFIG */
    snprintf(both, sizeof both, "--config|%s", path);
    assert_int_equal(start(&f, both, "DTRAIN_CONFIG=/dev/null/none"), DT_OK);
    assert_string_equal(text_of(&f.s.options, "epochs"), "2");
    dt_settings_release(&f.s);
    unlink(path);

    /* help and version need no configuration */
    assert_int_equal(start(&f, "--help", "DTRAIN_CONFIG=/dev/null/none"), DT_OK);
    dt_settings_release(&f.s);
    assert_int_equal(start(&f, "--lr|1", "DTRAIN_CONFIG=/dev/null/none"), DT_NOINPUT);
    dt_settings_release(&f.s);
    dt_fail_clear();
    assert_int_equal(start(&f, "--config=", "DTRAIN_CONFIG=/dev/null/none"), DT_USAGE);
    dt_settings_release(&f.s);
    dt_fail_clear();
    assert_int_equal(start(&f, "", "DTRAIN_CONFIG="), DT_CONFIG);
    dt_settings_release(&f.s);
    dt_fail_clear();
}

static void test_bad_values_have_places(void **state)
{
    char path[] = "/tmp/dtrain_settings_XXXXXX", argument[256], place[256];
    front f;

    (void)state;
    write_file(path, "epochs: 2\nbatch:  0\n");
    snprintf(argument, sizeof argument, "--config=%s", path);
    snprintf(place, sizeof place, "%s:2:9: '0'", path);
    assert_int_equal(start(&f, argument, ""), DT_CONFIG);
    assert_non_null(strstr(dt_fail_text(), place));
    dt_settings_release(&f.s);
    unlink(path);

    assert_int_equal(start(&f, "--init=", ""), DT_USAGE);
    assert_non_null(strstr(dt_fail_text(), "--init: nothing is given"));
    dt_settings_release(&f.s);
    dt_fail_clear();

    assert_int_equal(start(&f, "", "DTRAIN_LR=fast"), DT_CONFIG);
    assert_non_null(strstr(dt_fail_text(), "DTRAIN_LR: 'fast'"));
    dt_settings_release(&f.s);
    dt_fail_clear();
}

/* What `call` writes to stderr. */
static void caught(const char *environment, char *text, size_t size)
{
    front f;
    FILE *catcher = tmpfile();
    assert_non_null(catcher);
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(catcher), STDERR_FILENO);
    const dt_status st = start(&f, "", environment);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(st, DT_OK);
    dt_settings_release(&f.s);
    rewind(catcher);
    text[fread(text, 1, size - 1, catcher)] = '\0';
    fclose(catcher);
}

static void test_doubtful_variables(void **state)
{
    char text[512];

    (void)state;
    caught("DTRAIN_MOMENTUN=0.5", text, sizeof text);
    assert_non_null(strstr(text, "DTRAIN_MOMENTUN"));
    assert_non_null(strstr(text, "DTRAIN_MOMENTUM?"));
    caught("DTRAIN_LRR=3", text, sizeof text);
    assert_non_null(strstr(text,
                           "DTRAIN_LRR in the environment is no option and is ignored; did you "
                           "mean DTRAIN_LR?"));
    caught("DTRAIN_EPOCH=5|DTRAIN_GLOBALBATCH=8", text, sizeof text);
    assert_non_null(strstr(text, "DTRAIN_EPOCHS?"));
    assert_non_null(strstr(text, "DTRAIN_GLOBAL_BATCH?"));
    caught("DTRAIN_QWERTYUIOP=1", text, sizeof text);
    assert_non_null(strstr(text, "is ignored\n"));
    caught("DTRAIN_BIN=/x|DTRAIN_SOURCE=/y|DTRAIN_BUILD_DIR=/z|DTRAIN_MOMENTUM=0.5", text,
           sizeof text);
    assert_string_equal(text, "");
}

static void assert_same(const dt_options *a, const dt_options *b)
{
    char text[DT_OPTION_CHARS], other[DT_OPTION_CHARS];
    for (size_t i = 0; i < DT_SETTINGS; i++)
        assert_string_equal(dt_option_text(&dt_option_table[i], a, text, sizeof text),
                            dt_option_text(&dt_option_table[i], b, other, sizeof other));
}

/* A printed configuration reads back as the same options, odd texts included. */
static void test_round_trip(void **state)
{
    static const char *const lines[] = {
        "", "--lr|0.1|--global-batch|256|--no-drop-remainder|--net|vgg11|--max-steps|-1",
        "--batch|auto|--global-batch|96|--shards|8",
        "--out|a \"b\" \\c: #d '\xc3\xa9\xe2\x80\xa7\xef\xbb\xbe\xf0\x9f\x98\x80 |--threads|3"};

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char path[] = "/tmp/dtrain_settings_XXXXXX", argument[256], *yaml = NULL;
        size_t size = 0;
        front a, b;
        assert_int_equal(start(&a, lines[i], ""), DT_OK);
        FILE *f = open_memstream(&yaml, &size);
        assert_non_null(f);
        dt_options_yaml(f, &a.s.options);
        fclose(f);
        write_file(path, yaml);
        snprintf(argument, sizeof argument, "--config|%s", path);
        assert_int_equal(start(&b, argument, ""), DT_OK);
        assert_same(&a.s.options, &b.s.options);
        unlink(path);
        free(yaml);
        dt_settings_release(&a.s);
        dt_settings_release(&b.s);
    }
}

/* --help names every option, every command and every default. */
static void test_help(void **state)
{
    char *help = NULL, word[128];
    size_t size = 0;
    dt_options o;

    (void)state;
    FILE *f = open_memstream(&help, &size);
    assert_non_null(f);
    dt_arguments_help(f);
    fclose(f);
    dt_options_init(&o);
    for (size_t i = 0; i < DT_SETTINGS; i++) {
        const dt_option_row *r = &dt_option_table[i];
        snprintf(word, sizeof word, "--%s", r->name);
        for (char *c = word; *c; c++)
            *c = *c == '_' ? '-' : *c;
        assert_non_null(strstr(help, word));
        assert_non_null(strstr(help, r->group));
    }
    assert_non_null(strstr(help, "--no-drop-remainder"));
    assert_non_null(strstr(help, "(default: 0.01)"));
#define X(name, text)                                                                              \
    assert_non_null(strstr(help, "\n  " #name " "));                                               \
    assert_ptr_equal(dt_command_find(#name), &dt_command_##name);
    DT_COMMAND_LIST(X)
#undef X
    free(help);
}

static const char *source_folder(void)
{
    const char *folder = getenv("DTRAIN_SOURCE");
    return folder ? folder : ".";
}

static void test_configs_are_read(void **state)
{
    static const char *const names[] = {"tutorial", "tutorial-log",   "tutorial-32", "cs744",
                                        "vgg11",    "resnet50-cifar", "smoke"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char argument[512];
        front f;
        snprintf(argument, sizeof argument, "--config|%s/configs/%s.yaml", source_folder(),
                 names[i]);
        const dt_status st = start(&f, argument, "");
        if (st != DT_OK)
            print_error("%s\n", dt_fail_text());
        assert_int_equal(st, DT_OK);
        dt_settings_release(&f.s);
    }
}

/* tutorial.yaml is the table: every option spelled out, every value its default. */
static void test_tutorial_is_the_default(void **state)
{
    char path[512];
    dt_settings s = {0};
    dt_layer layer = {.code = DT_CONFIG};
    dt_options o;

    (void)state;
    dt_options_init(&o);
    snprintf(path, sizeof path, "%s/configs/tutorial.yaml", source_folder());
    assert_int_equal(dt_config_read(&s.kept, path, &layer), DT_OK);
    for (size_t i = 0; i < DT_SETTINGS; i++) {
        if (!layer.value[i].text)
            print_error("%s is missing\n", dt_option_table[i].name);
        assert_non_null(layer.value[i].text);
        assert_string_equal(layer.value[i].text, text_of(&o, dt_option_table[i].name));
    }
    dt_settings_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_command_line),
        cmocka_unit_test(test_who_wins),
        cmocka_unit_test(test_bad_values_have_places),
        cmocka_unit_test(test_doubtful_variables),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_configs_are_read),
        cmocka_unit_test(test_tutorial_is_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

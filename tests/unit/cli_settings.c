/* cli_settings.c - settings from all places: who wins, what is refused, and that listings read
 * back. */
#include "cli/cli.h"
#include "test.h"

#include "capture.h"
#include "convert/convert.h"
#include "tools/tools.h"

enum { MAX_WORDS = 16 };

static dt_settings s; /* of the last start */

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

/* Words and variables are one text each, cut at '|'; "" is none. */
static dt_status start(const char *arguments, const char *environment)
{
    static char text[2][512], *argv[MAX_WORDS], *variables[MAX_WORDS];

    dt_option_elsewhere = dt_name_elsewhere;
    snprintf(text[0], sizeof text[0], "dtrain|%.500s", arguments);
    snprintf(text[1], sizeof text[1], "%s", environment);
    const int argc = cut(text[0], argv);
    cut(text[1], variables);
    dt_fail_clear();
    dt_settings_release(&s);
    return dt_settings_init(&s, argc, argv, variables);
}

static const char *text_of(const dt_options *o, const char *name)
{
    static char text[DT_OPTION_CHARS];
    return dt_option_text(dt_option_find(name), o, text, sizeof text);
}

static void write_file(char *path, const char *text)
{
    FILE *f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

TEST(words_make_commands)
{
    static const struct {
        const char *words;
        int command;
    } cases[] = {
        {"", DT_RUN_TRAIN},                {"--lr|1", DT_RUN_TRAIN},
        {"train|--lr|1", DT_RUN_TRAIN},    {"help|m", DT_RUN_HELP},
        {"config", DT_RUN_CONFIG},         {"version", DT_RUN_VERSION},
        {"--version", DT_RUN_VERSION},     {"--help", DT_RUN_HELP},
        {"--help=all", DT_RUN_HELP},       {"config|--help", DT_RUN_HELP},
        {"--print-config", DT_RUN_CONFIG}, {"train|--print-config", DT_RUN_CONFIG},
    };

    dt_extra_tools();
    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        assert_ok(start(cases[i].words, ""));
        assert_ptr_equal(s.command, &dt_core_command[cases[i].command]);
        assert_int_equal(s.help_all, strcmp(cases[i].words, "--help=all") == 0);
    }
}

/* Each command is found by its name, whatever stands between its words; an extra's, too. */
TEST(commands_have_names)
{
    static const dt_command more[] = {{.name = "one-more"}};
    const dt_command *c;
    size_t count = 0;

    dt_commands_add(more, DT_COUNT_OF(more));
    for (; (c = dt_command_at(count)); count++)
        assert_ptr_equal(dt_command_find(c->name), c);
    assert_ptr_equal(dt_command_at(count - 1), more);
    assert_ptr_equal(dt_command_find("one_more"), more);
    assert_null(dt_command_find("none"));
}

TEST(words_make_options)
{
    static const struct {
        const char *words, *name, *want; /* no name: refused, with these words */
    } cases[] = {
        {"--max-steps|-1", "max_steps", "-1"},
        {"--max-steps=-1", "max_steps", "-1"},
        {"--lr=0.5", "lr", "0.5"},
        {"--lr|0.5|--lr|0.25", "lr", "0.25"},
        {"--nesterov", "nesterov", "true"},
        {"--nesterov|--no-nesterov", "nesterov", "false"},
        {"--no-drop-remainder", "drop_remainder", "false"},
        {"--global-batch|64", "global_batch", "64"},
        {"--max_steps|3", "max_steps", "3"},
        {"--no_nesterov", "nesterov", "false"},
        {"--out=--odd", "out", "--odd"},
        {"--out|--odd", NULL, "--out needs a value: --out=DIR, not --odd"},
        {"--config|a|--config|b", NULL, "--config is given twice"},
        {"--out=", NULL, "--out: nothing is given"},
        {"-lr|0.5", NULL, "unknown option '-lr'; did you mean --lr?"},
        {"--epoch|3", NULL, "did you mean --epochs?"},
        {"--epoch=3", NULL, "unknown option '--epoch'"},
        {"--learning-rate|3", NULL, "did you mean --lr?"},
        {"--workers|3", NULL, "did you mean --np?"},
        {"--batch_size|3", NULL, "did you mean --batch?"},
        {"--zzz", NULL, "unknown option '--zzz' (--help=all"},
        {"--no-lr", NULL, "'--no-lr'"},
        {"--bat|3", NULL, "unknown option '--bat'"},
        {"--lr", NULL, "--lr needs a value: --lr=RATE"},
        {"--seed|3|--lr", NULL, "--lr needs a value"},
        {"--config", NULL, "--config needs a value: --config=FILE"},
        {"--nesterov=true", NULL, "--nesterov takes no value"},
        {"--no-nesterov=1", NULL, "--no-nesterov takes no value"},
        {"--help=x", NULL, "--help takes no value"},
        {"--lr|0.1|extra", NULL, "'extra'"},
        {"train|bench", NULL, "'bench'"},
        {"--lr|0.1|train", NULL, "'train' is a command: write it first, dtrain train"},
        {"trian", NULL, "unknown command 'trian', want one of: train config"},
        {"-x|-1", NULL, "unknown option '-x'"},
        {"--|--lr", NULL, "'--lr'"},
        {"--lr|fast", NULL, "--lr: 'fast' is no value for lr, want a number from 0"},
        {"--batch|0", NULL, "--batch: '0'"},
        {"--net|resnet", NULL, "--net: 'resnet' is no value for net, want one of: resnet50 vgg11"},
        {"--bn|foo", NULL, "--bn: 'foo'"},
        {"--batch|4|--global-batch|8", NULL, "give one of them"},
        {"--steps|4", NULL, "--steps is an option of bench, not of train"},
        {"eval|m|--scaling", NULL, "--scaling is an option of bench plot, not of eval"},
        {"--json", NULL, "bench env eval lr-find plan predict runs, not"},
        {"config|--steps|4", "steps", "4"},
    };

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        const dt_status st = start(cases[i].words, "");
        if (!cases[i].name) {
            assert_fails(st, DT_USAGE, cases[i].want);
        } else {
            assert_int_equal(st, DT_OK);
            assert_string_equal(text_of(&s.options, cases[i].name), cases[i].want);
        }
    }
}

TEST(later_places_win)
{
    char path[] = "/tmp/dtrain_settings_XXXXXX", named[256], both[512];

    write_file(path, "lr: 0.2\nmomentum: 0.2\nepochs: 2\nglobal_batch: 64\n");
    snprintf(named, sizeof named, "DTRAIN_CONFIG=%s", path);
    snprintf(both, sizeof both, "%s|DTRAIN_LR=0.3|DTRAIN_MOMENTUM=0.3|HOME=/|LR=9", named);
    assert_ok(start("--lr|0.4", both));
    assert_string_equal(text_of(&s.options, "lr"), "0.4");
    assert_string_equal(text_of(&s.options, "momentum"), "0.3");
    assert_string_equal(text_of(&s.options, "epochs"), "2");
    assert_string_equal(text_of(&s.options, "seed"), "1");
    assert_string_equal(text_of(&s.options, "global_batch"), "64");
    assert_string_equal(text_of(&s.options, "batch"), "auto");

    /* a batch per shard on the command line replaces the file's global batch */
    assert_ok(start("--batch|8", named));
    assert_string_equal(text_of(&s.options, "global_batch"), "auto");
    assert_string_equal(text_of(&s.options, "batch"), "8");

    /* --config wins over DTRAIN_CONFIG */
    snprintf(both, sizeof both, "--config|%s", path);
    assert_ok(start(both, "DTRAIN_CONFIG=/dev/null/none"));
    assert_string_equal(text_of(&s.options, "epochs"), "2");
    unlink(path);

    assert_ok(start("--help", "DTRAIN_CONFIG=/dev/null/none")); /* needs no configuration */
    assert_fails(start("--lr|1", "DTRAIN_CONFIG=/dev/null/none"), DT_NOINPUT, "/dev/null/none");
    assert_fails(start("--config=", "DTRAIN_CONFIG=/dev/null/none"), DT_USAGE, "empty");
    assert_fails(start("", "DTRAIN_CONFIG="), DT_CONFIG, "empty");
}

TEST(bad_values_have_places)
{
    char path[] = "/tmp/dtrain_settings_XXXXXX", argument[256], place[256];

    write_file(path, "epochs: 2\nbatch:  0\n");
    snprintf(argument, sizeof argument, "--config=%s", path);
    snprintf(place, sizeof place, "%s:2:9: '0'", path);
    assert_fails(start(argument, ""), DT_CONFIG, place);
    unlink(path);
    assert_fails(start("", "DTRAIN_LR=fast"), DT_CONFIG, "DTRAIN_LR: 'fast'");
}

TEST(doubtful_variables)
{
    static const struct {
        const char *variables, *says;
    } cases[] = {
        {"DTRAIN_MOMENTUN=0.5", "DTRAIN_MOMENTUN in the environment is no option and is ignored; "
                                "did you mean DTRAIN_MOMENTUM?"},
        {"DTRAIN_LRR=3", "did you mean DTRAIN_LR?"},
        {"DTRAIN_GLOBALBATCH=8", "did you mean DTRAIN_GLOBAL_BATCH?"},
        {"DTRAIN_QWERTYUIOP=1", "is ignored"},
        {"DTRAIN_WORKERS=3", "is ignored\n"}, /* "np" is no option */
        {"DTRAIN_BIN=/x|DTRAIN_ROOT=/y|DTRAIN_PORT_80_TCP=z|DTRAIN_SERVICE_HOST=a", NULL},
    };

    for (size_t i = 0; i < DT_COUNT_OF(cases); i++) {
        capture c;
        capture_begin(&c);
        const dt_status st = start("", cases[i].variables);
        capture_end(&c);
        assert_int_equal(st, DT_OK);
        if (cases[i].says)
            assert_non_null(strstr(c.text, cases[i].says));
        else
            assert_string_equal(c.text, "");
    }
}

/* A printed configuration reads back as the same options, odd texts included. */
TEST(listings_read_back)
{
    static const char *const lines[] = {
        "", "--lr|0.1|--global-batch|256|--no-drop-remainder|--net|vgg11|--max-steps|-1",
        "--batch|auto|--global-batch|96|--shards|8",
        "--out|a \"b\" \\c: #d '\xc3\xa9\xe2\x80\xa7\xef\xbb\xbe\xf0\x9f\x98\x80 |--threads|3"};

    for (size_t i = 0; i < DT_COUNT_OF(lines); i++) {
        char path[] = "/tmp/dtrain_settings_XXXXXX", argument[256], *yaml[2];
        size_t size = 0;
        snprintf(argument, sizeof argument, "%s", lines[i]);
        for (int k = 0; k < 2; k++) {
            assert_ok(start(argument, ""));
            FILE *f = open_memstream(&yaml[k], &size);
            assert_non_null(f);
            dt_options_yaml(f, &s.options);
            fclose(f);
            if (k == 0)
                write_file(path, yaml[0]);
            snprintf(argument, sizeof argument, "--config|%s", path);
        }
        assert_string_equal(yaml[0], yaml[1]);
        unlink(path);
        free(yaml[0]);
        free(yaml[1]);
    }
}

/* --help=all names every option; --help those for every day, on three screens of 50 lines. */
TEST(help_names_options)
{
    for (int all = 0; all < 2; all++) {
        char *help = NULL, word[128], name[DT_OPTION_NAME];
        size_t size = 0;
        int lines = 0;
        FILE *f = open_memstream(&help, &size);
        assert_non_null(f);
        dt_help_print(f, &dt_core_command[DT_RUN_TRAIN], all);
        fclose(f);
        for (size_t i = 0; i < DT_OPTIONS; i++) {
            const dt_option_row *r = &dt_option_table[i];
            snprintf(word, sizeof word, r->metavar ? "\n  --%s=" : "\n  --[no-]%s",
                     dt_argument_name(r->name, name));
            assert_int_equal(strstr(help, word) != NULL, all || r->daily);
        }
        assert_non_null(strstr(help, "(default: 0.01)"));
        assert_int_equal(strstr(help, "\nExit codes:\n") != NULL, all);
        for (const char *line = help; *line; line += strcspn(line, "\n") + 1, lines++)
            assert_true(strcspn(line, "\n") <= 80);
        assert_true(all || lines <= 150);
        free(help);
    }
}

/* A command's help has its own options and those that it names, on one screen. */
TEST(help_of_a_command)
{
    char *help = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&help, &size);

    assert_non_null(f);
    dt_help_print(f, dt_command_find("eval"), false);
    fclose(f);
    assert_non_null(strstr(help, "Usage: dtrain eval "));
    assert_non_null(strstr(help, "\n  --tta=HOW"));
    assert_non_null(strstr(help, "\n  --data=PATH"));
    assert_null(strstr(help, "--lr"));
    free(help);
}

static const char *source_folder(void)
{
    const char *folder = getenv("DTRAIN_SOURCE");
    return folder ? folder : ".";
}

/* tutorial.yaml is the table: every option spelled out, every value its default, the recipe. */
TEST(tutorial_is_the_default)
{
    char path[512];
    dt_layer layer = {.file = ""};
    dt_options o;

    dt_options_init(&o);
    snprintf(path, sizeof path, "%s/configs/tutorial.yaml", source_folder());
    assert_ok(dt_config_read(&layer, path));
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        if (!layer.value[i].text)
            fail_msg("%s is missing", dt_option_table[i].name);
        assert_string_equal(layer.value[i].text, text_of(&o, dt_option_table[i].name));
    }
    dt_layer_release(&layer);
}

FIXTURE(release)
{
    dt_settings_release(&s);
    return 0;
}

int main(void)
{
    return tests_run(NULL, release);
}

/* report_jsonl.c - metrics.jsonl, read back by jansson: every line is JSON, numbers come back,
 * and what JSON cannot say is null. */
#include "folder.h"

#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>

#include "report/report.h"

typedef struct fixture {
    char folder[FOLDER_PATH], path[FOLDER_PATH + 64];
    dt_report_setup setup;
    dt_report r;
} fixture;

static int make(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    folder_make(f->folder);
    snprintf(f->path, sizeof f->path, "%s/metrics.jsonl", f->folder);
    f->setup.folder = open(f->folder, O_RDONLY | O_DIRECTORY);
    f->setup.path = f->folder;
    assert_true(f->setup.folder >= 0);
    assert_ok(dt_report_open(&f->r, "", &f->setup));
    *state = f;
    return 0;
}

static int release(void **state)
{
    fixture *f = *state;
    dt_report_close(&f->r);
    dt_report_close(&f->r); /* a second time is harmless */
    close(f->setup.folder);
    folder_remove(f->folder);
    free(f);
    return 0;
}

/* Line `index` of the file, without its newline. */
static void line_text(const fixture *f, int index, char text[1000])
{
    FILE *file = fopen(f->path, "r");

    assert_non_null(file);
    for (int i = 0; i <= index; i++)
        assert_non_null(fgets(text, 1000, file));
    fclose(file);
    assert_int_equal(text[strlen(text) - 1], '\n');
    text[strlen(text) - 1] = '\0';
}

/* Line `index` as JSON: the number under `key`. */
static double number(const fixture *f, int index, const char *key)
{
    char text[1000] = "";

    line_text(f, index, text);
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const json_t *value = json_object_get(j, key);
    assert_true(json_is_number(value));
    const double x = json_number_value(value);
    json_decref(j);
    return x;
}

/* The steps of the first lines. */
static void assert_steps(const fixture *f, const int64_t *step, int count)
{
    for (int i = 0; i < count; i++)
        assert_true(number(f, i, "step") == (double)step[i]);
}
#define STEPS(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8

static void put_step(fixture *f, int64_t run_step)
{
    assert_ok(dt_report_step(&f->r, &(dt_step_record){.run_step = run_step}));
}

static int64_t bytes(const fixture *f)
{
    int64_t n = 0;
    int fd = -1;
    assert_ok(dt_report_records(&f->r, &n, &fd));
    assert_true(fd >= 0);
    return n;
}

static dt_status reopen(fixture *f, int64_t keep)
{
    dt_report_close(&f->r);
    f->setup.keep_bytes = keep;
    return dt_report_open(&f->r, "", &f->setup);
}

static const dt_end_record ends[] = {
    {.ok = false},
    {.ok = true,
     .steps = 1950,
     .weights_hash = "0123abcd",
     .state_hash = "4567",
     .account = {5.5, 1, 0.5, 0.25, 2, 0.25},
     .wall = 9.5},
};

/* What JSON cannot say is null; a run that fails has no last line. */
TEST_OF_FIXTURE(make, release, lines_say_what_was_recorded)
{
    static const dt_step_record steps[] = {
        {.epoch = 2,
         .step = 3,
         .run_step = 198,
         .loss = (double)2.0084016f,
         .first_loss = 2.5,
         .lr = 0.01,
         .images = 256,
         .seconds = 0.5,
         .time = 1790000000.1234},
        {.loss = (double)NAN, .lr = -0.0},
        {.loss = (double)INFINITY, .lr = -(double)INFINITY},
    };
    static const dt_epoch_record epochs[] = {
        {.epoch = 2,
         .train_loss = 1.25,
         .test = {.loss = 1.5, .accuracy = 0.138},
         .seconds = 12.5,
         .time = 1790000012.5},
        {.epoch = 1, .test = {.loss = (double)NAN, .accuracy = (double)NAN}}, /* no test images */
    };
    static const char *const want[] = {
        "{\"kind\":\"step\",\"epoch\":2,\"step\":198,\"loss\":2.00840163,\"loss_shard0\":2.5,"
        "\"lr\":0.01,"
        "\"images\":256,\"seconds\":0.5,\"images_per_s\":512,\"time\":1790000000.123}",
        "{\"kind\":\"step\",\"epoch\":0,\"step\":0,\"loss\":null,\"loss_shard0\":0,\"lr\":-0,"
        "\"images\":0,\"seconds\":0,\"images_per_s\":0,\"time\":0.000}",
        "{\"kind\":\"step\",\"epoch\":0,\"step\":0,\"loss\":null,\"loss_shard0\":0,\"lr\":null,"
        "\"images\":0,\"seconds\":0,\"images_per_s\":0,\"time\":0.000}",
        "{\"kind\":\"epoch\",\"epoch\":2,\"train_loss\":1.25,\"test_loss\":1.5,"
        "\"test_accuracy\":0.138,\"seconds\":12.5,\"time\":1790000012.500}",
        "{\"kind\":\"epoch\",\"epoch\":1,\"train_loss\":0,\"test_loss\":null,"
        "\"test_accuracy\":null,\"seconds\":0,\"time\":0.000}",
        "{\"kind\":\"end\",\"weights_hash\":\"0123abcd\",\"state_hash\":\"4567\",\"steps\":1950,"
        "\"seconds\":9.5000,\"account_s\":{\"compute\":5.5000,\"exchange\":1.0000,"
        "\"waiting\":0.5000,\"data\":0.2500,\"saving\":2.0000,\"rest\":0.2500}}",
    };
    char text[1000];

    for (size_t i = 0; i < DT_COUNT_OF(steps); i++)
        assert_ok(dt_report_step(&f->r, &steps[i]));
    for (size_t i = 0; i < DT_COUNT_OF(epochs); i++)
        assert_ok(dt_report_epoch(&f->r, &epochs[i]));
    for (size_t i = 0; i < DT_COUNT_OF(ends); i++)
        assert_ok(dt_report_end(&f->r, &ends[i]));
    for (size_t i = 0; i < DT_COUNT_OF(want); i++) {
        line_text(f, (int)i, text);
        assert_string_equal(text, want[i]);
    }
}

TEST_OF_FIXTURE(make, release, any_float32_comes_back)
{
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t bits[4];
        float x;
        dt_random(3, DT_STREAM_TEST, 0, i, 0, bits);
        memcpy(&x, &bits[0], sizeof x);
        x = isfinite(x) ? x : 0;
        assert_ok(dt_report_step(&f->r, &(dt_step_record){.loss = (double)x}));
        assert_true((float)number(f, (int)i, "loss") == x);
    }
}

/* A resumed run has the lines up to its checkpoint, and appends. */
TEST_OF_FIXTURE(make, release, resuming_cuts_to_a_line)
{
    int64_t at[4];

    for (int i = 0; i < 4; i++) {
        at[i] = bytes(f);
        if (i < 3)
            put_step(f, i + 1);
        if (i == 0)
            assert_steps(f, STEPS(1)); /* there at once */
    }
    assert_true(at[0] == 0 && at[3] > at[2] && at[2] > at[1]);
    assert_fails(reopen(f, at[3] + 1), DT_FORMAT, "no line ends at byte");
    assert_fails(reopen(f, at[2] - 1), DT_FORMAT, "no line ends at byte");
    assert_fails(reopen(f, at[2] + 1), DT_FORMAT, "no line ends at byte");
    assert_fails(dt_report_check(&f->setup), DT_FORMAT, "no line ends at byte");
    assert_steps(f, STEPS(1, 2, 3)); /* refused: nothing was cut */

    f->setup.keep_bytes = at[2];
    assert_ok(dt_report_check(&f->setup));
    assert_steps(f, STEPS(1, 2, 3));
    assert_ok(reopen(f, at[2]));
    assert_true(bytes(f) == at[2]);
    put_step(f, 77);
    assert_steps(f, STEPS(1, 2, 77));
    assert_ok(reopen(f, 0));
    assert_true(bytes(f) == 0);
}

TEST_OF_FIXTURE(make, release, a_missing_file_begins_anew)
{
    assert_int_equal(unlink(f->path), 0);
    f->setup.keep_bytes = 10; /* the records are lost, not the run */
    assert_ok(dt_report_check(&f->setup));
    assert_ok(reopen(f, 10));
    put_step(f, 1);
    assert_steps(f, STEPS(1));
}

/* Nothing stays of a line that does not fit: the file is JSON lines up to its end. The first one
 * that is lost is the outcome, the others are counted. */
TEST_OF_FIXTURE(make, release, half_a_line_does_not_stay)
{
    struct rlimit old;

    put_step(f, 1);
    const int64_t whole_lines = bytes(f);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const rlim_t room = (rlim_t)whole_lines + 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){room, old.rlim_max}), 0);
    const dt_status first = dt_report_step(&f->r, &(dt_step_record){.run_step = 2});
    const dt_status second = dt_report_step(&f->r, &(dt_step_record){.run_step = 3});
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(second, DT_OK);
    assert_fails(first, DT_IO, "/metrics.jsonl: ");
    assert_true(bytes(f) == whole_lines);
    put_step(f, 4);
    assert_steps(f, STEPS(1, 4));
}

/* What is not the run's own file is left alone. */
TEST_OF_FIXTURE(make, release, anothers_file_is_refused)
{
    const bool root = geteuid() == 0;
    const char *other = folder_path(f->folder, "other");

    assert_int_equal(link(f->path, other), 0);
    assert_fails(reopen(f, 0), DT_CANTCREATE, "is hard-linked elsewhere");
    assert_int_equal(unlink(other), 0);
    if (root)
        assert_int_equal(chmod(f->folder, 0755) + seteuid(65534), 0);
    else
        assert_int_equal(chmod(f->path, 0444), 0);
    const dt_status st = dt_report_check(&f->setup);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_fails(st, DT_CANTCREATE, "Permission denied; let this user read and write it");
    assert_int_equal(rename(f->path, other), 0);
    assert_int_equal(symlink("other", f->path), 0);
    assert_fails(reopen(f, 0), DT_CANTCREATE, "there is a link, not a file");
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_fails(reopen(f, 0), DT_CANTCREATE, "no regular file");
}

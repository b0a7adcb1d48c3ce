/* store_metrics.c - metrics.jsonl, read back by jansson: every line is JSON, numbers come back,
 * and what JSON cannot say is null. */
#include "test.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"

typedef struct fixture {
    char path[64];
    dt_metrics m;
} fixture;

static int make(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    dt_fail_clear(); /* of a test that has failed */
    snprintf(f->path, sizeof f->path, "metrics-XXXXXX");
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(dt_metrics_open(&f->m, f->path));
    *state = f;
    return 0;
}

static int release(void **state)
{
    fixture *f = *state;
    dt_metrics_close(&f->m);
    dt_metrics_close(&f->m); /* a second time is harmless */
    unlink(f->path);
    free(f);
    return 0;
}

/* Line `index` of the file; it ends with a newline and is an object. */
static json_t *line(const fixture *f, int index)
{
    char text[1000] = "";
    FILE *file = fopen(f->path, "r");
    json_t *j = NULL;

    assert_non_null(file);
    for (int i = 0; i <= index; i++)
        assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_int_equal(text[strlen(text) - 1], '\n');
    j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_object(j));
    return j;
}

static double real(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static int64_t whole(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void assert_text(const json_t *j, const char *key, const char *want)
{
    const char *text = json_string_value(json_object_get(j, key));
    assert_non_null(text);
    assert_string_equal(text, want);
}

static void lines_say_what_was_recorded(void **state)
{
    fixture *f = *state;
    const double loss = (double)2.0084016f; /* a float32 survives 9 digits */
    const dt_end_record end = {
        .ok = true, .steps = 1950, .weights_hash = "0123abcd", .state_hash = "4567"};

    assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.epoch = 2,
                                                       .step = 3,
                                                       .run_step = 198,
                                                       .loss = loss,
                                                       .lr = 0.01,
                                                       .images = 256,
                                                       .seconds = 0.5}));
    assert_ok(dt_metrics_epoch(&f->m, &(dt_epoch_record){.epoch = 2,
                                                         .train_loss = 1.25,
                                                         .test_loss = 1.5,
                                                         .correct = 1380,
                                                         .test_images = 10000,
                                                         .images = 49920,
                                                         .seconds = 12.5}));
    assert_ok(dt_metrics_end(&f->m, &end));

    json_t *j = line(f, 0);
    assert_int_equal(json_object_size(j), 6);
    assert_text(j, "kind", "step");
    assert_int_equal(whole(j, "epoch"), 2);
    assert_int_equal(whole(j, "step"), 198);
    assert_true((float)real(j, "loss") == 2.0084016f);
    assert_true(real(j, "lr") == 0.01);
    assert_true(real(j, "images_per_s") == 512);
    json_decref(j);

    j = line(f, 1);
    assert_int_equal(json_object_size(j), 6);
    assert_text(j, "kind", "epoch");
    assert_int_equal(whole(j, "epoch"), 2);
    assert_true(real(j, "train_loss") == 1.25 && real(j, "test_loss") == 1.5);
    assert_true(real(j, "test_accuracy") == 0.138 && real(j, "seconds") == 12.5);
    json_decref(j);

    j = line(f, 2);
    assert_int_equal(json_object_size(j), 4);
    assert_text(j, "kind", "end");
    assert_text(j, "weights_hash", "0123abcd");
    assert_text(j, "state_hash", "4567");
    assert_int_equal(whole(j, "steps"), 1950);
    json_decref(j);
}

static void any_float32_comes_back(void **state)
{
    fixture *f = *state;
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t bits[4];
        float x;
        dt_random(3, DT_STREAM_TEST, 0, i, 0, bits);
        memcpy(&x, &bits[0], sizeof x);
        if (!isfinite(x))
            x = 0;
        assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.loss = (double)x}));
        json_t *j = line(f, (int)i);
        assert_true((float)real(j, "loss") == x);
        json_decref(j);
    }
}

static void what_is_not_finite_is_null(void **state)
{
    fixture *f = *state;
    static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int i = 0; i < 3; i++) {
        assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.loss = odd[i], .lr = -0.0}));
        json_t *j = line(f, i);
        assert_true(json_is_null(json_object_get(j, "loss")));
        assert_true(real(j, "lr") == 0 && real(j, "images_per_s") == 0);
        json_decref(j);
    }
    assert_ok(dt_metrics_epoch(&f->m, &(dt_epoch_record){.epoch = 1, .test_loss = (double)NAN}));
    json_t *j = line(f, 3);
    assert_true(json_is_null(json_object_get(j, "test_accuracy"))); /* no test images */
    json_decref(j);
}

static void lines_are_appended_and_at_once_there(void **state)
{
    fixture *f = *state;
    dt_metrics other;

    assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.run_step = 1}));
    json_decref(line(f, 0)); /* while the writer has the file open */
    assert_ok(dt_metrics_open(&other, f->path));
    assert_ok(dt_metrics_step(&other, &(dt_step_record){.run_step = 2}));
    dt_metrics_close(&other);
    assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.run_step = 3}));
    for (int i = 0; i < 3; i++) {
        json_t *j = line(f, i);
        assert_int_equal(whole(j, "step"), i + 1);
        json_decref(j);
    }
}

/* A run that goes on has the lines up to its checkpoint, and appends. */
static void resuming_cuts_to_a_line(void **state)
{
    fixture *f = *state;
    int64_t bytes[4] = {0};
    dt_metrics m = {0};

    for (int i = 0; i < 3; i++) {
        assert_ok(dt_metrics_bytes(&f->m, &bytes[i]));
        assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.run_step = i + 1}));
    }
    assert_ok(dt_metrics_bytes(&f->m, &bytes[3]));
    assert_true(bytes[0] == 0 && bytes[3] > bytes[2] && bytes[2] > bytes[1]);

    int64_t longer = bytes[3] + 1, before = bytes[2] - 1, behind = bytes[2] + 1;
    assert_fails(dt_metrics_check(f->path, &longer, true), DT_FORMAT, "lines are lost");
    assert_fails(dt_metrics_check(f->path, &before, true), DT_FORMAT, "no line ends at byte");
    assert_fails(dt_metrics_check(f->path, &behind, true), DT_FORMAT, "no line ends at byte");
    json_decref(line(f, 2)); /* refused: nothing was cut */

    assert_ok(dt_metrics_check(f->path, &bytes[2], true));
    assert_ok(dt_metrics_resume(&m, f->path, bytes[2]));
    assert_ok(dt_metrics_bytes(&m, &bytes[0]));
    assert_true(bytes[0] == bytes[2]);
    assert_ok(dt_metrics_step(&m, &(dt_step_record){.run_step = 77}));
    dt_metrics_close(&m);
    for (int i = 0; i < 3; i++) {
        json_t *j = line(f, i);
        assert_int_equal(whole(j, "step"), i < 2 ? i + 1 : 77);
        json_decref(j);
    }
    assert_ok(dt_metrics_resume(&m, f->path, 0));
    assert_ok(dt_metrics_bytes(&m, &bytes[0]));
    assert_true(bytes[0] == 0);
    dt_metrics_close(&m);
}

/* A folder copied by hard links is another run's: its records stay as they are. */
static void a_hard_link_is_parted_with(void **state)
{
    fixture *f = *state;
    char other[128];
    struct stat info;
    dt_metrics m;
    int64_t first = 0, all = 0;

    assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.run_step = 1}));
    assert_ok(dt_metrics_bytes(&f->m, &first));
    assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.run_step = 2}));
    assert_ok(dt_metrics_bytes(&f->m, &all));
    snprintf(other, sizeof other, "%s.other", f->path);
    assert_int_equal(link(f->path, other), 0);
    assert_ok(dt_metrics_resume(&m, f->path, first));
    assert_ok(dt_metrics_step(&m, &(dt_step_record){.run_step = 77}));
    dt_metrics_close(&m);
    for (int i = 0; i < 2; i++) {
        json_t *j = line(f, i);
        assert_int_equal(whole(j, "step"), i == 0 ? 1 : 77);
        json_decref(j);
    }
    assert_int_equal(stat(other, &info), 0);
    assert_int_equal(info.st_size, all);
    assert_int_equal(info.st_nlink, 1);
    unlink(other);
}

static void a_missing_file_begins_anew(void **state)
{
    (void)state;
    char path[64];
    int64_t bytes = 10;
    dt_metrics m = {0};

    snprintf(path, sizeof path, "metrics-absent-%ld", (long)getpid());
    assert_ok(dt_metrics_check(path, &bytes, true)); /* the records are lost, not the run */
    assert_true(bytes == 0);
    assert_ok(dt_metrics_resume(&m, path, bytes));
    assert_ok(dt_metrics_step(&m, &(dt_step_record){.run_step = 1}));
    dt_metrics_close(&m);
    unlink(path);
}

/* Of a line that does not fit nothing stays: the file is JSON lines up to its end. */
static void half_a_line_does_not_stay(void **state)
{
    fixture *f = *state;
    struct rlimit old;
    int64_t whole_lines = 0, bytes = 0;

    assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.run_step = 1}));
    assert_ok(dt_metrics_bytes(&f->m, &whole_lines));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const rlim_t room = (rlim_t)whole_lines + 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){room, old.rlim_max}), 0);
    const dt_status st = dt_metrics_step(&f->m, &(dt_step_record){.run_step = 2});
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_fails(st, DT_IO, "File too large");
    assert_ok(dt_metrics_bytes(&f->m, &bytes));
    assert_true(bytes == whole_lines);
    assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.run_step = 3}));
    json_t *j = line(f, 1);
    assert_int_equal(whole(j, "step"), 3);
    json_decref(j);
}

/* What stands where it is written again is not written to: a pipe would be waited for. */
static void a_removed_file_is_written_again(void **state)
{
    fixture *f = *state;
    char again[sizeof f->path + 8];
    bool done = false;

    assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.run_step = 1}));
    snprintf(again, sizeof again, "%s.again", f->path);
    assert_int_equal(mkfifo(again, 0600), 0);
    assert_int_equal(unlink(f->path), 0);
    assert_ok(dt_metrics_keep(&f->m, &done));
    assert_true(done);
    assert_int_not_equal(access(again, F_OK), 0);
    json_decref(line(f, 0));
}

/* Cut where it stands, by a log's rotation or a shell: others have the same file open. */
static void a_cut_file_is_written_again(void **state)
{
    fixture *f = *state;
    char other[sizeof f->path + 8];
    bool again = false;

    snprintf(other, sizeof other, "%s.other-1", f->path);
    for (int i = 0; i < 4; i++) {
        assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.run_step = i + 1}));
        if (i == 2)
            assert_int_equal(truncate(f->path, 0), 0);
    }
    assert_ok(dt_metrics_keep(&f->m, &again));
    assert_true(again);
    assert_ok(dt_metrics_keep(&f->m, &again));
    assert_false(again);
    assert_ok(dt_metrics_step(&f->m, &(dt_step_record){.run_step = 5}));
    assert_int_equal(truncate(f->path, 1), 0);
    assert_ok(dt_metrics_keep(&f->m, &again));
    assert_true(again);
    for (int i = 0; i < 5; i++) {
        json_t *j = line(f, i);
        assert_int_equal(whole(j, "step"), i + 1);
        json_decref(j);
    }
    assert_int_equal(unlink(other), 0); /* line 4, written behind the cut */
    other[strlen(other) - 1] = '2';
    assert_int_equal(unlink(other), 0);
    close(f->m.copy);
    f->m.copy = -1; /* as where there was no memory */
    assert_int_equal(truncate(f->path, 0), 0);
    assert_fails(dt_metrics_keep(&f->m, &again), DT_IO, "they are lost");
    assert_ok(dt_metrics_keep(&f->m, &again));
    assert_false(again);
}

/* Nothing of a run changes before it is known that its records can be written. */
static void anothers_file_is_refused(void **state)
{
    fixture *f = *state;
    const bool root = geteuid() == 0;
    int64_t bytes = 0;

    if (root)
        assert_int_equal(seteuid(65534), 0);
    else
        assert_int_equal(chmod(f->path, 0444), 0);
    const dt_status writes = dt_metrics_check(f->path, &bytes, true);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_fails(writes, DT_CANTCREATE, "Permission denied; let this user read and write it");
}

static void failures_are_named(void **state)
{
    (void)state;
    dt_metrics m;

    assert_fails(dt_metrics_open(&m, "absent/metrics.jsonl"), DT_CANTCREATE,
                 "absent/metrics.jsonl: No such file");
    assert_int_equal(symlink("absent", "metrics-link"), 0);
    int64_t bytes = 1;
    const dt_status opened = dt_metrics_open(&m, "metrics-link");
    assert_fails(opened, DT_CANTCREATE, "there is a link, not a file, and it is left alone");
    const dt_status checked = dt_metrics_check("metrics-link", &bytes, false);
    assert_int_equal(unlink("metrics-link"), 0);
    assert_fails(checked, DT_NOINPUT, "cannot read metrics-link: it is a link");
    assert_ok(dt_metrics_open(&m, "/dev/full")); /* every write: no space left */
    assert_fails(dt_metrics_step(&m, &(dt_step_record){0}), DT_IO,
                 "/dev/full: No space left on device");
    assert_fails(dt_metrics_end(&m, &(dt_end_record){0}), DT_IO, "/dev/full");
    dt_metrics_close(&m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, release)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_say_what_was_recorded),     TEST(any_float32_comes_back),
        TEST(what_is_not_finite_is_null),      TEST(lines_are_appended_and_at_once_there),
        TEST(resuming_cuts_to_a_line),         TEST(a_hard_link_is_parted_with),
        TEST(a_missing_file_begins_anew),      TEST(half_a_line_does_not_stay),
        TEST(a_removed_file_is_written_again), TEST(a_cut_file_is_written_again),
        TEST(anothers_file_is_refused),        TEST(failures_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* store_rundir.c - run folders: new or empty, never shared, never left empty behind. */
#include "folder.h"

#include <regex.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"

/* Each test runs in a fresh working folder, so that the default runs/ lies in it. */
typedef struct fixture {
    char home[PATH_MAX];
    dt_options o;
} fixture;

static int make(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    char dir[] = "rundir-XXXXXX";

    assert_non_null(f);
    dt_fail_clear(); /* of a test that has failed */
    assert_non_null(getcwd(f->home, sizeof f->home));
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    dt_options_init(&f->o);
    *state = f;
    return 0;
}

/* What a test has left must be empty folders: remove, deepest first. */
static int release(void **state)
{
    static const char *const left[] = {"a/b/c", "a/b", "a", "runs", "empty", "closed"};
    fixture *f = *state;
    char here[PATH_MAX];

    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        rmdir(left[i]);
    unlink("file");
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(f->home), 0);
    assert_int_equal(rmdir(here), 0);
    free(f);
    return 0;
}

static void touch(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

static void new_and_empty_folders_are_taken(void **state)
{
    fixture *f = *state;
    dt_rundir d;
    char path[PATH_MAX];

    f->o.out = "a/b/c"; /* parents are made */
    assert_ok(dt_rundir_open(&d, &f->o, 2));
    assert_string_equal(d.path, "a/b/c");
    assert_true(dt_path_exists("a/b/c/lock"));
    touch(dt_rundir_file(&d, "metrics.jsonl", path));
    dt_rundir_close(&d);
    assert_false(dt_path_exists("a/b/c/lock"));
    assert_int_equal(unlink("a/b/c/metrics.jsonl"), 0); /* what the run wrote stays */

    assert_int_equal(mkdir("empty", 0755), 0);
    f->o.out = "empty/";
    assert_ok(dt_rundir_open(&d, &f->o, 2));
    dt_rundir_close(&d);
    dt_rundir_close(&d);                  /* a second time is harmless */
    assert_true(dt_path_exists("empty")); /* not ours to remove */
}

static void a_folder_that_we_made_for_nothing_goes(void **state)
{
    fixture *f = *state;
    dt_rundir d;
    f->o.out = "a";
    assert_ok(dt_rundir_open(&d, &f->o, 1));
    assert_true(dt_path_exists("a"));
    dt_rundir_close(&d);
    assert_false(dt_path_exists("a"));
}

static void a_folder_with_anything_in_it_is_refused(void **state)
{
    fixture *f = *state;
    dt_rundir d;
    f->o.out = "a";
    static const char *const things[] = {"a/model.safetensors", "a/.hidden", "a/lock"};

    assert_int_equal(mkdir("a", 0755), 0);
    for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
        touch(things[i]);
        assert_fails(dt_rundir_open(&d, &f->o, 1), DT_CANTCREATE, "is not empty: it holds");
        assert_true(dt_path_exists(things[i]));
        assert_int_equal(unlink(things[i]), 0);
    }
    assert_int_equal(mkdir("a/b", 0755), 0);
    assert_fails(dt_rundir_open(&d, &f->o, 1), DT_CANTCREATE, "holds 'b'");
    dt_rundir_close(&d); /* after a failure: nothing to do */
    assert_true(dt_path_exists("a/b"));
}

/* By another process: flock knows files, not names. */
static void a_folder_in_use_is_refused(void **state)
{
    fixture *f = *state;
    dt_rundir d;
    int status = 0;

    f->o.out = "a";
    assert_ok(dt_rundir_open(&d, &f->o, 1));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dt_rundir other;
        const dt_status st = dt_rundir_open(&other, &f->o, 1);
        _exit(st == DT_CANTCREATE && strstr(dt_fail_text(), "in use by another run") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(dt_path_exists("a/lock"));
    dt_rundir_close(&d);
}

/* Eight processes want one new folder at once: one gets it and keeps its lock. */
static void one_of_many_gets_a_folder(void **state)
{
    fixture *f = *state;
    enum { RIVALS = 8, ROUNDS = 60 };

    f->o.out = "a";
    for (int round = 0; round < ROUNDS; round++) {
        int start[2], done[2], end[2], winners = 0;
        assert_true(pipe(start) == 0 && pipe(done) == 0 && pipe(end) == 0);
        for (int i = 0; i < RIVALS; i++) {
            const pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                dt_rundir d;
                char byte = 0;
                close(start[1]);
                close(end[1]);
                if (read(start[0], &byte, 1) != 0) /* until the parent closes it */
                    _exit(1);
                byte = dt_rundir_open(&d, &f->o, 1) == DT_OK;
                if (write(done[1], &byte, 1) != 1 || read(end[0], &byte, 1) != 0)
                    _exit(1);
                dt_rundir_close(&d);
                _exit(0);
            }
        }
        close(start[1]);
        for (int i = 0; i < RIVALS; i++) {
            char byte = 0;
            assert_int_equal(read(done[0], &byte, 1), 1);
            winners += byte;
        }
        assert_int_equal(winners, 1);
        assert_true(dt_path_exists("a/lock"));
        close(end[1]);
        for (int i = 0; i < RIVALS; i++) {
            int status = 0;
            assert_true(wait(&status) > 0);
            assert_int_equal(status, 0);
        }
        assert_false(dt_path_exists("a/lock"));
        rmdir("a"); /* left by a winner that had not made it */
        close(start[0]);
        close(done[0]);
        close(done[1]);
        close(end[0]);
    }
}

/* A folder that is moved stays its run's: what takes its name is another's. */
static void a_moved_folder_is_followed(void **state)
{
    fixture *f = *state;
    dt_rundir d;
    char path[PATH_MAX], text[2000], was[sizeof d.path];
    FILE *heard;

    for (int by_name = 0; by_name < 2; by_name++) {
        f->o.out = "here";
        assert_ok(dt_rundir_open(&d, &f->o, 1));
        assert_ok(dt_rundir_find(&d));
        assert_string_equal(d.path, "here");
        memcpy(was, d.at, sizeof was);
        if (by_name) /* as where there is no /proc */
            memcpy(d.at, d.path, sizeof d.at);
        assert_int_equal(rename("here", "there"), 0);
        assert_int_equal(mkdir("here", 0755), 0);
        const int kept = folder_listen(&heard);
        const dt_status st = dt_rundir_find(&d);
        folder_heard(kept, heard, text, sizeof text);
        if (by_name) {
            assert_fails(st, DT_IO, "was moved or replaced");
            memcpy(d.at, was, sizeof d.at);
        } else {
            assert_ok(st);
            assert_non_null(strstr(text, "run folder here was moved to "));
            assert_non_null(strstr(d.path, "/there"));
        }
        touch(dt_rundir_file(&d, "metrics.jsonl", path));
        assert_int_equal(access("there/metrics.jsonl", F_OK), 0);
        dt_rundir_close(&d);
        assert_int_not_equal(access("there/lock", F_OK), 0);
        assert_int_equal(rmdir("here"), 0); /* still there, and empty */
        unlink("there/metrics.jsonl");
        rmdir("there");
    }
}

static void the_default_has_date_network_and_ranks(void **state)
{
    fixture *f = *state;
    enum { RUNS = 3 };
    dt_rundir d[RUNS];
    regex_t first, any;

    assert_int_equal(regcomp(&first, "^runs/20[0-9]{6}-[0-9]{6}-vgg11-np8$", REG_EXTENDED), 0);
    assert_int_equal(regcomp(&any, "^runs/20[0-9]{6}-[0-9]{6}-vgg11-np8(-[23])?$", REG_EXTENDED),
                     0);
    f->o.net = "vgg11";
    for (int i = 0; i < RUNS; i++) { /* within one second the names would be equal */
        assert_ok(dt_rundir_open(&d[i], &f->o, 8));
        assert_int_equal(regexec(i ? &any : &first, d[i].path, 0, NULL, 0), 0);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(d[i].path, d[k].path);
    }
    for (int i = 0; i < RUNS; i++)
        dt_rundir_close(&d[i]);
    regfree(&first);
    regfree(&any);
}

static void places_that_cannot_be_made_are_named(void **state)
{
    fixture *f = *state;
    dt_rundir d;
    char path[PATH_MAX + 10];

    touch("file");
    f->o.out = "file";
    assert_fails(dt_rundir_open(&d, &f->o, 1), DT_CANTCREATE, "run folder file is a file");
    f->o.out = "file/run";
    assert_fails(dt_rundir_open(&d, &f->o, 1), DT_CANTCREATE, "Not a directory");
    f->o.out = "/proc/run";
    assert_fails(dt_rundir_open(&d, &f->o, 1), DT_CANTCREATE, "/proc/run");
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    f->o.out = path;
    assert_fails(dt_rundir_open(&d, &f->o, 1), DT_CANTCREATE, "characters");
    if (geteuid() != 0) { /* root writes everywhere */
        assert_int_equal(mkdir("closed", 0555), 0);
        f->o.out = "closed";
        assert_fails(dt_rundir_open(&d, &f->o, 1), DT_CANTCREATE, "Permission denied");
        f->o.out = "closed/run";
        assert_fails(dt_rundir_open(&d, &f->o, 1), DT_CANTCREATE, "Permission denied");
    }
    assert_int_equal(dt_status_exit_code(DT_CANTCREATE), 73);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, release)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(new_and_empty_folders_are_taken),
        TEST(a_folder_that_we_made_for_nothing_goes),
        TEST(a_folder_with_anything_in_it_is_refused),
        TEST(a_folder_in_use_is_refused),
        TEST(one_of_many_gets_a_folder),
        TEST(a_moved_folder_is_followed),
        TEST(the_default_has_date_network_and_ranks),
        TEST(places_that_cannot_be_made_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* store_rundir_resume.c - run folders that are taken over: the remains of a run, by one process
 * at a time. */
#include "snapshot.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "store/store.h"

typedef struct place {
    char dir[FOLDER_PATH], run[FOLDER_PATH + 8];
    dt_options o;
} place;

static int make(void **state)
{
    place *p = calloc(1, sizeof *p);

    assert_non_null(p);
    dt_fail_clear(); /* of a test that has failed */
    folder_make(p->dir);
    snprintf(p->run, sizeof p->run, "%s/run", p->dir);
    dt_options_init(&p->o);
    p->o.out = p->run;
    p->o.resume = "auto";
    *state = p;
    return 0;
}

static int release(void **state)
{
    place *p = *state;
    folder_remove(p->dir);
    free(p);
    return 0;
}

/* What a run of `steps` checkpoints has left. */
static void leave_run(const place *p, bool lock)
{
    char path[FOLDER_PATH + 64];

    mkdir(p->run, 0755);
    folder_write(p->run, "options.yaml", "lr: 1\n", 6);
    folder_write(p->run, "metrics.jsonl", "{}\n", 3);
    if (lock)
        folder_write(p->run, "lock", "123\n", 4);
    snprintf(path, sizeof path, "%s/checkpoints", p->run);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/checkpoints/step-0000000003", p->run);
    mkdir(path, 0755);
}

static void remains_are_taken_over(void **state)
{
    place *p = *state;
    dt_rundir d;

    assert_ok(dt_rundir_open(&d, &p->o, 2)); /* nothing there: a new one */
    assert_true(d.created && !d.resumed);
    dt_rundir_close(&d);
    for (int lock = 0; lock < 2; lock++) {
        leave_run(p, lock);
        assert_ok(dt_rundir_open(&d, &p->o, 2));
        assert_true(d.resumed && !d.created);
        assert_string_equal(d.path, p->run);
        assert_true(dt_path_exists(folder_path(p->run, "lock")));
        dt_rundir_close(&d);
        assert_false(dt_path_exists(folder_path(p->run, "lock")));
        assert_true(dt_path_exists(folder_path(p->run, "metrics.jsonl"))); /* all of it stays */
        assert_true(dt_path_exists(folder_path(p->run, "checkpoints/step-0000000003")));
    }
    p->o.resume = "never";
    assert_fails(dt_rundir_open(&d, &p->o, 2), DT_CANTCREATE,
                 "or continue that run with --resume auto");
}

/* Killed before it had written anything, or just then. */
static void a_run_that_had_barely_begun(void **state)
{
    static const char *const left[] = {"lock", ".options.yaml", "options.yaml.dtrain.tmp"};
    place *p = *state;
    dt_rundir d;

    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        mkdir(p->run, 0755);
        folder_write(p->run, "lock", "123\n", 4);
        folder_write(p->run, left[i], "", 0);
        p->o.resume = "never"; /* without being asked, nothing is taken over */
        assert_fails(dt_rundir_open(&d, &p->o, 2), DT_CANTCREATE, "is not empty");
        assert_true(dt_path_exists(folder_path(p->run, "lock")));
        p->o.resume = "auto";
        assert_ok(dt_rundir_open(&d, &p->o, 2));
        dt_rundir_close(&d);
        folder_remove(p->run);
    }
}

static void what_is_no_run_is_refused(void **state)
{
    place *p = *state;
    dt_rundir d;

    mkdir(p->run, 0755);
    folder_write(p->run, "thesis.tex", "x", 1);
    folder_write(p->run, "model.safetensors.old.tmp", "x", 1);
    assert_fails(dt_rundir_open(&d, &p->o, 2), DT_CANTCREATE, "it is no run folder");
    assert_true(dt_path_exists(folder_path(p->run, "thesis.tex")));
    assert_false(dt_path_exists(folder_path(p->run, "lock")));
    folder_write(p->run, "lock", "", 0);
    assert_fails(dt_rundir_open(&d, &p->o, 2), DT_CANTCREATE, "'thesis.tex'");
    unlink(folder_path(p->run, "lock"));
    assert_int_equal(symlink("/etc/passwd", folder_path(p->run, "lock")), 0);
    leave_run(p, false);
    assert_fails(dt_rundir_open(&d, &p->o, 2), DT_CANTCREATE,
                 "lock: there is a link, not a file, and it is left alone");
}

/* A file of the user's own, or of two names, and what would be waited for. */
static void a_lock_of_somebody_else_is_left_alone(void **state)
{
    static const char *const texts[] = {"my notes", "my notes\n", "x12",
                                        "1 a\nb\n", "\n",         " 1 a\n"};
    enum { TEXTS = sizeof texts / sizeof *texts, LINK = TEXTS, PIPE, KINDS };
    place *p = *state;
    struct stat info;
    dt_rundir d;

    for (int kind = 0; kind < 2 * KINDS; kind++) {
        const int i = kind / 2;
        mkdir(p->run, 0755);
        const char *lock = folder_path(p->run, "lock");
        if (i < TEXTS)
            folder_write(p->run, "lock", texts[i], strlen(texts[i]));
        folder_write(p->dir, "precious", "1 a\n", 4);
        if (i == LINK)
            assert_int_equal(link(folder_path(p->dir, "precious"), lock), 0);
        if (i == PIPE)
            assert_int_equal(mkfifo(lock, 0600), 0);
        if (kind % 2)
            leave_run(p, false);
        assert_fails(dt_rundir_open(&d, &p->o, 2), DT_CANTCREATE,
                     kind % 2 ? "its 'lock' is not what a run leaves; move it away"
                              : "is not empty: it holds 'lock'");
        assert_int_equal(stat(folder_path(p->run, "lock"), &info), 0);
        assert_int_equal(info.st_size, i < TEXTS ? strlen(texts[i]) : i == LINK ? 4 : 0);
        folder_remove(p->run);
    }
}

/* What a power cut may leave of one. */
static void a_torn_lock_is_a_lock(void **state)
{
    static const char *const texts[] = {"12", "1234 h", "\0\0\0\0\0\0\n", "1234\0\0\0",
                                        "\x01\xcd\x9b\n..."};
    static const size_t length[] = {2, 6, 7, 7, 7};
    place *p = *state;
    dt_rundir d;

    for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
        leave_run(p, false);
        folder_write(p->run, "lock", texts[i], length[i]);
        assert_ok(dt_rundir_open(&d, &p->o, 2));
        dt_rundir_close(&d);
        assert_false(dt_path_exists(folder_path(p->run, "lock")));
    }
}

/* Blocks that hold what was there before: any byte of the line but its first may be another. */
static void a_lock_with_a_wrong_byte_is_a_lock(void **state)
{
    static const char line[] = "1930 vm\n", wrong[] = {'x', ' ', '\t', '\x7f', '\xcd', '\0'};
    enum { PLACES = sizeof line - 2 };
    place *p = *state;
    dt_rundir d;

    for (size_t i = 0; i < PLACES * sizeof wrong; i++) {
        char torn[sizeof line];
        memcpy(torn, line, sizeof line);
        torn[1 + i % PLACES] = wrong[i / PLACES];
        leave_run(p, false);
        folder_write(p->run, "lock", torn, sizeof line - 1);
        assert_ok(dt_rundir_open(&d, &p->o, 2));
        dt_rundir_close(&d);
        assert_false(dt_path_exists(folder_path(p->run, "lock")));
    }
}

/* Put in the place of the lock while its run goes on. */
static void what_replaced_the_lock_stays(void **state)
{
    place *p = *state;
    dt_rundir d;

    leave_run(p, true);
    assert_ok(dt_rundir_open(&d, &p->o, 2));
    folder_write(p->run, "lock", "my notes", 8);
    dt_rundir_close(&d);
    assert_true(dt_path_exists(folder_path(p->run, "lock")));
}

static void paths_lead_to_their_run(void **state)
{
    place *p = *state;
    char checkpoint[FOLDER_PATH + 64], other[FOLDER_PATH + 64], real[PATH_MAX];
    dt_rundir d;

    leave_run(p, true);
    assert_non_null(realpath(p->run, real));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/step-0000000003", p->run);
    snprintf(other, sizeof other, "%s/other", p->dir);
    const struct {
        const char *resume, *out, *want;
        bool resumed;
    } cases[] = {
        {p->run, "", p->run, true},     {checkpoint, "", real, true},
        {p->run, p->run, p->run, true}, {checkpoint, p->run, p->run, true},
        {p->run, other, other, false},  {checkpoint, other, other, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        p->o.resume = cases[i].resume;
        p->o.out = cases[i].out;
        assert_ok(dt_rundir_open(&d, &p->o, 2));
        assert_string_equal(d.path, cases[i].want);
        assert_int_equal(d.resumed, cases[i].resumed);
        dt_rundir_close(&d);
        rmdir(other);
    }
    p->o.resume = "/dev/null/none/run";
    p->o.out = other;
    assert_fails(dt_rundir_open(&d, &p->o, 2), DT_NOINPUT, "/dev/null/none/run");
    p->o.resume = p->run; /* another run's folder is not taken, whatever is resumed */
    mkdir(other, 0755);
    folder_write(other, "options.yaml", "x", 1);
    assert_fails(dt_rundir_open(&d, &p->o, 2), DT_CANTCREATE, "is not empty");
}

/* ---- More than one ------------------------------------------------------------------------ */

/* A process that takes the folder, says so with one byte, and waits to be killed. */
static pid_t holder(const place *p, int *said)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dt_rundir d;
        const char got = dt_rundir_open(&d, &p->o, 1) == DT_OK ? 'y' : 'n';
        if (write(ends[1], &got, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    char answer = 0;
    assert_int_equal(read(ends[0], &answer, 1), 1);
    close(ends[0]);
    *said = answer;
    return child;
}

static void a_live_one_keeps_it_and_a_killed_one_does_not(void **state)
{
    place *p = *state;
    dt_rundir d;
    int said = 0, status = 0;

    leave_run(p, false);
    const pid_t child = holder(p, &said);
    assert_int_equal(said, 'y');
    assert_fails(dt_rundir_open(&d, &p->o, 1), DT_CANTCREATE, "in use by another run");
    assert_true(dt_path_exists(folder_path(p->run, "lock")));
    p->o.resume = "never";
    char who[64];
    snprintf(who, sizeof who, "in use by another run (process %ld on ", (long)child);
    assert_fails(dt_rundir_open(&d, &p->o, 1), DT_CANTCREATE, who);
    p->o.resume = "auto";
    assert_int_equal(rename(folder_path(p->run, "lock"), folder_path(p->dir, "lock")), 0);
    assert_true(dt_rundir_held(p->run)); /* though its lock file is gone */
    assert_fails(dt_rundir_open(&d, &p->o, 1), DT_CANTCREATE, "in use by another run;");
    assert_false(dt_path_exists(folder_path(p->run, "lock")));
    assert_int_equal(rename(folder_path(p->dir, "lock"), folder_path(p->run, "lock")), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(dt_path_exists(folder_path(p->run, "lock"))); /* stale */
    assert_ok(dt_rundir_open(&d, &p->o, 1));
    assert_true(d.resumed);
    dt_rundir_close(&d);
}

/* Processes that take and leave the folder as fast as they can: while one is inside, no
 * other is. The folder's `inside` is made with O_EXCL, so two at once would show. */
static void never_two_at_once(void **state)
{
    enum { RIVALS = 6, ROUNDS = 150 };
    place *p = *state;
    pid_t child[RIVALS];

    leave_run(p, true);
    for (int i = 0; i < RIVALS; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] != 0)
            continue;
        int got = 0;
        for (int tries = 0; got < ROUNDS && tries < 1000000; tries++) {
            dt_rundir d;
            dt_fail_clear();
            if (dt_rundir_open(&d, &p->o, 1) != DT_OK) {
                if (!strstr(dt_fail_text(), "in use by another run"))
                    _exit(2);
                continue;
            }
            const int fd = open(folder_path(p->run, "inside"), O_WRONLY | O_CREAT | O_EXCL, 0644);
            if (fd < 0)
                _exit(3);
            close(fd);
            if (!dt_path_exists(folder_path(p->run, "lock")) || !d.resumed)
                _exit(4);
            if (unlink(folder_path(p->run, "inside")) != 0)
                _exit(5);
            dt_rundir_close(&d);
            got++;
        }
        _exit(got == ROUNDS ? 0 : 6);
    }
    for (int i = 0; i < RIVALS; i++) {
        int status = 0;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    assert_false(dt_path_exists(folder_path(p->run, "lock")));
}

/* Of those that resume one folder at the same moment, exactly one does. */
static void one_of_many_resumes(void **state)
{
    enum { RIVALS = 6, ROUNDS = 20 };
    place *p = *state;

    leave_run(p, true);
    for (int round = 0; round < ROUNDS; round++) {
        int start[2], done[2], end[2], winners = 0;
        assert_true(pipe(start) == 0 && pipe(done) == 0 && pipe(end) == 0);
        for (int i = 0; i < RIVALS; i++) {
            const pid_t one = fork();
            assert_true(one >= 0);
            if (one == 0) {
                dt_rundir d;
                char byte = 0;
                close(start[1]);
                close(end[1]);
                if (read(start[0], &byte, 1) != 0) /* until the parent closes it */
                    _exit(1);
                byte = dt_rundir_open(&d, &p->o, 1) == DT_OK;
                if (write(done[1], &byte, 1) != 1 || read(end[0], &byte, 1) != 0)
                    _exit(1);
                _exit(0); /* without closing: the lock file is stale again */
            }
        }
        close(start[1]);
        for (int i = 0; i < RIVALS; i++) {
            char byte = 0;
            assert_int_equal(read(done[0], &byte, 1), 1);
            winners += byte;
        }
        assert_int_equal(winners, 1);
        close(end[1]);
        for (int i = 0; i < RIVALS; i++) {
            int status = 0;
            assert_true(wait(&status) > 0);
            assert_int_equal(status, 0);
        }
        close(start[0]);
        close(done[0]);
        close(done[1]);
        close(end[0]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, release)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(remains_are_taken_over),
        TEST(a_run_that_had_barely_begun),
        TEST(what_is_no_run_is_refused),
        TEST(a_lock_of_somebody_else_is_left_alone),
        TEST(a_torn_lock_is_a_lock),
        TEST(a_lock_with_a_wrong_byte_is_a_lock),
        TEST(what_replaced_the_lock_stays),
        TEST(paths_lead_to_their_run),
        TEST(a_live_one_keeps_it_and_a_killed_one_does_not),
        TEST(never_two_at_once),
        TEST(one_of_many_resumes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

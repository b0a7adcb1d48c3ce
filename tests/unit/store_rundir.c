/* store_rundir.c - run folders: every state of one, by every way to ask for it; and of processes
 * that want the same one, one gets it. */
#include "folder.h"

#include <regex.h>
#include <sys/wait.h>

#include "store/store.h"

/* Each test runs in a fresh working folder. */
typedef struct fixture {
    char home[PATH_MAX], here[FOLDER_PATH];
    dt_options o;
} fixture;

static int make(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    folder_make(f->here);
    assert_non_null(getcwd(f->home, sizeof f->home));
    assert_int_equal(chdir(f->here), 0);
    dt_options_init(&f->o);
    *state = f;
    return 0;
}

static int release(void **state)
{
    fixture *f = *state;

    assert_int_equal(chdir(f->home), 0);
    folder_remove(f->here);
    free(f);
    return 0;
}

/* ---- States ----------------------------------------------------------------------------- */

/* An entry of the folder a/run; one that ends with a slash is a folder. */
static void leave(const char *name)
{
    char path[FOLDER_PATH];
    const int n = snprintf(path, sizeof path, "a/run/%s", name);

    if (path[n - 1] == '/')
        assert_int_equal(mkdir(path, 0755), 0);
    else
        folder_write("a/run", name, "x", 1);
}

/* What is in the folder: at most one of each kind. */
static const char *const locks[] = {"", ".lock"};
static const char *const options[] = {"", "options.yaml", "options.yaml.dtrain.tmp"};
static const char *const works[] = {"", "checkpoints/", "model.safetensors", "metrics.jsonl"};
static const char *const others[] = {"", "thesis.tex", "lock", ".hidden", "logs/"};
/* How it is asked for; the last by a run folder elsewhere. */
static const char *const ways[] = {"never", "auto", "a/run", "elsewhere"};
enum { NEVER, AUTO, ITSELF, ELSEWHERE, WAYS };

/* Counts the cases by what is to come of them. */
static void try_state(fixture *f, const char *const entry[4], int way, int count[3])
{
    const bool run = strcmp(entry[1], "options.yaml") == 0, there = way != NEVER || entry[0][0];
    const bool empty = !run && !entry[2][0] && (!entry[3][0] || strcmp(entry[3], "logs/") == 0);
    const bool resumed = run && (way == AUTO || way == ITSELF);
    dt_rundir d;

    if (there)
        assert_int_equal(mkdir("a", 0755) == 0 && mkdir("a/run", 0755) == 0, true);
    for (int i = 0; i < 4 && there; i++)
        if (entry[i][0])
            leave(entry[i]);
    f->o.resume = ways[way];
    f->o.out = "a/run/";
    f->o.log_dir = strcmp(entry[3], "logs/") == 0 && there ? "./a/../a/run/logs" : ""; /* its own */
    const dt_status st = dt_rundir_open(&d, &f->o, 2);
    if (resumed || empty || !there) {
        assert_ok(st);
        assert_int_equal(d.resumed, resumed && there);
        assert_string_equal(d.path, "a/run");
        assert_true(dt_rundir_held("a/run"));
        count[resumed]++;
    } else {
        assert_fails(st, DT_CANTCREATE, "run folder a/run is not empty: it holds '");
        assert_int_equal(dt_path_taken("a/run/.lock"), entry[0][0] != '\0');
        count[2]++;
    }
    dt_rundir_close(&d);
    assert_false(dt_rundir_held("a/run"));
    for (int i = 0; i < 4 && there; i++) /* nothing that was there is lost */
        assert_true(!entry[i][0] || dt_path_taken(folder_path("a/run", entry[i])));
    folder_remove("a");
}

TEST_OF_FIXTURE(make, release, every_state_by_every_way)
{
    int count[3] = {0};

    assert_int_equal(mkdir("elsewhere", 0755), 0);
    for (size_t l = 0; l < DT_COUNT_OF(locks); l++)
        for (size_t o = 0; o < DT_COUNT_OF(options); o++)
            for (size_t w = 0; w < DT_COUNT_OF(works); w++)
                for (size_t k = 0; k < DT_COUNT_OF(others); k++)
                    for (int way = 0; way < WAYS; way++)
                        try_state(f,
                                  (const char *const[]){locks[l], options[o], works[w], others[k]},
                                  way, count);
    /* Of a run: one of 3 options, 2 ways. New: of 2 options, no work, nothing or logs, 4 ways; and,
     * where none is made, the others of `never` without a lock. */
    assert_int_equal(count[1], 2 * 1 * 4 * 5 * 2);
    assert_int_equal(count[0], 2 * 2 * 1 * 2 * 4 + (3 * 4 * 5 - 2 * 2));
    assert_int_equal(count[0] + count[1] + count[2], 2 * 3 * 4 * 5 * 4);
}

TEST_OF_FIXTURE(make, release, paths_lead_to_their_run)
{
    char real[PATH_MAX];
    dt_rundir d;

    assert_true(mkdir("a", 0755) == 0 && mkdir("a/run", 0755) == 0);
    leave("options.yaml");
    leave("checkpoints/");
    leave("checkpoints/step-0000000003/");
    assert_non_null(realpath("a/run", real));
    const struct {
        const char *resume, *out, *want;
        bool resumed;
    } cases[] = {
        {"a/run", "", "a/run", true},
        {"a/run", "a/../a/run", "a/../a/run", true},
        {"a/run", "b", "b", false},
        {"a/run/checkpoints/step-0000000003", "", real, true},
        {"a/run/checkpoints/step-0000000003/", "a/run", "a/run", true},
        {"a/run/checkpoints/step-0000000003", "b", "b", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        f->o.resume = cases[i].resume;
        f->o.out = cases[i].out;
        assert_ok(dt_rundir_open(&d, &f->o, 2));
        assert_string_equal(d.path, cases[i].want);
        assert_int_equal(d.resumed, cases[i].resumed);
        dt_rundir_close(&d);
    }
    f->o.resume = "no/such/run";
    assert_fails(dt_rundir_open(&d, &f->o, 2), DT_NOINPUT, "no/such/run");
}

/* ---- The lock ---------------------------------------------------------------------------- */

/* Take and leave the folder as fast as can be: while one is inside, no other is. The folder's
 * `inside` is made with O_EXCL, so two at once would show. */
static int take_and_leave(fixture *f)
{
    int got = 0;

    for (int tries = 0; got < 150 && tries < 1000000; tries++) {
        dt_rundir d;
        dt_fail_clear();
        if (dt_rundir_open(&d, &f->o, 1) != DT_OK) {
            /* the second: before the first of them has made the lock */
            if (!strstr(dt_fail_text(), "in use by another run") &&
                !strstr(dt_fail_text(), "is not empty"))
                return 2;
            continue;
        }
        const int fd = openat(d.folder, "inside", O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (fd < 0 || close(fd) != 0 || unlinkat(d.folder, "inside", 0) != 0)
            return 3;
        dt_rundir_close(&d);
        got++;
    }
    return got == 150 ? 0 : 4;
}

TEST_OF_FIXTURE(make, release, never_two_at_once)
{
    enum { RIVALS = 6 };
    int start[2], status = 0;
    char byte;

    f->o.out = "run";
    f->o.resume = "auto";
    assert_int_equal(pipe(start), 0);
    for (int i = 0; i < RIVALS; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child != 0)
            continue;
        close(start[1]);
        _exit(read(start[0], &byte, 1) == 0 ? take_and_leave(f) : 9);
    }
    close(start[0]);
    close(start[1]); /* all begin */
    for (int i = 0; i < RIVALS; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
}

/* ---- Names ------------------------------------------------------------------------------- */

TEST_OF_FIXTURE(make, release, the_default_has_date_network_and_ranks)
{
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

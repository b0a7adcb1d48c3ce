/* store_saver.c - the thread that saves: it writes the snapshot of the moment, reports failures to
 * the other thread once, and handles no signal. */
#include "snapshot.h"

#include <semaphore.h>
#include <signal.h>

static const dt_keep keep_two = {.last = 2};

SNAPSHOT_TEST(snapshots_are_of_their_moment)
{
    dt_saver *v = NULL;
    char names[1000];

    assert_true(dt_saver_bytes(f->net, false) >= f->all * sizeof(float));
    assert_ok(dt_saver_open(&v, &f->d, f->net, false, &keep_two));
    assert_string_equal(f->d.last, "");
    assert_ok(dt_saver_wait(v)); /* nothing was asked for */
    for (int64_t k = 1; k <= 5; k++) {
        snapshot_fill(f, k);
        assert_ok(dt_saver_save(v, &f->s));
        memset(f->slab, 0xff, f->all * sizeof *f->slab); /* training goes on at once */
        f->s.at.run_step = -1;
    }
    assert_ok(dt_saver_wait(v));
    assert_string_equal(f->d.last, folder_path(f->checkpoints, "step-0000000005"));
    assert_string_equal(names_in(f, "", names), "step-0000000004 step-0000000005");
    assert_loads_step(f, f->d.last, 5);
    assert_loads_step(f, folder_path(f->checkpoints, "step-0000000004"), 4);
    dt_saver_close(v);
    dt_saver_close(NULL);
}

/* By a file in the place of the folder: also root cannot write there. */
SNAPSHOT_TEST(failures_are_reported_once)
{
    dt_saver *v = NULL;

    folder_write(f->run, "checkpoints", "x", 1);
    assert_ok(dt_saver_open(&v, &f->d, f->net, false, &keep_two));
    snapshot_fill(f, 1);
    assert_ok(dt_saver_save(v, &f->s)); /* fails later, elsewhere */
    assert_string_equal(dt_fail_text(), "");
    snapshot_fill(f, 2);
    assert_int_not_equal(dt_saver_save(v, &f->s), DT_OK);
    assert_non_null(strstr(dt_fail_text(), "checkpoints"));
    dt_fail_clear();
    assert_int_not_equal(dt_saver_wait(v), DT_OK); /* the second was tried all the same */
    assert_non_null(strstr(dt_fail_text(), "checkpoints"));
    dt_fail_clear();
    assert_ok(dt_saver_wait(v)); /* reported once */
    assert_string_equal(f->d.last, "");

    unlink(folder_path(f->run, "checkpoints"));
    snapshot_fill(f, 3);
    assert_ok(dt_saver_save(v, &f->s));
    assert_ok(dt_saver_wait(v));
    assert_string_equal(f->d.last, folder_path(f->checkpoints, "step-0000000003"));
    assert_loads_step(f, f->d.last, 3);
    dt_saver_close(v);
}

/* The mask of each other thread of this process, from /proc. */
static int threads_with_blocked(int signal_number)
{
    DIR *dir = opendir("/proc/self/task");
    int count = 0;

    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char path[300], line[200];
        unsigned long long mask = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        FILE *f =
            e->d_name[0] == '.' || atol(e->d_name) == (long)getpid() ? NULL : fopen(path, "r");
        while (f && fgets(line, sizeof line, f))
            if (sscanf(line, "SigBlk: %llx", &mask) == 1)
                count += (mask & 1ull << (signal_number - 1)) != 0;
        if (f)
            fclose(f);
    }
    closedir(dir);
    return count;
}

static void *wait_for(void *end)
{
    sem_wait(end);
    return NULL;
}

/* Of the thread that a saver starts for each checkpoint. */
TEST_WITH(snapshot_make, snapshot_release, signals_are_left_to_others)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGALRM};
    pthread_t thread;
    sem_t end;
    sigset_t before, after;

    sem_init(&end, 0, 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    assert_ok(dt_thread_start(&thread, wait_for, &end, "wait"));
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        assert_int_equal(threads_with_blocked(signals[i]), 1);
        assert_int_equal(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
    sem_post(&end);
    pthread_join(thread, NULL);
    assert_int_equal(threads_with_blocked(SIGTERM), 0);
}

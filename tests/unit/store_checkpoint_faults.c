/* store_checkpoint_faults.c - the n-th call of each kind fails, for all n: an older checkpoint
 * stays valid, no temporary stays, no descriptor stays open, and the failure is named. Calls
 * from the project's own objects go through the linker's --wrap. */
#include "snapshot.h"

#include <errno.h>

#if defined(__SANITIZE_ADDRESS__)
enum { STRIDE = 5 }; /* not every call: sanitized saves are ten times slower */
#else
enum { STRIDE = 1 };
#endif

/* ---- Calls that fail -------------------------------------------------------------------- */

#define CALL_LIST(X)                                                                               \
    X(openat) X(write) X(fsync) X(renameat) X(close) X(mkdirat) X(fallocate) X(unlinkat)
typedef enum call {
#define X(name) CALL_##name,
    CALL_LIST(X)
#undef X
        CALLS
} call;
static const char *const call_names[] = {
#define X(name) #name,
    CALL_LIST(X)
#undef X
};

static struct {
    call which;
    long left;  /* calls until the one that fails; < 0: none does */
    int reason; /* its errno */
    bool short_write;
} fault = {.left = -1};

static bool fails(call which)
{
    if (which != fault.which || fault.left < 0 || fault.left-- > 0)
        return false;
    errno = fault.reason;
    return true;
}

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails(CALL_openat) ? -1 : __real_openat(folder, path, flags, mode);
}

/* A disk that becomes full takes a part first. */
ssize_t __real_write(int fd, const void *data, size_t n);
ssize_t __wrap_write(int fd, const void *data, size_t n);
ssize_t __wrap_write(int fd, const void *data, size_t n)
{
    if (fault.short_write && fault.which == CALL_write && fault.left == 1 && n > 1) {
        fault.left = 0;
        return __real_write(fd, data, n / 2);
    }
    return fails(CALL_write) ? -1 : __real_write(fd, data, n);
}

/* The descriptor is gone, whatever close reports. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    const int result = __real_close(fd);
    return fails(CALL_close) ? -1 : result;
}

/* What reaches the disk is not looked at here, and waiting for it takes long. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    return fails(CALL_fsync) ? -1 : 0;
}

#define WRAP(name, params, args)                                                                   \
    int __real_##name params;                                                                      \
    int __wrap_##name params;                                                                      \
    int __wrap_##name params                                                                       \
    {                                                                                              \
        return fails(CALL_##name) ? -1 : __real_##name args;                                       \
    }
WRAP(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
WRAP(mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode))
WRAP(fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
WRAP(unlinkat, (int folder, const char *path, int flags), (folder, path, flags))

/* ---- What must hold ---------------------------------------------------------------------- */

static int open_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Whatever happened, what has a name is whole. */
static void assert_all_valid(const fixture *f)
{
    char names[1000], *rest = names;

    dt_progress at;

    names_in(f, "step-", names);
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        assert_ok(snapshot_load(folder_path(f->checkpoints, name), &f->s, &at));
}

/* Save step 2 beside step 1 with the n-th call failing; false when there is no n-th. */
static bool save_fails(fixture *f, call which, long n, int reason)
{
    char path[PATH_MAX], names[1000];
    const int descriptors = open_descriptors();
    const int metrics = open(folder_path(f->run, "metrics.jsonl"), O_RDWR | O_CREAT, 0644);

    snapshot_save(f, 1);
    snapshot_fill(f, 2);
    fault.which = which;
    fault.left = n;
    fault.reason = reason;
    const dt_status st = dt_checkpoint_save(&f->d, &f->s, metrics, path);
    const bool reached = fault.left < 0;
    fault.left = -1;
    close(metrics);
    assert_int_equal(open_descriptors(), descriptors);
    assert_string_equal(names_in(f, ".", names), "");
    assert_all_valid(f);
    if (reached && st != DT_OK) {
        assert_true(st == DT_IO || st == DT_CANTCREATE);
        assert_non_null(strstr(dt_fail_text(), strerror(reason)));
        assert_non_null(strstr(dt_fail_text(), f->run));
        assert_string_equal(path, "");
        dt_fail_clear();
    } else {
        assert_int_equal(st, DT_OK);
        assert_loads_step(f, path, 2);
    }
    assert_loads_step(f, folder_path(f->checkpoints, "step-0000000001"), 1);
    snapshot_save(f, 3); /* and the next save is as if nothing had been */
    assert_loads_step(f, folder_path(f->checkpoints, "step-0000000003"), 3);
    folder_remove(f->checkpoints);
    return reached;
}

static void every_call_of_a_save_may_fail(void **state)
{
    static const struct {
        call which;
        int reason;
        bool short_write;
        long stride; /* over n */
        long least;  /* calls of this kind in a save, by counting in the protocol */
    } cases[] = {
        {CALL_openat, EMFILE, false, 1, 7},    {CALL_openat, ENOSPC, false, 1, 7},
        {CALL_write, ENOSPC, false, 1, 90},    {CALL_write, EIO, true, 9, 90},
        {CALL_fsync, EIO, false, 1, 8},        {CALL_fsync, ENOSPC, false, 1, 8},
        {CALL_renameat, EIO, false, 1, 1},     {CALL_renameat, EACCES, false, 1, 1},
        {CALL_close, EIO, false, 1, 7},        {CALL_mkdirat, ENOSPC, false, 1, 1},
        {CALL_fallocate, ENOSPC, false, 1, 5},
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        long n = 0;
        fault.short_write = cases[i].short_write;
        while (save_fails(f, cases[i].which, n, cases[i].reason))
            n += cases[i].stride;
        fault.short_write = false;
        if (n < cases[i].least)
            fail_msg("a save makes only %ld calls of %s", n, call_names[cases[i].which]);
    }
}

/* A file system without fallocate is none that refuses. */
static void room_need_not_be_reserved(void **state)
{
    fixture *f = *state;
    for (long n = 0; n < 5; n++) {
        fault.which = CALL_fallocate;
        fault.left = n;
        fault.reason = EOPNOTSUPP;
        snapshot_save(f, n);
        assert_int_equal(fault.left, -1);
    }
    assert_all_valid(f);
}

/* The first save makes `checkpoints`; a failure there must leave the second one able to. */
static void the_first_save_may_fail(void **state)
{
    static const call kinds[] = {CALL_mkdirat, CALL_fsync, CALL_openat, CALL_renameat};
    fixture *f = *state;
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (long n = 0;; n += STRIDE) {
            snapshot_fill(f, 1);
            fault.which = kinds[i];
            fault.left = n;
            fault.reason = EIO;
            const dt_status st = dt_checkpoint_save(&f->d, &f->s, -1, path);
            const bool reached = fault.left < 0;
            fault.left = -1;
            dt_fail_clear();
            assert_true(reached || st == DT_OK);
            snapshot_save(f, 1);
            assert_loads_step(f, folder_path(f->checkpoints, "step-0000000001"), 1);
            folder_remove(f->checkpoints);
            if (!reached)
                break;
        }
}

static void every_call_of_a_pruning_may_fail(void **state)
{
    static const call kinds[] = {CALL_renameat, CALL_fsync, CALL_unlinkat, CALL_openat, CALL_close};
    static const dt_keep keep = {.last = 1};
    fixture *f = *state;
    char names[1000];

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        long n = 0;
        for (bool reached = true; reached; n += STRIDE) {
            for (int64_t k = 1; k <= 3; k++)
                snapshot_save(f, k);
            const int descriptors = open_descriptors();
            fault.which = kinds[i];
            fault.left = n;
            fault.reason = EIO;
            const dt_status st = dt_checkpoint_prune(&f->d, 3, &keep);
            reached = fault.left < 0;
            fault.left = -1;
            assert_true(st == DT_OK || st == DT_IO);
            dt_fail_clear();
            assert_int_equal(open_descriptors(), descriptors);
            assert_all_valid(f);
            assert_loads_step(f, folder_path(f->checkpoints, "step-0000000003"), 3);
            assert_ok(dt_checkpoint_prune(&f->d, 3, &keep));
            assert_string_equal(names_in(f, "", names), "step-0000000003");
            folder_remove(f->checkpoints);
        }
        assert_true(n > 1); /* at least one was reached */
    }
}

/* What the system fails to read may be whole: an older one is not taken for the newest. */
static void a_find_may_fail_at_every_call(void **state)
{
    fixture *f = *state;
    char found[PATH_MAX], text[4000];

    snapshot_save(f, 1);
    snapshot_save(f, 2);
    for (long n = 0;; n += STRIDE) {
        fault.which = CALL_openat;
        fault.left = n;
        fault.reason = EIO;
        const dt_status st = snapshot_find(f->run, found, text);
        const bool reached = fault.left < 0;
        fault.left = -1;
        assert_string_equal(text, "");
        if (reached) {
            assert_fails(st, DT_IO, f->run);
            assert_string_equal(found, "");
            continue;
        }
        assert_ok(st);
        assert_string_equal(found, folder_path(f->checkpoints, "step-0000000002"));
        break;
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, snapshot_make, snapshot_release)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_call_of_a_save_may_fail), TEST(room_need_not_be_reserved),
        TEST(the_first_save_may_fail),       TEST(every_call_of_a_pruning_may_fail),
        TEST(a_find_may_fail_at_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* train_apart.c - a node whose ranks cannot share memory: whatever fails, and on whichever rank,
 * no rank dies or waits; `auto` says so in one line and trains the same bits with messages, and
 * `shared` refuses. The calls to the kernel fail on purpose, through the linker's --wrap. */
#include "ranks.h"

#include "capture.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "train/run.h"

/* Which call fails, from how many on, on this rank; -1: none. */
enum { CALL_memfd_create, CALL_open, CALL_posix_fallocate, CALL_mmap, CALLS };
static int failing = -1, passes;

static bool fails(int call)
{
    return call == failing && passes-- <= 0;
}

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
    errno = EPERM;
    return fails(CALL_memfd_create) ? -1 : __real_memfd_create(name, flags);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list args;

    va_start(args, flags);
    const unsigned mode = va_arg(args, unsigned);
    va_end(args);
    if (strncmp(path, "/proc/", 6) == 0 && fails(CALL_open)) {
        errno = EACCES;
        return -1;
    }
    return __real_open(path, flags, mode);
}

int __real_posix_fallocate(int fd, off_t from, off_t bytes);
int __wrap_posix_fallocate(int fd, off_t from, off_t bytes);
int __wrap_posix_fallocate(int fd, off_t from, off_t bytes)
{
    static bool interrupted; /* first, as a signal would */

    interrupted = !interrupted;
    if (interrupted)
        return EINTR;
    return fails(CALL_posix_fallocate) ? ENOSPC : __real_posix_fallocate(fd, from, bytes);
}

void *__real_mmap(void *a, size_t n, int prot, int flags, int fd, off_t at);
void *__wrap_mmap(void *a, size_t n, int prot, int flags, int fd, off_t at);
void *__wrap_mmap(void *a, size_t n, int prot, int flags, int fd, off_t at)
{
    if ((flags & MAP_SHARED) && fails(CALL_mmap)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(a, n, prot, flags, fd, at);
}

static const char *const words[CALLS] = {
    "creating it: Operation not permitted", "finding it in /proc: Permission denied",
    "reserving it: No space left on device", "mapping it: Cannot allocate memory"};

static dt_status open_run(dt_run *r, const char *exchange)
{
    dt_options o;

    dt_options_init(&o);
    o.data = "synthetic:64";
    o.net = "vgg11";
    o.width_divisor = 16;
    o.shards = 8;
    o.batch = 4;
    o.precision = "fp32";
    o.exchange = exchange;
    o.threads = 1;
    return dt_run_open(r, comm, &o, DT_FOR_TRAINING);
}

/* The hash of two steps' weights; what is said on the way to c. */
static void train(const char *exchange, const char *takes, capture *c, int *lines,
                  char hash[DT_DIGEST_CHARS])
{
    dt_run r;
    dt_step_result result;
    dt_digest digest;

    capture_begin(c);
    const dt_status st = open_run(&r, exchange);
    *lines = capture_end(c);
    assert_ok(st);
    assert_string_equal(dt_exchange_name(r.exchange), takes);
    for (int64_t step = 0; step < 2; step++)
        assert_ok(dt_run_step(&r, 0, step, false, &result));
    const dt_weights s = dt_run_weights(&r);
    assert_ok(dt_state_hash(&s, r.momentum.mem, 0, 0, &digest));
    dt_digest_text(digest, hash);
    dt_run_close(&r);
}

/* `call` fails on this rank, if it is `rank`, after `before` calls. */
static void arm(int call, int rank, int before)
{
    failing = dt_comm_rank(comm) == rank ? call : -1;
    passes = before;
}

/* The first block is the data set's, the second the weights'. */
static void auto_sends_messages(void **state)
{
    (void)state;
    const int last = dt_comm_world(comm) - 1;
    char want[DT_DIGEST_CHARS], hash[DT_DIGEST_CHARS];
    capture c;
    int lines;

    train("auto", "shared", &c, &lines, want);
    assert_int_equal(lines, 0);
    for (int call = 0; call < CALLS && last > 0; call++)
        for (int before = 0; before < 2; before++) {
            arm(call, call == CALL_memfd_create ? 0 : last, before);
            train("auto", "tree", &c, &lines, hash);
            arm(-1, 0, 0);
            assert_string_equal(hash, want);
            const int wanted = before == 0 ? 2 : 1; /* the data set's, the weights' */
            assert_int_equal(lines, dt_comm_rank(comm) == 0 ? wanted : 0);
            if (lines == 0)
                continue;
            assert_non_null(strstr(c.text, words[call]));
            assert_non_null(strstr(c.text, "exchange shared: "));
            assert_int_equal(strstr(c.text, "the data set: ") != NULL, before == 0);
        }
}

static void shared_refuses(void **state)
{
    (void)state;
    dt_run r;
    capture c;

    if (dt_comm_world(comm) == 1)
        return;
    arm(CALL_posix_fallocate, dt_comm_world(comm) - 1, 1);
    capture_begin(&c);
    const dt_status st = open_run(&r, "shared");
    const int lines = capture_end(&c);
    arm(-1, 0, 0);
    assert_int_equal(st, DT_UNSUPPORTED);
    assert_int_equal(lines, dt_comm_rank(comm) == 0);
    if (lines)
        assert_non_null(
            strstr(c.text, "MB of memory cannot be shared by a node's ranks (reserving it"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_sends_messages),
        cmocka_unit_test(shared_refuses),
    };
    ranks_open(argc, argv);
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

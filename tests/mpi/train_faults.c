/* train_faults.c - one rank runs out of memory, at any one of its requests: all ranks hear of it
 * and come back with the same status, rank 0 has said it once, and none waits. And a node whose
 * ranks cannot share memory, whatever fails and on whichever rank. Calls of dtrain's own objects
 * are counted and refused through the linker's --wrap. */
#include "ranks.h"

#include "capture.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "check/check.h"
#include "small_run.h"

static long requests, refused = -1; /* of this rank in this trial; which one, from 0 */

static bool refuse(void)
{
    errno = ENOMEM;
    return requests++ == refused;
}

#define WRAP(type, no, name, params, args)                                                         \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        return refuse() ? no : __real_##name args;                                                 \
    }
WRAP(void *, NULL, malloc, (size_t n), (n))
WRAP(void *, NULL, calloc, (size_t n, size_t m), (n, m))
WRAP(void *, NULL, realloc, (void *p, size_t n), (p, n))
WRAP(void *, NULL, aligned_alloc, (size_t a, size_t n), (a, n))
WRAP(int, ENOMEM, posix_memalign, (void **p, size_t a, size_t n), (p, a, n))

/* Which call fails from which on, on this rank, where a node's memory is shared; -1: none. */
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

static off_t reserved; /* bytes that this rank has reserved */
int __real_posix_fallocate(int fd, off_t from, off_t bytes);
int __wrap_posix_fallocate(int fd, off_t from, off_t bytes);
int __wrap_posix_fallocate(int fd, off_t from, off_t bytes)
{
    static bool interrupted; /* first, as a signal would */

    interrupted = !interrupted;
    if (interrupted)
        return EINTR;
    reserved += bytes;
    return refuse() || fails(CALL_posix_fallocate) ? ENOSPC
                                                   : __real_posix_fallocate(fd, from, bytes);
}

void *__real_mmap(void *a, size_t n, int prot, int flags, int fd, off_t at);
void *__wrap_mmap(void *a, size_t n, int prot, int flags, int fd, off_t at);
void *__wrap_mmap(void *a, size_t n, int prot, int flags, int fd, off_t at)
{
    const bool no = refuse() || ((flags & MAP_SHARED) && fails(CALL_mmap));

    errno = ENOMEM;
    return no ? MAP_FAILED : __real_mmap(a, n, prot, flags, fd, at);
}

/* Ranks other than 0 say nothing on stdout. */
#define fail_alone(...)                                                                            \
    do {                                                                                           \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fail();                                                                                    \
    } while (0)

static void too_long(int signal)
{
    static const char text[] = "a rank waits for one that failed\n";

    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

static dt_options options(void)
{
    dt_options o = small_run("vgg11");

    o.width_divisor = 32;
    o.bn = "group:3";
    return o;
}

static dt_run run; /* open while "test" is tried */

static dt_status open_and_close(void)
{
    const dt_options o = options();
    dt_run r;

    DT_TRY(dt_run_open(&r, comm, &o, DT_FOR_TRAINING));
    dt_run_close(&r);
    return DT_OK;
}

static dt_status test(void)
{
    dt_test_result result;
    return dt_run_test(&run, NULL, &result);
}

static dt_status first(void)
{
    dt_comm *part = NULL;

    DT_TRY(dt_comm_split(&part, comm, comm->rank == 0 ? 0 : -1));
    dt_comm_close(part);
    return DT_OK;
}

/* Whether `rank` has so many requests; if so, what came of refusing that one. */
static bool try_one(dt_status (*work)(void), int rank, long which)
{
    const bool fails = comm->rank == rank;
    capture c;

    requests = 0;
    refused = fails ? which : -1;
    alarm(60);
    capture_begin(&c);
    const dt_status st = work();
    const int lines = capture_end(&c);
    alarm(0);
    int64_t range[3] = {st, -(int64_t)st, fails && requests > which};
    refused = -1;
    if (dt_fail_text()[0])
        fail_alone("request %ld of rank %d: not agreed: %s", which, rank, dt_fail_text());
    assert_ok(dt_comm_max_i64(comm, range, 3));
    if (range[0] != -range[1])
        fail_alone("request %ld of rank %d: status %d here\n", which, rank, (int)st);
    if (st != DT_OK && comm->rank == 0 && lines != 1)
        fail_alone("request %ld of rank %d: %d lines: %s", which, rank, lines, c.text);
    if (st != DT_OK && !range[2])
        fail_alone("request %ld of rank %d: status %d: %s\n", which, rank, (int)st, c.text);
    return range[2] != 0;
}

static void every_request(dt_status (*work)(void), long least)
{
    const int last = comm->world - 1;
#if defined(__SANITIZE_ADDRESS__)
    const long few = 61; /* each opens a run */
#else
    const long few = last == 1 ? 2 : 11; /* all of them would take minutes */
#endif
    long which = 0;

    while (try_one(work, last, which))
        which += few;
    assert_true(which >= least);
    for (long at = 0; last > 0 && at < which; at += 5 * few)
        try_one(work, 0, at);
}

static void opening(void **state)
{
    (void)state;
    every_request(open_and_close, 50);
}

static void testing(void **state)
{
    (void)state;
    const dt_options o = options();

    assert_ok(dt_run_open(&run, comm, &o, DT_FOR_TRAINING));
    every_request(test, 2);
    dt_run_close(&run);
}

static void first_ranks(void **state)
{
    (void)state;
    every_request(first, 2);
}

/* What a node's ranks share they reserve, a part each, before anybody uses it: a store that finds
 * no page would be a SIGBUS. */
static void sharing_reserves(void **state)
{
    (void)state;
    const dt_options o = options();

    reserved = 0;
    assert_ok(dt_run_open(&run, comm, &o, DT_FOR_TRAINING));
    int64_t all = (int64_t)reserved;
    assert_ok(dt_comm_sum_i64(comm, &all, 1));
    const dt_slab *const slab[] = {&run.domain[0].master, &run.domain[0].momentum, &run.running};
    int64_t shared = 0;
    for (size_t i = 0; comm->world > 1 && i < sizeof slab / sizeof *slab; i++)
        shared += (int64_t)slab[i]->bytes;
    assert_true(all >= shared);
    assert_true(comm->world == 1 || shared > 0);
    dt_run_close(&run);
}

/* ---- A node whose ranks cannot share memory -------------------------------------------------- */

static const char *const words[CALLS] = {
    "creating it: Operation not permitted", "finding it in /proc: Permission denied",
    "reserving it: No space left on device", "mapping it: Cannot allocate memory"};

/* `call` fails on this rank, if it is `rank`, after `before` calls. */
static void arm(int call, int rank, int before)
{
    failing = comm->rank == rank ? call : -1;
    passes = before;
}

static dt_status open_run(dt_run *r, capture *c, int *lines)
{
    const dt_options o = small_run("vgg11");

    capture_begin(c);
    const dt_status st = dt_run_open(r, comm, &o, DT_FOR_TRAINING);
    *lines = capture_end(c);
    return st;
}

/* The first block is the data set's, the second the weights'. Ranks that are nodes of their own
 * share nothing. */
static void all_end_with_one_line(void **state)
{
    (void)state;
    const int world = comm->world, last = world - 1;
    capture c;
    dt_run r;
    int lines;

    for (int call = 0; call < CALLS && last > 0; call++)
        for (int before = 0; before < 2; before++) {
            arm(call, call == CALL_memfd_create ? 0 : last, before);
            assert_int_equal(open_run(&r, &c, &lines), DT_NOMEM);
            assert_int_equal(lines, comm->rank == 0);
            if (lines == 0)
                continue;
            assert_non_null(strstr(c.text, words[call]));
            assert_non_null(strstr(c.text, "MB of memory cannot be shared by a node's ranks"));
            assert_non_null(strstr(c.text, "DT_SPLIT_NODES=N"));
        }
    assert_ok(dt_comm_split_nodes(comm, world));
    arm(CALL_memfd_create, 0, 0);
    assert_ok(open_run(&r, &c, &lines));
    assert_int_equal(lines, 0);
    assert_string_equal(dt_exchange_name(dt_run_exchange(&r)), world == 1 ? "shared" : "tree");
    dt_run_close(&r);
    arm(-1, 0, 0);
    assert_ok(dt_comm_split_nodes(comm, 1));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_ranks),
        cmocka_unit_test(testing),
        cmocka_unit_test(opening),
        cmocka_unit_test(sharing_reserves),
        cmocka_unit_test(all_end_with_one_line),
    };
    signal(SIGALRM, too_long);
    ranks_open(argc, argv);
    dt_extra_check();
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}

/* base_memory.c - slabs, checked calloc, and what memory is left. */
#include "test.h"
#include <sys/resource.h>
#include <sys/sysinfo.h>

TEST(slab_is_aligned_and_zeroed)
{
    static const size_t sizes[] = {0, 1, 4096, (2 << 20) - 1, 2 << 20, (5 << 20) + 3};
    for (size_t i = 0; i < DT_COUNT_OF(sizes); i++) {
        dt_slab s;
        assert_ok(dt_slab_create(&s, sizes[i], "a test"));
        assert_int_equal((uintptr_t)s.mem % (2 << 20), 0);
        assert_int_equal(s.bytes, sizes[i]);
        unsigned char *p = s.mem;
        unsigned any = 0;
        for (size_t b = 0; b < sizes[i]; b++)
            any |= p[b];
        assert_int_equal(any, 0);
        for (size_t b = 0; b < sizes[i]; b++) /* every byte is writable */
            p[b] = 0xa5;
        dt_slab_destroy(&s);
        assert_null(s.mem);
        assert_null(s.map);
        dt_slab_destroy(&s);
    }
}

TEST(impossible_slab_is_refused)
{
    /* More than the address space holds, and more than a size can add to. */
    static const size_t sizes[] = {(size_t)1 << 60, SIZE_MAX, SIZE_MAX - 4096, PTRDIFF_MAX};
    for (size_t i = 0; i < DT_COUNT_OF(sizes); i++) {
        dt_slab s = {.bytes = 7};
        assert_fails(dt_slab_create(&s, sizes[i], "activations"), DT_NOMEM,
                     "for activations: Cannot allocate");
        assert_int_equal(s.bytes, 7);
    }
}

TEST(calloc_zeroes_and_refuses)
{
    double *x = NULL;
    assert_ok(dt_calloc(&x, 1000, sizeof *x, "numbers"));
    for (size_t i = 0; i < 1000; i++)
        assert_true(x[i] == 0);
    free(x);

    x = NULL;
    assert_ok(dt_calloc(&x, 0, sizeof *x, "nothing"));
    assert_non_null(x);
    free(x);

    double here = 1;
    x = &here;
    /* The product wraps round to 0 in size_t. */
    assert_fails(dt_calloc(&x, (size_t)1 << 61, sizeof *x, "numbers"), DT_NOMEM, "for numbers");
    assert_ptr_equal(x, &here);
}

TEST(available_is_within_the_machine)
{
    struct sysinfo info;
    assert_int_equal(sysinfo(&info), 0);
    const uint64_t total = (uint64_t)info.totalram * info.mem_unit;
    const uint64_t left = dt_memory_available();
    assert_true(left > 1 << 20); /* this test itself needs as much */
    assert_true(left <= total);
}

TEST(limits_count)
{
    static const struct {
        int resource;
        rlim_t lowest; /* at which this test still runs */
        const char *option;
    } rows[] = {{RLIMIT_NOFILE, 32, "ulimit -n"}, {RLIMIT_STACK, 512 << 10, "ulimit -s"}};
    struct rlimit before, limit;

    assert_ok(dt_memory_check_limits());
    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        const __rlimit_resource_t resource = (__rlimit_resource_t)rows[i].resource;
        assert_int_equal(getrlimit(resource, &before), 0);
        limit = before;
        limit.rlim_cur = rows[i].lowest;
        assert_int_equal(setrlimit(resource, &limit), 0);
        assert_fails(dt_memory_check_limits(), DT_NOMEM, rows[i].option);
        assert_int_equal(setrlimit(resource, &before), 0);
    }
#ifndef __SANITIZE_ADDRESS__ /* whose shadow memory counts as data */
    const uint64_t calm = dt_memory_available();
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    limit = before;
    limit.rlim_cur = 64 << 20;
    assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
    const uint64_t little = dt_memory_available();
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
    assert_true(little <= 64 << 20 && calm > little);
#endif
}

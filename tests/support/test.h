/* test.h - what every cmocka file includes, in the order that cmocka wants. */
#ifndef DT_TEST_H
#define DT_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"

/* TEST(name) { ... } is a test, which tests_run runs, in the order of the file; TEST_WITH runs
 * `before` and `after` around it. All three are given cmocka's `state`. */
#define TEST(name) TEST_WITH(NULL, NULL, name)
#define TEST_WITH(before, after, name)                                                             \
    static void name(void **state);                                                                \
    __attribute__((constructor(1000 + __LINE__))) static void name##_listed(void)                  \
    {                                                                                              \
        test_add((struct CMUnitTest){#name, name, before, after, NULL});                           \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)

/* What runs before or after a test, or all of them: 0. */
#define FIXTURE(name) static inline int name(__attribute__((unused)) void **state)

/* A test of a `fixture *f`, which `before` leaves in `*state`. */
#define TEST_OF_FIXTURE(before, after, name)                                                       \
    static void name##_of(fixture *f);                                                             \
    TEST_WITH(before, after, name)                                                                 \
    {                                                                                              \
        name##_of(*state);                                                                         \
    }                                                                                              \
    static void name##_of(fixture *f)

/* What they come to: test.c has the list, and a main for files without one of their own. tests_run
 * runs them between `before` and `after`, which may be NULL, and returns how many have failed. */
void test_add(struct CMUnitTest test);
int tests_run(CMFixtureFunction before, CMFixtureFunction after);

/* A call that must succeed; the recorded cause is printed when it does not. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != DT_OK)                                                                       \
            fail_msg("%s: %s", #call, dt_fail_text());                                             \
    } while (0)

/* Where a file of that path goes. */
static inline dt_target path_target(const char *path)
{
    return (dt_target){.folder = AT_FDCWD, .name = path, .shown = path};
}

/* Say that something is left out, or leave the whole test out; the runner collects the
 * line, tests/skips.txt has what is allowed. */
#define test_skips(...)                                                                            \
    do {                                                                                           \
        print_message("SKIPPED: " __VA_ARGS__);                                                    \
        print_message("\n");                                                                       \
    } while (0)
#define test_skip(...)                                                                             \
    do {                                                                                           \
        test_skips(__VA_ARGS__);                                                                   \
        skip();                                                                                    \
    } while (0)

/* bf16 from here on, on any CPU: with the bits of AMX where it has no instructions for it. */
static inline void test_bf16(void)
{
    if (dt_isa_current() < DT_ISA_AVX512_BF16)
        assert_ok(dt_isa_promise(DT_ISA_AMX));
}

/* A call that must fail with this status and a message that holds `part`. */
#define assert_fails(call, status, part)                                                           \
    do {                                                                                           \
        assert_int_equal((call), (status));                                                        \
        if (!strstr(dt_fail_text(), (part)))                                                       \
            fail_msg("message '%s' does not hold '%s'", dt_fail_text(), (part));                   \
        dt_fail_clear();                                                                           \
    } while (0)
#endif

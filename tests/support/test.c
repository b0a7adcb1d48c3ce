/* test.c - the tests of the file that this is linked with, and a main that runs them. */
#include "test.h"

static struct CMUnitTest listed[40];
static size_t count;

void test_add(struct CMUnitTest test)
{
    if (count == DT_COUNT_OF(listed))
        abort();
    listed[count++] = test;
}

int tests_run(CMFixtureFunction before, CMFixtureFunction after)
{
    if (count == 0)
        return 1;
    return _cmocka_run_group_tests("tests", listed, count, before, after);
}

/* Of a file that has no other. */
__attribute__((weak)) int main(void)
{
    return tests_run(NULL, NULL);
}

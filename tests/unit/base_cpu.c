/* base_cpu.c - instruction sets against the kernel's list of flags, their limits, and the machine's
 * name and cores against the C library's. */
#include "test.h"
#include <omp.h>
#include <sys/utsname.h>

/* The value of a line "name : value" of /proc/cpuinfo with a space at both ends, "" when there is
 * none. */
static void cpuinfo(const char *name, char *value, size_t size)
{
    static char line[16384];
    FILE *f = fopen("/proc/cpuinfo", "r");
    assert_non_null(f);
    value[0] = '\0';
    while (value[0] == '\0' && fgets(line, sizeof line, f)) {
        const char *colon = strstr(line, ": ");
        if (colon && strncmp(line, name, strlen(name)) == 0)
            snprintf(value, size, "%.*s ", (int)strcspn(colon + 1, "\n"), colon + 1);
    }
    fclose(f);
}

/* The kernel leaves out flags whose registers it does not save. */
static dt_isa isa_by_flags(void)
{
    static const char *const wanted[DT_ISA_COUNT][5] = {
#if defined(__aarch64__)
        [DT_ISA_NEON] = {" asimd "},
#endif
        [DT_ISA_AVX2] = {" avx2 ", " fma "},
        [DT_ISA_AVX512] = {" avx512f ", " avx512bw ", " avx512vl ", " avx512dq "},
        [DT_ISA_AVX512_BF16] = {" avx512_bf16 "},
        [DT_ISA_AMX] = {" amx_tile ", " amx_bf16 "},
    };
    static char flags[16384];

#if defined(__aarch64__)
    cpuinfo("Features", flags, sizeof flags);
#else
    cpuinfo("flags", flags, sizeof flags);
#endif
    if (flags[0] == '\0') /* an emulator may show another CPU's file */
        return DT_ISA_COUNT;
    for (int isa = DT_ISA_PORTABLE + 1; isa < DT_ISA_COUNT; isa++)
        for (int i = 0; wanted[isa][i]; i++)
            if (!strstr(flags, wanted[isa][i]))
                return (dt_isa)(isa - 1);
    return DT_ISA_AMX;
}

FIXTURE(forget_limits)
{
    dt_isa_limit(DT_ISA_AMX);
    return unsetenv("DT_MAX_ISA");
}

TEST_WITH(forget_limits, NULL, isa_is_what_the_kernel_lists)
{
    const dt_isa listed = isa_by_flags(), found = dt_isa_current();
    if (listed == DT_ISA_COUNT) {
        test_skips("flags: /proc/cpuinfo has none");
        return;
    }
    /* A sandbox may refuse the permission for the tiles that the CPU has. */
    if (listed == DT_ISA_AMX)
        assert_in_range(found, DT_ISA_AVX512_BF16, DT_ISA_AMX);
    else
        assert_int_equal(found, listed);
}

TEST(isa_names_are_parsed)
{
    dt_isa isa = DT_ISA_COUNT;
    for (int i = 0; i < DT_ISA_COUNT; i++) {
        assert_true(dt_isa_parse(dt_isa_name((dt_isa)i), &isa));
        assert_int_equal(isa, i);
    }
    assert_true(dt_isa_parse("avx512_bf16", &isa));
    assert_int_equal(isa, DT_ISA_AVX512_BF16);
    static const char *const wrong[] = {"", "avx", "AVX2", "avx5120", "amx "};
    for (size_t i = 0; i < DT_COUNT_OF(wrong); i++)
        assert_false(dt_isa_parse(wrong[i], &isa));
    assert_int_equal(isa, DT_ISA_AVX512_BF16);
}

TEST_WITH(forget_limits, NULL, limit_lowers_and_never_raises)
{
    const int best = (int)dt_isa_current();
    for (int i = DT_ISA_COUNT - 1; i >= 0; i--) {
        dt_isa_limit((dt_isa)i);
        assert_int_equal(dt_isa_current(), DT_MIN(i, best));
    }
}

TEST_WITH(forget_limits, NULL, environment_limits)
{
    static const struct {
        const char *value;
        dt_isa isa;
    } known[] = {
        {"portable", DT_ISA_PORTABLE}, {"avx2", DT_ISA_AVX2},
        {"avx512", DT_ISA_AVX512},     {"avx512_bf16", DT_ISA_AVX512_BF16},
        {"amx", DT_ISA_AMX},           {"", DT_ISA_AMX},
        {"nonsense", DT_ISA_AMX},
    };
    const int best = (int)dt_isa_current();
    for (size_t i = 0; i < DT_COUNT_OF(known); i++) {
        assert_int_equal(setenv("DT_MAX_ISA", known[i].value, 1), 0);
        assert_int_equal(dt_isa_current(), DT_MIN((int)known[i].isa, best));
    }
    /* The lower of the two limits holds. */
    assert_int_equal(setenv("DT_MAX_ISA", "avx512", 1), 0);
    dt_isa_limit(DT_ISA_AVX2);
    assert_int_equal(dt_isa_current(), DT_MIN((int)DT_ISA_AVX2, best));
    dt_isa_limit(DT_ISA_AMX);
    assert_int_equal(dt_isa_current(), DT_MIN((int)DT_ISA_AVX512, best));
}

TEST_WITH(forget_limits, NULL, what_is_imagined_passes_for_the_best)
{
    const dt_isa best = dt_isa_current();
#if defined(__x86_64__)
    for (int i = 0; i < DT_ISA_COUNT; i++) {
        dt_isa_imagine((dt_isa)i);
        assert_int_equal(dt_isa_current(), i);
    }
    assert_int_equal(setenv("DT_MAX_ISA", "avx2", 1), 0); /* which the variable limits */
    assert_int_equal(dt_isa_current(), DT_ISA_AVX2);
    dt_isa_imagine(best);
#else
    dt_isa_imagine(DT_ISA_AMX); /* whose kernels are not here */
    assert_int_equal(dt_isa_current(), best);
#endif
}

TEST(machine_agrees_with_the_library)
{
    struct utsname name;
    char host[DT_HOST_CHARS];
    int cores;
    assert_in_range(dt_cores(&cores), 1, sysconf(_SC_NPROCESSORS_CONF));
    dt_host_name(host);
    assert_int_equal(uname(&name), 0);
    assert_string_equal(host, name.nodename);
    assert_in_range(cores, 1, sysconf(_SC_NPROCESSORS_CONF));
}

TEST(affinity_lowers_the_allowed_cores_only)
{
    cpu_set_t all, one;
    int before, after;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    const int allowed = dt_cores(&before);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int left = dt_cores(&after);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    /* clang's OpenMP has places from the start of a process on, which stay. */
    assert_int_equal(left, omp_get_num_places() > 0 ? allowed : 1);
    assert_int_equal(after, before);
    assert_true(allowed <= CPU_COUNT(&all));
}

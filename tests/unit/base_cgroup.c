/* base_cgroup.c - limits of control groups, read from made-up /proc and /sys trees. */
#include "base/cgroup.h"
#include "test.h"
#include <ftw.h>
#include <sys/stat.h>

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/dtrain-cgroup-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* root/path with this content, its folders made. */
static void put(const char *path, const char *content)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    assert_ok(dt_parents_make(full));
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    assert_true(fputs(content, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void nothing_known_is_no_limit(void **state)
{
    (void)state;
    assert_true(dt_cgroup_memory_left(root) == UINT64_MAX);
    assert_int_equal(dt_cgroup_cpus(root), 0);
    put("proc/self/cgroup", "0::/a\n");
    put("sys/fs/cgroup/a/memory.max", "max\n");
    put("sys/fs/cgroup/a/memory.current", "5\n");
    put("sys/fs/cgroup/a/cpu.max", "max 100000\n");
    assert_true(dt_cgroup_memory_left(root) == UINT64_MAX);
    assert_int_equal(dt_cgroup_cpus(root), 0);
}

static void version_2_takes_the_least_of_all_levels(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/memory.max", "1000000\n");
    put("sys/fs/cgroup/a/memory.current", "600000\n");
    put("sys/fs/cgroup/a/memory.stat", "anon 1\nactive_file 7\ninactive_file 100000\n");
    put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    put("sys/fs/cgroup/a/b/memory.current", "5\n");
    put("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
    assert_int_equal(dt_cgroup_memory_left(root), 500000);
    assert_int_equal(dt_cgroup_cpus(root), 2);

    put("sys/fs/cgroup/a/b/memory.max", "300000\n");
    put("sys/fs/cgroup/a/b/memory.current", "290000\n");
    assert_int_equal(dt_cgroup_memory_left(root), 10000);
    put("sys/fs/cgroup/a/b/memory.current", "310000\n");
    assert_int_equal(dt_cgroup_memory_left(root), 0);
    put("sys/fs/cgroup/a/b/cpu.max", "100000 100000\n");
    assert_int_equal(dt_cgroup_cpus(root), 1);
    put("sys/fs/cgroup/a/b/cpu.max", "1000 100000\n");
    assert_int_equal(dt_cgroup_cpus(root), 1);
}

static void version_1_has_other_names(void **state)
{
    (void)state;
    put("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/x/y\n2:cpuset:/\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "4096\n");
    put("sys/fs/cgroup/memory/x/y/memory.limit_in_bytes", "8000\n");
    put("sys/fs/cgroup/memory/x/y/memory.usage_in_bytes", "5000\n");
    put("sys/fs/cgroup/memory/x/y/memory.stat", "inactive_file 1\ntotal_inactive_file 2000\n");
    put("sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "1\n"); /* of another controller: not looked at */
    put("sys/fs/cgroup/cpuset/cpu.cfs_period_us", "1\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(dt_cgroup_memory_left(root), 5000);
    assert_int_equal(dt_cgroup_cpus(root), 0);
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "250000\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(dt_cgroup_cpus(root), 3);
}

/* A container mounts only its own group, but reads the group's name on the host. */
static void container_sees_its_group_at_the_mount(void **state)
{
    (void)state;
    put("sys/fs/cgroup/memory.max", "700\n");
    put("sys/fs/cgroup/memory.current", "300\n");
    put("proc/self/cgroup", "0::/docker/1f\n");
    assert_int_equal(dt_cgroup_memory_left(root), 400);
    put("proc/self/cgroup", "0::/\n");
    assert_int_equal(dt_cgroup_memory_left(root), 400);
}

int main(void)
{
#define IN_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        IN_ROOT(nothing_known_is_no_limit),
        IN_ROOT(version_2_takes_the_least_of_all_levels),
        IN_ROOT(version_1_has_other_names),
        IN_ROOT(container_sees_its_group_at_the_mount),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* base_cgroup.c - limits of control groups, read from made-up /proc and /sys trees. */
#include "base/cgroup.h"
#include "folder.h"

/* here/path with this content, its folders made. */
static void put(const char *path, const char *content)
{
    assert_ok(dt_parents_make(folder_path(here, path)));
    folder_write(here, path, content, strlen(content));
}

#define SYS "sys/fs/cgroup/"
#define NONE UINT64_MAX

/* In order: "" as path begins with an empty tree; after each line these limits are read. */
static const struct {
    const char *path, *content;
    uint64_t left;
    int cpus; /* 0: no limit */
} lines[] = {
    /* nothing known is no limit */
    {"", "", NONE, 0},
    {"proc/self/cgroup", "0::/a\n", NONE, 0},
    {SYS "a/memory.max", "max\n", NONE, 0},
    {SYS "a/memory.current", "5\n", NONE, 0},
    {SYS "a/cpu.max", "max 100000\n", NONE, 0},
    /* version 2 takes the least of all levels */
    {"", "", NONE, 0},
    {"proc/self/cgroup", "0::/a/b\n", NONE, 0},
    {SYS "a/memory.max", "1000000\n", NONE, 0},
    {SYS "a/memory.current", "600000\n", 400000, 0},
    {SYS "a/memory.stat", "anon 1\nactive_file 7\ninactive_file 100000\n", 500000, 0},
    {SYS "a/cpu.max", "150000 100000\n", 500000, 2},
    {SYS "a/b/memory.max", "max\n", 500000, 2},
    {SYS "a/b/memory.current", "5\n", 500000, 2},
    {SYS "a/b/cpu.max", "400000 100000\n", 500000, 2},
    {SYS "a/b/memory.current", "290000\n", 500000, 2},
    {SYS "a/b/memory.max", "300000\n", 10000, 2},
    {SYS "a/b/memory.current", "310000\n", 0, 2},
    {SYS "a/b/cpu.max", "100000 100000\n", 0, 1},
    {SYS "a/b/cpu.max", "1000 100000\n", 0, 1},
    /* version 1 has other names; limits of another controller are not looked at */
    {"", "", NONE, 0},
    {"proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/x/y\n2:cpuset:/\n0::/\n", NONE, 0},
    {SYS "memory/memory.limit_in_bytes", "9223372036854771712\n", NONE, 0},
    {SYS "memory/memory.usage_in_bytes", "4096\n", 9223372036854767616, 0},
    {SYS "memory/x/y/memory.limit_in_bytes", "8000\n", 9223372036854767616, 0},
    {SYS "memory/x/y/memory.usage_in_bytes", "5000\n", 3000, 0},
    {SYS "memory/x/y/memory.stat", "inactive_file 1\ntotal_inactive_file 2000\n", 5000, 0},
    {SYS "cpuset/cpu.cfs_quota_us", "1\n", 5000, 0},
    {SYS "cpuset/cpu.cfs_period_us", "1\n", 5000, 0},
    {SYS "cpu/cpu.cfs_quota_us", "-1\n", 5000, 0},
    {SYS "cpu/cpu.cfs_period_us", "100000\n", 5000, 0},
    {SYS "cpu/x/cpu.cfs_quota_us", "250000\n", 5000, 0},
    {SYS "cpu/x/cpu.cfs_period_us", "100000\n", 5000, 3},
    /* a container mounts only its own group, but reads the group's name on the host */
    {"", "", NONE, 0},
    {SYS "memory.max", "700\n", NONE, 0},
    {SYS "memory.current", "300\n", NONE, 0},
    {"proc/self/cgroup", "0::/docker/1f\n", 400, 0},
    {"proc/self/cgroup", "0::/\n", 400, 0},
};

FOLDER_TEST(limits_are_the_least_that_hold)
{
    for (size_t i = 0; i < DT_COUNT_OF(lines); i++) {
        if (lines[i].path[0]) {
            put(lines[i].path, lines[i].content);
        } else {
            folder_leave(state);
            folder_enter(state);
        }
        const dt_cgroup least = dt_cgroup_limits(here);
        assert_int_equal(least.memory_left, lines[i].left);
        assert_int_equal(least.cpus, lines[i].cpus);
    }
}

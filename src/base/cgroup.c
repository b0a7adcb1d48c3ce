/* cgroup.c - finds the groups of this process and reads their limits: cgroups(7),
 * Documentation/admin-guide/cgroup-v2.rst and cgroup-v1 of the kernel. */
#include "cgroup.h"
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Called for one directory of a group; v2: it belongs to version 2. */
typedef void cgroup_visit(const char *dir, bool v2, void *arg);

static FILE *cgroup_open(const char *dir, const char *name)
{
    char path[3 * PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "r") : NULL;
}

/* The one or two numbers after `key` in dir/name ("" for the first line); how many
 * there are: 0 without the file, without the key, and for the word "max". */
static int cgroup_numbers(const char *dir, const char *name, const char *key, long long v[2])
{
    FILE *f = cgroup_open(dir, name);
    if (!f)
        return 0;
    const size_t skip = strlen(key);
    char line[256];
    int count = 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, skip) == 0 && (skip == 0 || line[skip] == ' ')) {
            count = sscanf(line + skip, "%lld %lld", &v[0], &v[1]);
            break;
        }
    fclose(f);
    return count > 0 ? count : 0;
}

/* Visits the group's directory and all above it up to the mount point, where systemd and
 * containers mount. A container that sees the group's name on the host has its own limits at the
 * mount point, and no directory of that name. */
static void cgroup_climb(const char *root, const char *controller, const char *group,
                         cgroup_visit *visit, void *arg)
{
    const bool v2 = !controller[0];
    char dir[2 * PATH_MAX];
    const int top =
        snprintf(dir, sizeof dir, "%s/sys/fs/cgroup%s%s", root, v2 ? "" : "/", controller);
    const int all = snprintf(dir + top, sizeof dir - (size_t)top, "%s", group);

    if ((size_t)(top + all) >= sizeof dir)
        return;
    for (;;) {
        visit(dir, v2, arg);
        char *slash = strrchr(dir + top, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* Lines of /proc/self/cgroup: id:controllers:group; version 2 names no controller. */
static void cgroup_walk(const char *root, const char *controller, cgroup_visit *visit, void *arg)
{
    FILE *f = cgroup_open(root, "proc/self/cgroup");
    char line[PATH_MAX], comma[64], list[PATH_MAX];

    if (!f)
        return;
    snprintf(comma, sizeof comma, ",%s,", controller);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(++controllers, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        snprintf(list, sizeof list, ",%.*s,", PATH_MAX - 8, controllers);
        if (!controllers[0])
            cgroup_climb(root, "", group, visit, arg);
        else if (strstr(list, comma))
            cgroup_climb(root, controller, group, visit, arg);
    }
    fclose(f);
}
/* The files of both versions hold the same three numbers under other names. */
static const struct {
    const char *limit, *usage, *cache_key;
} memory_files[2] = {
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
    {"memory.max", "memory.current", "inactive_file"},
};

static void cgroup_memory_visit(const char *dir, bool v2, void *arg)
{
    uint64_t *least = arg;
    long long limit[2], usage[2], cache[2];
    if (cgroup_numbers(dir, memory_files[v2].limit, "", limit) < 1 ||
        cgroup_numbers(dir, memory_files[v2].usage, "", usage) < 1)
        return;
    if (cgroup_numbers(dir, "memory.stat", memory_files[v2].cache_key, cache) < 1)
        cache[0] = 0;
    const long long taken = usage[0] > cache[0] ? usage[0] - cache[0] : 0;
    const uint64_t left = limit[0] > taken ? (uint64_t)(limit[0] - taken) : 0;
    if (left < *least)
        *least = left;
}

static void cgroup_cpu_visit(const char *dir, bool v2, void *arg)
{
    int *least = arg;
    long long quota[2], period[2]; /* microseconds; version 1: quota -1 is no limit */
    if (v2) {
        if (cgroup_numbers(dir, "cpu.max", "", quota) < 2)
            return;
        period[0] = quota[1];
    } else if (cgroup_numbers(dir, "cpu.cfs_quota_us", "", quota) < 1 ||
               cgroup_numbers(dir, "cpu.cfs_period_us", "", period) < 1) {
        return;
    }
    if (quota[0] <= 0 || period[0] <= 0)
        return;
    const long long cpus = (quota[0] - 1) / period[0] + 1;
    if (cpus <= INT_MAX && (*least == 0 || cpus < *least))
        *least = (int)cpus;
}

uint64_t dt_cgroup_memory_left(const char *root)
{
    uint64_t least = UINT64_MAX;
    cgroup_walk(root, "memory", cgroup_memory_visit, &least);
    return least;
}

int dt_cgroup_cpus(const char *root)
{
    int least = 0;
    cgroup_walk(root, "cpu", cgroup_cpu_visit, &least);
    return least;
}

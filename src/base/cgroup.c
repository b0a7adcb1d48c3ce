/* cgroup.c - finds the groups of this process and reads their limits: cgroups(7),
 * Documentation/admin-guide/cgroup-v2.rst and cgroup-v1 of the kernel. */
#include "cgroup.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

static FILE *open_in(const char *dir, const char *name)
{
    char path[3 * PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "r") : NULL;
}

int dt_proc_numbers(const char *dir, const char *name, const char *key, long long v[2])
{
    FILE *f = open_in(dir, name);
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

static void read_memory(const char *dir, dt_cgroup *least)
{
    /* Both versions have the same three numbers. */
    static const struct {
        const char *limit, *usage, *cache_key;
    } names[] = {{"memory.max", "memory.current", "inactive_file"},
                 {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}};
    long long limit[2], usage[2], cache[2];

    for (int i = 0; i < 2; i++) {
        if (dt_proc_numbers(dir, names[i].limit, "", limit) < 1 ||
            dt_proc_numbers(dir, names[i].usage, "", usage) < 1)
            continue;
        if (dt_proc_numbers(dir, "memory.stat", names[i].cache_key, cache) < 1)
            cache[0] = 0;
        const long long taken = usage[0] > cache[0] ? usage[0] - cache[0] : 0;
        const uint64_t left = limit[0] > taken ? (uint64_t)(limit[0] - taken) : 0;
        if (left < least->memory_left)
            least->memory_left = left;
    }
}

static void read_cpus(const char *dir, dt_cgroup *least)
{
    long long quota[2], period[2]; /* microseconds; version 1: quota -1 is no limit */

    if (dt_proc_numbers(dir, "cpu.max", "", quota) == 2)
        period[0] = quota[1];
    else if (dt_proc_numbers(dir, "cpu.cfs_quota_us", "", quota) < 1 ||
             dt_proc_numbers(dir, "cpu.cfs_period_us", "", period) < 1)
        return;
    if (quota[0] <= 0 || period[0] <= 0)
        return;
    const long long cpus = (quota[0] - 1) / period[0] + 1;
    if (cpus <= INT_MAX && (least->cpus == 0 || cpus < least->cpus))
        least->cpus = (int)cpus;
}

/* Looks at the group's directory and all above it up to the mount point, where systemd and
 * containers mount. A container that sees the group's name on the host has its own limits at the
 * mount point, and no directory of that name. */
static void climb(const char *root, const char *controller, const char *group, dt_cgroup *least)
{
    char dir[2 * PATH_MAX];
    const int top = snprintf(dir, sizeof dir, "%s/sys/fs/cgroup/%s", root, controller);
    const int all = snprintf(dir + top, sizeof dir - (size_t)top, "%s", group);
    char *slash = dir + top + all;

    if ((size_t)(top + all) >= sizeof dir)
        return;
    do {
        *slash = '\0';
        read_memory(dir, least);
        read_cpus(dir, least);
        slash = strrchr(dir + top, '/');
    } while (slash);
}

/* Lines of /proc/self/cgroup: id:controllers:group; version 2 names no controller. */
dt_cgroup dt_cgroup_limits(const char *root)
{
    dt_cgroup least = {.memory_left = UINT64_MAX};
    FILE *f = open_in(root, "proc/self/cgroup");
    char line[PATH_MAX], *rest = NULL;

    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (!list[1])
            climb(root, "", group, &least);
        for (char *c = strtok_r(list + 1, ",", &rest); c; c = strtok_r(NULL, ",", &rest))
            if (strcmp(c, "memory") == 0 || strcmp(c, "cpu") == 0)
                climb(root, c, group, &least);
    }
    if (f)
        fclose(f);
    return least;
}

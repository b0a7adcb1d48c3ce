/* cgroup.c - finds the groups of this process and reads their limits: cgroups(7),
 * Documentation/admin-guide/cgroup-v2.rst and cgroup-v1 of the kernel. */
#include "cgroup.h"
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE_CHARS = 3 * PATH_MAX };

/* Where a hierarchy is mounted: the group `group` is seen as directory `point`. */
typedef struct cgroup_mount {
    char group[PATH_MAX], point[PATH_MAX];
} cgroup_mount;

/* Is told one directory of a group and whether it belongs to version 2. */
typedef void cgroup_visit(const char *dir, bool v2, void *arg);

static FILE *cgroup_open(const char *dir, const char *name)
{
    char path[2 * PATH_MAX];
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

/* True when `word` stands between the commas of `list`. */
static bool cgroup_list_has(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }
    return false;
}

/* The mount of version 2, or of the version 1 hierarchy with `controller`; one line of
 * mountinfo: id parent device root point options [tags] - type source options. */
static bool cgroup_find_mount(const char *root, bool v2, const char *controller, cgroup_mount *m)
{
    FILE *f = cgroup_open(root, "proc/self/mountinfo");
    if (!f)
        return false;
    char line[LINE_CHARS], type[32], options[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        const char *tail = strstr(line, " - ");
        found = tail && sscanf(tail, " - %31s %*s %511s", type, options) == 2 &&
                strcmp(type, v2 ? "cgroup2" : "cgroup") == 0 &&
                (v2 || cgroup_list_has(options, controller)) &&
                sscanf(line, "%*s %*s %*s %4095s %4095s", m->group, m->point) == 2;
    }
    fclose(f);
    return found;
}

/* Visits group's directory and all above it up to the mount point. A group outside the
 * mounted part (a container that sees the names of its host) is the mount point. */
static void cgroup_climb(const char *root, const cgroup_mount *m, const char *group, bool v2,
                         cgroup_visit *visit, void *arg)
{
    const size_t shared = strcmp(m->group, "/") == 0 ? 0 : strlen(m->group);
    const bool inside =
        strncmp(group, m->group, shared) == 0 && (group[shared] == '/' || group[shared] == '\0');
    const char *below = inside ? group + shared : "";
    if (strcmp(below, "/") == 0)
        below = "";

    char dir[3 * PATH_MAX];
    const int top = snprintf(dir, sizeof dir, "%s%s", root, m->point);
    const int all = snprintf(dir, sizeof dir, "%s%s%s", root, m->point, below);
    if (top < 0 || all < 0 || (size_t)all >= sizeof dir)
        return;
    for (;;) {
        visit(dir, v2, arg);
        char *slash = strrchr(dir, '/');
        if (!slash || slash < dir + top)
            return;
        *slash = '\0';
    }
}

/* Lines of /proc/self/cgroup: id:controllers:group; version 2 names no controller. */
static void cgroup_walk(const char *root, const char *controller, cgroup_visit *visit, void *arg)
{
    FILE *f = cgroup_open(root, "proc/self/cgroup");
    if (!f)
        return;
    char line[LINE_CHARS];
    cgroup_mount m;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        const bool v2 = *controllers == '\0';
        if ((v2 || cgroup_list_has(controllers, controller)) &&
            cgroup_find_mount(root, v2, controller, &m))
            cgroup_climb(root, &m, group, v2, visit, arg);
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

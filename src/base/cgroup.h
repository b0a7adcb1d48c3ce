/* cgroup.h - limits that control groups, version 1, 2 or both, set on this process. */
#ifndef DT_CGROUP_H
#define DT_CGROUP_H
#include <stdint.h>

/* The least of any group from the process's own up to the top. */
typedef struct dt_cgroup {
    uint64_t memory_left; /* limit - usage + page cache that the kernel would drop first
                           * (inactive_file); UINT64_MAX: nothing limits */
    int cpus;             /* the scheduler's quota in whole CPUs, rounded up; 0: nothing limits */
} dt_cgroup;
/* `root` is put before /proc and /sys/fs/cgroup: "" is this machine, tests name a folder. */
dt_cgroup dt_cgroup_limits(const char *root);

#endif

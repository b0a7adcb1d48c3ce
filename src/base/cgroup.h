/* cgroup.h - limits that control groups, version 1, 2 or both, set on this process.
 *
 * A limit of any group from the process's own up to the top holds. `root` is put before
 * /proc and /sys/fs/cgroup: "" is this machine, tests name a folder. */
#ifndef DT_CGROUP_H
#define DT_CGROUP_H
#include <stdint.h>

/* Bytes that may still be taken: limit - usage + page cache that the kernel would drop
 * first (inactive_file). UINT64_MAX when nothing limits. */
uint64_t dt_cgroup_memory_left(const char *root);

/* Time on CPUs that the scheduler's quota grants, in whole CPUs rounded up; 0 when
 * nothing limits. */
int dt_cgroup_cpus(const char *root);

#endif

/* cgroup.h - limits of control groups (version 1, 2, both) on this process, and numbers in files
 * of /proc and /sys; private to src/base. */
#ifndef DT_CGROUP_H
#define DT_CGROUP_H
#include <stdint.h>

/* The lowest limits of all groups from the process's own up to the root. */
typedef struct dt_cgroup {
    uint64_t memory_left; /* limit - usage + page cache that the kernel would drop first
                           * (inactive_file); UINT64_MAX: nothing limits */
    int cpus;             /* the scheduler's quota in whole CPUs, rounded up; 0: nothing limits */
} dt_cgroup;
/* `root` is put before /proc and /sys/fs/cgroup: "" is this machine, tests name a folder. */
dt_cgroup dt_cgroup_limits(const char *root);

/* The one or two numbers after `key` in the file dir/name ("" for the first line); how many there
 * are: 0 without the file, without the key, and for the word "max". */
int dt_proc_numbers(const char *dir, const char *name, const char *key, long long v[2]);

#endif

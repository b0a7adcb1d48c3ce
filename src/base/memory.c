/* memory.c - slabs, checked calloc, and what memory is left to this process. */
#include "base.h"
#include "cgroup.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

/* `cause` is the system's word for it. */
static dt_status memory_refused(double bytes, const char *what, const char *cause)
{
    return dt_fail(DT_NOMEM,
                   "cannot get %.1f MB for %s: %s; make the batch or the images "
                   "smaller, start fewer ranks here, or raise the memory limit",
                   bytes * 1e-6, what, cause);
}

dt_status dt_slab_create(dt_slab *s, size_t bytes, const char *what)
{
    if (bytes == 0) {
        *s = (dt_slab){.mem = NULL};
        return DT_OK;
    }
    if (bytes > PTRDIFF_MAX - HUGE_PAGE_BYTES)
        return memory_refused((double)bytes, what, strerror(ENOMEM));

    /* Untouched pages cost nothing, so the slack for the alignment stays mapped. */
    const size_t map_bytes = bytes + HUGE_PAGE_BYTES;
    void *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return memory_refused((double)bytes, what, strerror(errno));

    const size_t skip = (HUGE_PAGE_BYTES - (uintptr_t)map % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    char *mem = (char *)map + skip;
    /* A wish: a kernel without huge pages refuses it, and small pages serve as well. */
    (void)madvise(mem, bytes, MADV_HUGEPAGE);
    *s = (dt_slab){.mem = mem, .bytes = bytes, .map = map, .map_bytes = map_bytes};
    return DT_OK;
}

void dt_slab_destroy(dt_slab *s)
{
    if (s->map && munmap(s->map, s->map_bytes) != 0)
        dt_log_error("cannot give back %zu bytes of memory: %s", s->map_bytes, strerror(errno));
    *s = (dt_slab){.mem = NULL};
}

dt_status dt_calloc(void *p_out, size_t count, size_t size, const char *what)
{
    /* calloc(0) may answer NULL, which callers would take for a failure. */
    const size_t n = count > 0 ? count : 1, each = size > 0 ? size : 1;
    void *p = n <= PTRDIFF_MAX / each ? calloc(n, each) : NULL;
    if (!p)
        return memory_refused((double)n * (double)each, what, strerror(ENOMEM));
    memcpy(p_out, &p, sizeof p);
    return DT_OK;
}

/* MemAvailable of /proc/meminfo in bytes, UINT64_MAX when the kernel does not tell. */
static uint64_t meminfo_available(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    if (!f)
        return UINT64_MAX;
    char line[256];
    unsigned long long kib = 0;
    uint64_t found = UINT64_MAX;
    while (found == UINT64_MAX && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            found = (uint64_t)kib * 1024;
    fclose(f);
    return found;
}

/* Field `field` of /proc/self/statm, from 0, in bytes; 0 where the kernel does not tell. */
static uint64_t memory_taken(int field)
{
    unsigned long long pages = 0;
    const long page_bytes = sysconf(_SC_PAGESIZE);
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f)
        return 0;
    for (int i = 0; i <= field; i++)
        if (fscanf(f, "%llu", &pages) != 1)
            pages = 0;
    fclose(f);
    return page_bytes < 1 ? 0 : (uint64_t)pages * (uint64_t)page_bytes;
}

enum { STATM_SIZE = 0, STATM_DATA = 5 }; /* proc_pid_statm(5) */

/* What a limit leaves of what this process may take, UINT64_MAX without a limit. */
static uint64_t limit_left(int resource, int field)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    const uint64_t taken = memory_taken(field);
    return taken < limit.rlim_cur ? limit.rlim_cur - taken : 0;
}

enum { STACK_KIB = 1024 };

static dt_status check_stacks(void)
{
    struct rlimit stack;

    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < (rlim_t)STACK_KIB << 10)
        return dt_fail(DT_NOMEM,
                       "ulimit -s gives threads a stack of %llu KiB, of which "
                       "libraries need up to %d; raise it",
                       (unsigned long long)stack.rlim_cur >> 10, (int)STACK_KIB);
    return dt_threads_check_stacks((uint64_t)STACK_KIB << 10);
}

/* A run has a dozen open beside those of its data and libraries; without one it would lose its
 * checkpoints, or at the end its model. */
static dt_status check_files(void)
{
    enum { FILES = 64 };
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= FILES)
        return DT_OK;
    return dt_fail(DT_NOMEM,
                   "ulimit -n leaves this process %llu open files, of which a run and its "
                   "libraries need up to %d; raise it",
                   (unsigned long long)files.rlim_cur, (int)FILES);
}

dt_status dt_memory_check_limits(void)
{
    enum { MOST_MIB = 512 };
    const uint64_t left_of[] = {limit_left(RLIMIT_AS, STATM_SIZE),
                                limit_left(RLIMIT_DATA, STATM_DATA)};
    static const char *const option[] = {"-v", "-d"};

    for (size_t i = 0; i < DT_COUNT_OF(left_of); i++)
        if (left_of[i] < (uint64_t)MOST_MIB << 20)
            return dt_fail(DT_NOMEM,
                           "ulimit %s leaves this process %llu MiB, and the libraries' code "
                           "and threads need up to %d beside a network's memory; raise it",
                           option[i], (unsigned long long)(left_of[i] >> 20), (int)MOST_MIB);
    DT_TRY(check_files());
    return check_stacks();
}

uint64_t dt_memory_available(void)
{
    const uint64_t left_of[] = {meminfo_available(), dt_cgroup_memory_left(""),
                                limit_left(RLIMIT_AS, STATM_SIZE),
                                limit_left(RLIMIT_DATA, STATM_DATA)};
    uint64_t left = UINT64_MAX;

    for (size_t i = 0; i < DT_COUNT_OF(left_of); i++)
        left = DT_MIN(left_of[i], left);
    if (left == UINT64_MAX)
        return 0;
    return DT_MAX(left, 1); /* 0 means unknown, not full */
}

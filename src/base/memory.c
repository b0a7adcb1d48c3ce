/* memory.c - slabs, checked calloc, threads, and what memory is left to this process. */
#include "base.h"
#include "cgroup.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

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
    /* May fail: small pages serve as well. */
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
    void *p = calloc(DT_MAX(count, 1), DT_MAX(size, 1));
    if (!p)
        return memory_refused((double)count * (double)size, what, strerror(ENOMEM));
    memcpy(p_out, &p, sizeof p);
    return DT_OK;
}

void dt_free_each(void *const *p, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(p[i]);
}

dt_status dt_thread_start(pthread_t *thread, void *(*body)(void *context), void *context,
                          const char *what)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? DT_OK
                      : dt_fail(DT_NOMEM,
                                "no thread to %s: %s; lower --threads, or raise the limit of "
                                "processes (ulimit -u) or of memory (ulimit -v)",
                                what, strerror(error));
}

/* Limits of the system, and what a run and its libraries take of each without looking: UCX
 * waits for ever where it gets none. */
static const struct {
    __rlimit_resource_t resource;
    const char *option;
    unsigned long long least, unit; /* as ulimit counts: in KiB, or files */
    const char *of;
} limits[] = {
    {RLIMIT_AS, "-v", 512 << 10, 1024, "KiB of address space"},
    {RLIMIT_DATA, "-d", 512 << 10, 1024, "KiB of data"},
    {RLIMIT_STACK, "-s", 1024, 1024, "KiB of stack"},
    {RLIMIT_NOFILE, "-n", 64, 1, "open files"},
};

static uint64_t limit_of(__rlimit_resource_t resource)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

dt_status dt_memory_check_limits(void)
{
    for (size_t i = 0; i < DT_COUNT_OF(limits); i++) {
        const unsigned long long has = limit_of(limits[i].resource) / limits[i].unit;
        if (has < limits[i].least)
            return dt_fail(DT_NOMEM,
                           "ulimit %s gives this process %llu %s, and a run and its libraries "
                           "need at least %llu; raise it",
                           limits[i].option, has, limits[i].of, limits[i].least);
    }
    return DT_OK;
}

uint64_t dt_memory_available(void)
{
    long long kib[2];
    const bool told = dt_proc_numbers("/proc", "meminfo", "MemAvailable:", kib) > 0;
    const uint64_t left_of[] = {told ? (uint64_t)kib[0] * 1024 : UINT64_MAX,
                                dt_cgroup_limits("").memory_left, limit_of(RLIMIT_AS),
                                limit_of(RLIMIT_DATA)};
    uint64_t left = UINT64_MAX;

    for (size_t i = 0; i < DT_COUNT_OF(left_of); i++)
        left = DT_MIN(left_of[i], left);
    if (left == UINT64_MAX)
        return 0;
    return DT_MAX(left, 1); /* 0 means unknown, not full */
}

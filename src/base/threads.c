/* threads.c - whether libgomp will get its threads: it ends the program where it does not. */
#include "base.h"
#include <ctype.h>
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

/* ---- Stacks -------------------------------------------------------------------------- */

static const char *const stack_variables[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE"};

/* The variable's bytes of stack, as libgomp reads it: a number of KiB, or of B, K, M or G.
 * UINT64_MAX: not set, or nothing that libgomp takes. */
static uint64_t stack_given(const char *variable)
{
    static const char units[] = "bkmg";
    const char *text = getenv(variable), *end = NULL;
    int64_t n = 0;

    if (!text || !dt_whole_parse(text + strspn(text, " "), &end, &n) || n < 0)
        return UINT64_MAX;
    end += strspn(end, " ");
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : units + 1;
    const uint64_t scale = unit ? UINT64_C(1) << 10 * (unit - units) : 0;
    return unit && (uint64_t)n <= UINT64_MAX / scale ? (uint64_t)n * scale : UINT64_MAX;
}

/* The variable that counts, NULL: none does. */
static const char *stack_variable(void)
{
    for (size_t i = 0; i < DT_COUNT_OF(stack_variables); i++)
        if (stack_given(stack_variables[i]) != UINT64_MAX)
            return stack_variables[i];
    return NULL;
}

dt_status dt_threads_check_stacks(uint64_t least)
{
    for (size_t i = 0; i < DT_COUNT_OF(stack_variables); i++) {
        const char *variable = stack_variables[i];
        if (stack_given(variable) < least)
            return dt_fail(DT_NOMEM,
                           "%s=%s gives threads a stack of %llu KiB, of which libraries need "
                           "up to %llu; raise it, or unset it",
                           variable, getenv(variable),
                           (unsigned long long)stack_given(variable) >> 10,
                           (unsigned long long)least >> 10);
    }
    return DT_OK;
}

/* ---- Threads as libgomp makes them ------------------------------------------------------ */

typedef struct tried {
    pthread_mutex_t go; /* held until all threads are there, as in a parallel region */
    pthread_t *thread;  /* [count], owned */
    int count;
} tried;

static void *tried_main(void *context)
{
    tried *t = context;

    pthread_mutex_lock(&t->go);
    pthread_mutex_unlock(&t->go);
    return NULL;
}

/* The CPUs of thread i where threads are bound to places; a CPU of them, or -1: it is not bound. */
static int thread_cpus(int i, cpu_set_t *set)
{
    enum { MOST = CPU_SETSIZE };
    int cpu[MOST];
    const int places = omp_get_num_places();

    CPU_ZERO(set);
    if (places < 1 || omp_get_proc_bind() == omp_proc_bind_false)
        return -1;
    const int count = omp_get_place_num_procs(i % places);
    if (count < 1 || count > MOST)
        return -1;
    omp_get_place_proc_ids(i % places, cpu);
    for (int k = 0; k < count; k++)
        if (cpu[k] >= 0 && cpu[k] < CPU_SETSIZE)
            CPU_SET((size_t)cpu[k], set);
    return cpu[0];
}

/* 0, or what pthread_create says. What libgomp does not take, it leaves at the default. */
static int try_thread(tried *t, int i, int *cpu)
{
    const char *variable = stack_variable();
    pthread_attr_t how;
    cpu_set_t set;

    int error = pthread_attr_init(&how);
    if (error != 0)
        return error;
    if (variable)
        (void)pthread_attr_setstacksize(&how, (size_t)stack_given(variable));
    *cpu = thread_cpus(i, &set);
    if (*cpu >= 0)
        error = pthread_attr_setaffinity_np(&how, sizeof set, &set);
    if (error == 0)
        error = pthread_create(&t->thread[t->count], &how, tried_main, t);
    pthread_attr_destroy(&how);
    t->count += error == 0;
    return error;
}

static dt_status thread_refused(int i, int threads, int error, int cpu)
{
    const char *stack = stack_variable();
    const char *places = getenv("OMP_PLACES") ? "OMP_PLACES" : "GOMP_CPU_AFFINITY";

    if (error == EINVAL && cpu >= 0)
        return dt_fail(DT_NOMEM,
                       "%s=%s binds thread %d of %d to CPU %d, which this process may not use; "
                       "name others, as taskset -p shows them, or unset it",
                       places, getenv(places) ? getenv(places) : "", i + 1, threads, cpu);
    if (stack)
        return dt_fail(DT_NOMEM,
                       "%s=%s: no memory for the stack of thread %d of %d, %llu MiB: %s; lower "
                       "it, or unset it",
                       stack, getenv(stack), i + 1, threads,
                       (unsigned long long)stack_given(stack) >> 20, strerror(error));
    return dt_fail(DT_NOMEM,
                   "the system gives no thread %d of %d: %s; lower --threads, or raise the "
                   "limit of processes (ulimit -u) or of memory (ulimit -v)",
                   i + 1, threads, strerror(error));
}

dt_status dt_threads_try(int threads)
{
    tried t = {.go = PTHREAD_MUTEX_INITIALIZER};
    dt_status st = DT_OK;

    DT_TRY(dt_calloc(&t.thread, (size_t)DT_MAX(threads, 1), sizeof *t.thread, "trying threads"));
    pthread_mutex_lock(&t.go);
    for (int i = 1; i < threads && st == DT_OK; i++) { /* the first is there */
        int cpu = -1;
        const int error = try_thread(&t, i, &cpu);
        if (error != 0)
            st = thread_refused(i, threads, error, cpu);
    }
    pthread_mutex_unlock(&t.go);
    for (int i = 0; i < t.count; i++)
        pthread_join(t.thread[i], NULL);
    free(t.thread);
    return st;
}

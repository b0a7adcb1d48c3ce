/* allocations.h - calls to malloc and its kin from dtrain's own objects are counted, through the
 * linker's --wrap (CMakeLists.txt); libraries keep theirs. A test that includes this adds rows for
 * the others that it counts. */
#ifndef DT_TEST_ALLOCATIONS_H
#define DT_TEST_ALLOCATIONS_H
#include <stdatomic.h>
#include <stddef.h>

static atomic_long calls;

#define WRAP(type, name, params, args)                                                             \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        atomic_fetch_add(&calls, 1);                                                               \
        return __real_##name args;                                                                 \
    }
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t m), (n, m))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
#endif

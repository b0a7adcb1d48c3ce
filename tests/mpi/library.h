/* library.h - what tests of libdtrain-dist include. A failed assertion ends all ranks at once. */
#ifndef DT_LIBRARY_H
#define DT_LIBRARY_H
#include "test.h"

#include "lib/dist.h"

#define assert_dtd(call)                                                                           \
    do {                                                                                           \
        if ((call) != DTD_OK)                                                                      \
            fail_msg("%s: %s", #call, dtd_error());                                                \
    } while (0)
/* It fails with this code, and with a message that holds all that follows. */
#define assert_code(call, code, ...)                                                               \
    do {                                                                                           \
        assert_int_equal((call), code);                                                            \
        const char *const parts_[] = {__VA_ARGS__};                                                \
        for (size_t p_ = 0; p_ < DT_COUNT_OF(parts_); p_++)                                        \
            if (!strstr(dtd_error(), parts_[p_]))                                                  \
                fail_msg("'%s' does not hold '%s'", dtd_error(), parts_[p_]);                      \
    } while (0)

static inline void library_open(int *argc, char ***argv)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    if (dtd_init(argc, argv) != DTD_OK) {
        fprintf(stderr, "dtd_init: %s\n", dtd_error());
        exit(1);
    }
    if (dtd_rank(NULL) > 0 && !freopen("/dev/null", "w", stdout))
        exit(1);
}

static inline int library_close(int failed)
{
    return dtd_finalize() == DTD_OK ? failed : 1;
}
#endif

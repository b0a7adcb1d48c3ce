/* ranks.h - what every test under mpirun includes. A failed assertion ends all ranks at
 * once, because the others would wait for the one that left. */
#ifndef DT_RANKS_H
#define DT_RANKS_H
#include "test.h"

#include "dist/dist.h"

static dt_comm *comm; /* opened by ranks_open */

static inline void ranks_open(int argc, char **argv)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    if (dt_comm_open(&comm, dt_comm_launched(), &argc, &argv) != DT_OK) {
        fprintf(stderr, "dt_comm_open: %s\n", dt_fail_text());
        exit(1);
    }
    if (comm->rank > 0 && !freopen("/dev/null", "w", stdout))
        exit(1);
}

static inline int ranks_close(int failed)
{
    dt_comm_close(comm);
    return failed;
}
#endif

/* lib_stall.c - what lib_check.sh runs: a program with an MPI of its own, whose ranks are in
 * reverse order for the library; rank 1 does what the first argument says, and the others wait. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/dist.h"

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Comm reverse;
    int rank = 0, world = 0, x = 1, over = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reverse);
    if (dtd_init_mpi(&reverse) != 0 || dtd_rank(NULL) != world - 1 - rank)
        return 1;
    if (dtd_all_reduce(&x, 1, DTD_I32, DTD_SUM, NULL) != 0 || x != world)
        return 1;
    if (strcmp(what, "stop") == 0 && dtd_rank(NULL) == 1)
        kill(getpid(), SIGSTOP);
    if (strcmp(what, "kill") == 0 && dtd_rank(NULL) == 1)
        kill(getpid(), SIGKILL);
    for (volatile int turns = 1; strcmp(what, "turn") == 0 && dtd_rank(NULL) == 1 && turns;)
        ;
    if (strcmp(what, "late") == 0 && dtd_rank(NULL) == 1)
        sleep(4); /* but not for DTD_STALL_SECONDS */
    if (strcmp(what, "after") == 0) {
        MPI_Finalize();
        return dtd_finalize() == DTD_USAGE && puts(dtd_error()) >= 0 ? 0 : 1;
    }
    if (dtd_all_reduce(&x, 1, DTD_I32, DTD_SUM, NULL) != 0 || dtd_finalize() != 0)
        return 1;
    MPI_Finalized(&over);
    if (over || MPI_Finalize() != MPI_SUCCESS)
        return 1;
    if (rank == 0)
        puts("all is well");
    return 0;
}

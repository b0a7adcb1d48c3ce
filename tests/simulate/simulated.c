/* simulated.c - what of a program is otherwise under SimGrid, where ranks are no processes: MPI
 * does not say that it can live with threads, and a thread that is no rank may not ask for the
 * time. */
#include "watch/watch.h"

#include <mpi.h>

int __real_MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int __wrap_MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int __wrap_MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int code = __real_MPI_Init_thread(argc, argv, required, provided);

    *provided = required; /* ranks run one at a time */
    return code;
}

dt_status __wrap_dt_watch_open(dt_watch **w, dt_comm *c, const dt_watch_opts *opts);
dt_status __wrap_dt_watch_open(dt_watch **w, dt_comm *c, const dt_watch_opts *opts)
{
    (void)c, (void)opts;
    *w = NULL;
    return DT_OK;
}

/* signals.h - what the outside asks of a run: SIGUSR1, SIGTERM and SIGINT to stop after a
 * checkpoint, SIGHUP to write one and go on; private to src/train.
 *
 * Open MPI forwards SIGUSR1 from mpirun to all ranks and kills nobody; SIGTERM and SIGINT to
 * mpirun leave the ranks one second. A second SIGINT ends the process at once. All Local. */
#ifndef DT_SIGNALS_H
#define DT_SIGNALS_H
#include "run.h"

/* What was asked for since the last call; a wish to stop stays. */
dt_wishes dt_signals_take(void);
/* The name of the last signal, "" if none. */
const char *dt_signals_name(void);

#endif

/* signals.h - requests from outside: SIGUSR1, SIGUSR2, SIGTERM, SIGINT and SIGXCPU ask a run to
 * write a checkpoint and stop, SIGHUP to write one and continue; private to src/train.
 *
 * Open MPI forwards SIGUSR1 from mpirun to all ranks and kills none; SIGTERM and SIGINT to
 * mpirun leave the ranks one second. A second SIGINT, 1 s later, ends the process. All Local. */
#ifndef DT_SIGNALS_H
#define DT_SIGNALS_H
#include "run.h"

/* From now on a signal is a request: there is something to save. */
void dt_signals_defer(void);
/* A request to stop comes by itself after so many seconds. */
void dt_signals_stop_after(double seconds);
/* The first signal that has asked this process to stop; 0: none. */
int dt_signals_stop(void);
/* Whether a checkpoint was asked for since the last call. */
bool dt_signals_save(void);
/* "SIGUSR1"; "a signal" for one that is not caught; of the clock the option. */
const char *dt_signals_name(int number);

#endif

/* backtrace.h - what all threads of this process are doing; private to src/watch. */
#ifndef DT_WATCH_BACKTRACE_H
#define DT_WATCH_BACKTRACE_H
#include <semaphore.h>
#include <stdbool.h>

/* Whether the semaphore was raised within so many milliseconds. Local. */
bool dt_wait_ms(sem_t *s, int ms);
/* Before the first: loads what a signal's handler may not. */
void dt_backtraces_prepare(void);
/* To stderr: rank and place, then each thread's calls, the innermost first. The threads go on. By
 * one thread at a time. Local. */
void dt_backtraces(int rank, const char *place);
#endif

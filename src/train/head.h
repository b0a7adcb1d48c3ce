/* head.h - the first lines of a run, in a person's words; private to src/train. */
#ifndef DT_HEAD_H
#define DT_HEAD_H
#include "run.h"

/* At most DT_HEAD_LINES lines, whatever the options: one for each fact, and of the options that
 * are not their defaults as many as fit. Local. */
enum { DT_HEAD_LINES = 9 };
void dt_head_print(FILE *f, const dt_run *r, const char *folder);

#endif

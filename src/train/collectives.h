/* collectives.h - the file of --comm-log; private to src/train. */
#ifndef DT_COLLECTIVES_H
#define DT_COLLECTIVES_H
#include "dist/dist.h"

/* Lines of JSON, a collective each, that rank 0 appends. */
typedef struct dt_collectives dt_collectives;
/* path (same): the file, which may have been such a log before. DT_CANTCREATE. Collective. */
dt_status dt_collectives_open(dt_collectives **l, dt_comm *c, const char *path) DT_MUST_CHECK;
/* The lines of `step` (same): what was called since the last time. What cannot be written is a
 * warning, and the end of the log. l: NULL does nothing. Collective. */
dt_status dt_collectives_step(dt_collectives *l, int64_t step) DT_MUST_CHECK;
void dt_collectives_close(dt_collectives *l); /* Local */
#endif

/* launch_internal.h - what files of src/launch share. */
#ifndef DT_LAUNCH_INTERNAL_H
#define DT_LAUNCH_INTERNAL_H
#include "launch.h"

/* One host more. DT_USAGE: it is no name, is there already, or has no sensible number of ranks. */
dt_status dt_hosts_add(dt_hosts *h, const char *name, size_t length, int64_t slots) DT_MUST_CHECK;

/* All of a file, with a zero byte behind it; to be freed by free(), also where it fails.
 * DT_NOINPUT: it is none, or cannot be read; DT_CONFIG: it is too long. */
dt_status dt_text_read(const char *path, char **text, size_t *length) DT_MUST_CHECK;
#endif

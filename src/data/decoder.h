/* decoder.h - images are decoded in another process; private to src/data.
 *
 * A decoder of foreign bytes is the most likely place of a crash, and a crash there must cost no
 * more than one message. So the bytes go over a socket to a process that can read, write and end,
 * and nothing else (seccomp's strict mode, and limits of zero where there is no seccomp), and
 * pixels come back. One process decodes all images of a reader: starting one for each would take
 * longer than its image.
 *
 * It is this program started anew by posix_spawn, not a fork: a fork would inherit what the
 * ranks share (weights, MPI's queues) with the right to write there, would copy memory that
 * a network card may hold, which Open MPI warns of, and would be left with the locks that
 * other threads held. Thus every program that reads image folders begins its main with
 * dt_decoder_asked (data.h). */
#ifndef DT_DECODER_H
#define DT_DECODER_H
#include "base/base.h"

#include <sys/types.h>

typedef struct dt_decoder {
    pid_t pid;   /* 0: none */
    int fd;      /* of the socket */
    int seconds; /* that it may be silent while it has an image */
} dt_decoder;

/* d is to be stopped whatever the outcome. DT_NOMEM; DT_UNSUPPORTED: no such process can
 * be started here, or it has too little memory. */
dt_status dt_decoder_start(dt_decoder *d) DT_MUST_CHECK;
void dt_decoder_stop(dt_decoder *d);
/* Decode a file that dt_picture_check has passed, into pixels [height][width][3]. DT_FORMAT with
 * the decoder's reason and `path`, also when it crashes or takes too long: it has ended then,
 * and further calls fail. */
dt_status dt_decoder_run(dt_decoder *d, const char *path, const uint8_t *bytes, size_t count,
                         int width, int height, uint8_t *pixels) DT_MUST_CHECK;
/* Give up all rights but to read and write open files. For the process, and for its test. */
void dt_decoder_confine(void);
#endif

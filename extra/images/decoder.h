/* decoder.h - image files become pixels, in another process; private to extra/images.
 *
 * A decoder of foreign bytes is the most likely place of a crash, and a crash there must cost no
 * more than one message. So the bytes go over a socket to a process that can read, write and end,
 * and nothing else (a filter of seccomp, and limits of zero where there is no seccomp), and
 * pixels come back. One process decodes all images of a reader: starting one for each would take
 * longer than its image.
 *
 * It is this program started anew by posix_spawn, not a fork: a fork would inherit what the
 * ranks share (weights, MPI's queues) with the right to write there, would copy memory that
 * a network card may hold, which Open MPI warns of, and would be left with the locks that
 * other threads held. Thus every program that reads image folders begins its main with
 * dt_decoder_serve (main of src/cli: by dt_source_serve). */
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
/* Be the process, if argv is its: the exit code where it cannot start; -1: argv is another's. */
int dt_decoder_serve(int argc, char **argv);
/* Give up all rights but to read and write open files. For the process, and for its test. */
void dt_decoder_confine(void);

/* stb_image (2.27 to 2.30) refuses most damage itself. dt_picture_check refuses that on which it
 * has undefined behaviour, and some of that which it does not see:
 *   PNG   wrong checksums, which stb_image ignores; bits per sample that a colour type does not
 *         have; an empty first IDAT chunk, which stb_image copies to a null pointer
 *   JPEG  a Huffman table of more than 256 codes, which stb_image writes beyond its own; a file
 *         that ends early, of which some versions return what there is
 * dt_picture_check also finds the size, which the caller needs first. It allocates and decodes
 * nothing, and reads no byte outside [0, count). What else a JPEG lacks, pixels.c finds. */

enum {
    DT_PICTURE_SIDE = 8192,       /* pixels */
    DT_PICTURE_PIXELS = 32 << 20, /* the block of the largest: PIXELS_BLOCK_CAP */
    DT_PICTURE_BYTES = 64 << 20,  /* of a file */
    DT_PICTURE_REASON = 160
};

typedef struct dt_picture {
    int width, height;              /* valid when the file is good, as the next two */
    size_t coded_end;               /* of the last scan of a JPEG; 0: there is none */
    int restarts;                   /* in it */
    char reason[DT_PICTURE_REASON]; /* valid when not: what is wrong, and where */
} dt_picture;

bool dt_picture_check(const uint8_t *bytes, size_t count, dt_picture *p);
/* Bytes of data in the PNG chunk at byte `at`; SIZE_MAX: it does not fit into the file. */
size_t dt_png_length(const uint8_t *bytes, size_t count, size_t at);

/* The size of a picture whose structure is good. DT_NOINPUT, DT_IO; DT_FORMAT with the reason. */
dt_status dt_image_size(const char *path, dt_picture *p) DT_MUST_CHECK;
/* The one way of a picture into memory: to [height][width][3]. One that is at least twice as large
 * on both sides is first averaged in blocks; then it is resized. *resized counts pictures of
 * another size. Errors as dt_image_size and dt_decoder_run. */
dt_status dt_image_read(dt_decoder *d, const char *path, int width, int height, uint8_t *to,
                        int64_t *resized) DT_MUST_CHECK;

/* stb_image 2.27 leaves bytes that it does not decode as it found them, so it gets zeroed
 * memory for every picture: what comes out depends on the file alone. After dt_pixels_open
 * no call asks the kernel for anything, so that a process without rights can decode. */

/* A sanitized process needs more rights, and marks where its blocks of memory end. */
#if defined(__SANITIZE_ADDRESS__)
#define DT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define DT_SANITIZED 1
#endif
#endif
#ifndef DT_SANITIZED
#define DT_SANITIZED 0
#endif

/* Address space for the largest picture; touched as far as pictures need it. DT_NOMEM. */
dt_status dt_pixels_open(void) DT_MUST_CHECK;
/* Forget the last picture; `count` zeroed bytes for a file, NULL when they do not fit. */
uint8_t *dt_pixels_file(size_t count);
/* Decode the first `count` bytes of it, whose structure has been checked: [height][width][3],
 * valid until the next dt_pixels_file. NULL: *reason is why, constant or the decoder's. */
const uint8_t *dt_pixels_decode(size_t count, int width, int height, const char **reason);
#endif

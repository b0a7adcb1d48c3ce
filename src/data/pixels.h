/* pixels.h - PNG and JPEG files to pixels, in memory of fixed size; private to src/data.
 *
 * stb_image 2.27 leaves bytes that it does not decode as it found them, so it gets zeroed
 * memory for every picture: what comes out depends on the file alone. After dt_pixels_open
 * no call asks the kernel for anything, so that a process without rights can decode. */
#ifndef DT_PIXELS_H
#define DT_PIXELS_H
#include "base/base.h"

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

/* picture.h - is a PNG or JPEG file whole? Private to src/data.
 *
 * The structure is checked before stb_image sees the file: everything that a decoder
 * would have to make up (a table that nothing defined, a component that nothing coded,
 * pixels that are not there) is refused with its reason, and so is what stb_image
 * takes in some version but cannot do (tables that are too long, sampling factors that do
 * not divide). Nothing is allocated or decoded, no byte outside [0, count) is read. */
#ifndef DT_PICTURE_H
#define DT_PICTURE_H
#include "base/base.h"

enum {
    DT_PICTURE_SIDE = 8192,      /* pixels */
    DT_PICTURE_BYTES = 64 << 20, /* of a file, and of its pixels, 3 each */
    DT_PICTURE_REASON = 160
};

typedef struct dt_picture {
    int width, height;              /* valid when whole */
    char reason[DT_PICTURE_REASON]; /* valid when not: what is wrong, and where */
} dt_picture;

bool dt_picture_check(const uint8_t *bytes, size_t count, dt_picture *p);

/* The two forms; the signature has been seen. */
bool dt_picture_png(const uint8_t *bytes, size_t count, dt_picture *p);
bool dt_picture_jpeg(const uint8_t *bytes, size_t count, dt_picture *p);
/* Note sizes that are within the limits. */
bool dt_picture_size(dt_picture *p, uint32_t width, uint32_t height);
/* Note the reason; false, for `return`. */
bool dt_picture_bad(dt_picture *p, const char *fmt, ...) DT_PRINTF(2, 3);
#endif

/* picture.h - what stb_image does not check of a PNG or JPEG file; private to src/data.
 *
 * What keeps a hostile file from the program is the decoder's process (decoder.h), and what keeps
 * old bytes from its pixels is that process's zeroed memory (pixels.h). stb_image (2.27 to 2.30)
 * refuses most damage itself. Checked here is what it takes and should not, because its behaviour
 * is undefined or because it makes up what the file does not have:
 *   PNG   checksums, which it ignores; bits per sample that a colour type does not have; an empty
 *         first IDAT chunk, which it copies to a null pointer
 *   JPEG  a Huffman table of more than 256 codes, which it writes beyond its own; files that end
 *         early, after which some versions return what they have
 * And the size, which the caller wants to know first. Other damage of a JPEG makes the decoder
 * refuse it or shows in its pixels; tables that it does not define are zeros. Nothing is allocated
 * or decoded, and no byte outside [0, count) is read. */
#ifndef DT_PICTURE_H
#define DT_PICTURE_H
#include "base/base.h"

enum {
    DT_PICTURE_SIDE = 8192,      /* pixels */
    DT_PICTURE_BYTES = 64 << 20, /* of a file, and of its pixels, 3 each */
    DT_PICTURE_REASON = 160
};

typedef struct dt_picture {
    int width, height;              /* valid when the file is good */
    char reason[DT_PICTURE_REASON]; /* valid when not: what is wrong, and where */
} dt_picture;

bool dt_picture_check(const uint8_t *bytes, size_t count, dt_picture *p);
/* Bytes of data in the PNG chunk at byte `at`; SIZE_MAX: it does not fit into the file. */
size_t dt_png_length(const uint8_t *bytes, size_t count, size_t at);
#endif

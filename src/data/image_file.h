/* image_file.h - one picture from its file to pixels; private to src/data. */
#ifndef DT_IMAGE_FILE_H
#define DT_IMAGE_FILE_H
#include "data.h"
#include "decoder.h"

/* The size of a picture whose structure is good. DT_NOINPUT, DT_IO; DT_FORMAT with the reason. */
dt_status dt_image_size(const char *path, dt_picture *p) DT_MUST_CHECK;
/* The one way of a picture into memory: to [height][width][3], if it has those at least twice on
 * each side averaged in blocks, then resized; *resized counts those of another size. Errors as
 * dt_image_size and dt_decoder_run. */
dt_status dt_image_read(dt_decoder *d, const char *path, int width, int height, uint8_t *to,
                        int64_t *resized) DT_MUST_CHECK;
#endif

/* image_file.h - one picture from its file to pixels; private to src/data. */
#ifndef DT_IMAGE_FILE_H
#define DT_IMAGE_FILE_H
#include "data.h"
#include "decoder.h"

/* The size of a picture whose structure is good. DT_NOINPUT, DT_IO; DT_FORMAT with the reason. */
dt_status dt_image_size(const char *path, dt_picture *p) DT_MUST_CHECK;
/* Decode a file; *pixels [p->height][p->width][3] are freed by free(), also after an error. Errors
 * as dt_image_size and dt_decoder_run. */
dt_status dt_image_decode(dt_decoder *d, const char *path, dt_picture *p,
                          uint8_t **pixels) DT_MUST_CHECK;
/* Bilinear, half-pixel centres, rounded to the nearest byte. */
void dt_image_resize(const uint8_t *from, int width, int height, uint8_t *to, int to_width,
                     int to_height);
/* In place: each block of by x by pixels becomes its mean, rounded; pixels beyond the last whole
 * block are left out. */
void dt_image_shrink(uint8_t *pixels, int *width, int *height, int by);
#endif

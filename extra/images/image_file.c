/* image_file.c - one picture from its file to pixels, and to another size. */
#include "decoder.h"
#include "data/augment.h"

/* *bytes is freed by free(), also after an error. */
static dt_status image_fetch(const char *path, char **bytes, size_t *count, dt_picture *p)
{
    DT_TRY(dt_file_read(AT_FDCWD, path, DT_PICTURE_BYTES, bytes, count));
    if (!dt_picture_check((const uint8_t *)*bytes, *count, p))
        return dt_fail(DT_FORMAT,
                       "image '%s' is no readable PNG or JPEG (%s): replace or remove it", path,
                       p->reason);
    return DT_OK;
}

dt_status dt_image_size(const char *path, dt_picture *p)
{
    char *bytes = NULL;
    size_t count = 0;
    const dt_status st = image_fetch(path, &bytes, &count, p);

    free(bytes);
    return st;
}

/* Bilinear, half-pixel centres, rounded to the nearest byte. */
static void image_resize(const uint8_t *from, int width, int height, uint8_t *to, int to_width,
                         int to_height)
{
    for (int y = 0; y < to_height; y++) {
        const dt_tap v = dt_tap_at(height, to_height, y);
        const uint8_t *upper = from + 3 * (size_t)width * (size_t)v.lo;
        const uint8_t *lower = from + 3 * (size_t)width * (size_t)v.hi;
        for (int x = 0; x < to_width; x++) {
            const dt_tap h = dt_tap_at(width, to_width, x);
            for (int c = 0; c < 3; c++) {
                const float up = h.part[0] * upper[3 * h.lo + c] + h.part[1] * upper[3 * h.hi + c];
                const float low = h.part[0] * lower[3 * h.lo + c] + h.part[1] * lower[3 * h.hi + c];
                *to++ = (uint8_t)(v.part[0] * up + v.part[1] * low + 0.5f);
            }
        }
    }
}

/* In place: each block of by x by pixels becomes its mean, rounded; pixels beyond the last whole
 * block are left out. */
static void image_shrink(uint8_t *pixels, int *width, int *height, int by)
{
    const int w = *width / by, h = *height / by, area = by * by; /* at most 2^26 */
    uint8_t *to = pixels;

    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < 3; c++) {
                const uint8_t *from = pixels + 3 * (*width * (y * by) + x * by) + c;
                int64_t sum = area / 2;
                for (int j = 0; j < by; j++, from += 3 * *width)
                    for (int i = 0; i < by; i++)
                        sum += from[3 * i];
                *to++ = (uint8_t)(sum / area);
            }
    *width = w;
    *height = h;
}

/* Bilinear interpolation alone would look at few pixels of a large picture. */
dt_status dt_image_read(dt_decoder *d, const char *path, int width, int height, uint8_t *to,
                        int64_t *resized)
{
    char *bytes = NULL;
    uint8_t *pixels = NULL;
    size_t count = 0;
    dt_picture p;
    dt_status st = DT_OK;

    DT_GO(st, image_fetch(path, &bytes, &count, &p), out);
    DT_GO(st, dt_calloc(&pixels, 3 * (size_t)p.width * (size_t)p.height, 1, path), out);
    DT_GO(st, dt_decoder_run(d, path, (uint8_t *)bytes, count, p.width, p.height, pixels), out);
    *resized += p.width != width || p.height != height;
    const int by = DT_MIN(p.width / width, p.height / height);
    if (by > 1)
        image_shrink(pixels, &p.width, &p.height, by);
    image_resize(pixels, p.width, p.height, to, width, height);
out:
    DT_FREE(bytes, pixels);
    return st;
}

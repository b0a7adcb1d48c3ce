/* picture.c - which of the two forms a file has, and the limits of both. */
#include "picture.h"

#include <stdarg.h>
#include <stdio.h>

bool dt_picture_bad(dt_picture *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(p->reason, sizeof p->reason, fmt, args);
    va_end(args);
    return false;
}

bool dt_picture_size(dt_picture *p, uint32_t width, uint32_t height)
{
    if (width == 0 || height == 0 || width > DT_PICTURE_SIDE || height > DT_PICTURE_SIDE ||
        width * height > DT_PICTURE_BYTES / 3)
        return dt_picture_bad(
            p, "%lu x %lu pixels; 1 to %d on a side and at most %d in all are read",
            (unsigned long)width, (unsigned long)height, DT_PICTURE_SIDE, DT_PICTURE_BYTES / 3);
    p->width = (int)width;
    p->height = (int)height;
    return true;
}

bool dt_picture_check(const uint8_t *bytes, size_t count, dt_picture *p)
{
    static const struct {
        const char *text;
        size_t length;
        bool (*check)(const uint8_t *bytes, size_t count, dt_picture *p);
    } form[] = {{"\x89PNG\r\n\x1a\n", 8, dt_picture_png}, {"\xff\xd8", 2, dt_picture_jpeg}};

    *p = (dt_picture){0};
    if (count > DT_PICTURE_BYTES)
        return dt_picture_bad(p, "%zu bytes, at most %d are read", count, DT_PICTURE_BYTES);
    for (size_t i = 0; i < DT_COUNT_OF(form); i++)
        if (count >= form[i].length && memcmp(bytes, form[i].text, form[i].length) == 0)
            return form[i].check(bytes, count, p);
    return dt_picture_bad(p, "it begins like neither");
}

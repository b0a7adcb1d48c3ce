/* picture_png.c - the chunks of a PNG (W3C, 2nd edition): lengths, order, checksums. */
#include "picture.h"

enum { PNG_SIGNATURE = 8, PNG_FRAME = 12 /* length, type, checksum */, PNG_TYPE = 4 };

typedef struct png_chunk {
    size_t at; /* of the length, in the file */
    const uint8_t *type, *data;
    uint32_t length;
} png_chunk;

typedef struct png_seen {
    int colour;
    bool header, palette, pixels, after_pixels, end;
} png_seen;

static uint32_t png_u32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* The CRC of ISO 3309, four bits at a time. */
static uint32_t png_checksum(const uint8_t *b, size_t count)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < count; i++) {
        crc = crc >> 4 ^ table[(crc ^ b[i]) & 15];
        crc = crc >> 4 ^ table[(crc ^ b[i] >> 4) & 15];
    }
    return ~crc;
}

static bool png_is(const png_chunk *c, const char *type)
{
    return memcmp(c->type, type, PNG_TYPE) == 0;
}

/* The chunk at byte `at`. */
static bool png_next(const uint8_t *bytes, size_t count, size_t at, png_chunk *c, dt_picture *p)
{
    if (count - at < PNG_FRAME)
        return dt_picture_bad(p, "the PNG ends at byte %zu, before its last chunk (IEND)", count);
    *c = (png_chunk){at, bytes + at + 4, bytes + at + 8, png_u32(bytes + at)};
    for (int i = 0; i < PNG_TYPE; i++)
        if ((c->type[i] | 32) < 'a' || (c->type[i] | 32) > 'z')
            return dt_picture_bad(p, "at byte %zu there is no PNG chunk", at);
    if (c->length > count - at - PNG_FRAME)
        return dt_picture_bad(p, "PNG chunk %.4s at byte %zu is longer than the file",
                              (const char *)c->type, at);
    if (png_checksum(c->type, PNG_TYPE + c->length) != png_u32(c->data + c->length))
        return dt_picture_bad(p, "PNG chunk %.4s at byte %zu has a wrong checksum",
                              (const char *)c->type, at);
    return true;
}

static bool png_header(const png_chunk *c, png_seen *seen, dt_picture *p)
{
    /* allowed bits per sample of each colour type, as a set */
    static const uint32_t depths[7] = {[0] = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16,
                                       [2] = 1 << 8 | 1 << 16,
                                       [3] = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8,
                                       [4] = 1 << 8 | 1 << 16,
                                       [6] = 1 << 8 | 1 << 16};
    const uint8_t *d = c->data;

    if (seen->header || c->length != 13)
        return dt_picture_bad(p, "PNG chunk IHDR at byte %zu is a second one or has not 13 bytes",
                              c->at);
    if (d[9] > 6 || d[8] > 16 || !(depths[d[9]] >> d[8] & 1) || d[10] != 0 || d[11] != 0 ||
        d[12] > 1)
        return dt_picture_bad(p, "no PNG has colour type %d with %d bits, methods %d, %d and %d",
                              d[9], d[8], d[10], d[11], d[12]);
    seen->header = true;
    seen->colour = d[9];
    return dt_picture_size(p, png_u32(d), png_u32(d + 4));
}

static bool png_palette(const png_chunk *c, png_seen *seen, dt_picture *p)
{
    if (seen->palette || seen->pixels || c->length == 0 || c->length > 768 || c->length % 3 != 0)
        return dt_picture_bad(p, "PNG chunk PLTE at byte %zu is misplaced or has %lu bytes", c->at,
                              (unsigned long)c->length);
    seen->palette = true;
    return true;
}

static bool png_pixels(const png_chunk *c, png_seen *seen, dt_picture *p)
{
    if (seen->colour == 3 && !seen->palette)
        return dt_picture_bad(p, "the PNG has no palette (PLTE) for its pixels");
    if (seen->after_pixels)
        return dt_picture_bad(p, "the PNG's pixels (IDAT) go on at byte %zu, after another chunk",
                              c->at);
    if (!seen->pixels && c->length == 0)
        return dt_picture_bad(p, "the PNG's pixels (IDAT) begin with an empty chunk");
    seen->pixels = true;
    return true;
}

static bool png_end(const png_chunk *c, png_seen *seen, dt_picture *p)
{
    if (!seen->pixels || c->length != 0)
        return dt_picture_bad(p, "the PNG ends at byte %zu without pixels (IDAT)", c->at);
    seen->end = true;
    return true;
}

/* A chunk whose type begins with a small letter may be left out. */
static bool png_other(const png_chunk *c, png_seen *seen, dt_picture *p)
{
    if (!(c->type[0] & 32))
        return dt_picture_bad(p, "PNG chunk %.4s at byte %zu is unknown", (const char *)c->type,
                              c->at);
    seen->after_pixels = seen->pixels;
    return true;
}

bool dt_picture_png(const uint8_t *bytes, size_t count, dt_picture *p)
{
    static const struct {
        const char *type;
        bool (*take)(const png_chunk *c, png_seen *seen, dt_picture *p);
    } row[] = {
        {"IHDR", png_header}, {"PLTE", png_palette}, {"IDAT", png_pixels}, {"IEND", png_end}};
    enum { ROWS = DT_COUNT_OF(row) };
    png_seen seen = {0};
    png_chunk c;

    for (size_t at = PNG_SIGNATURE; !seen.end; at += PNG_FRAME + c.length) {
        size_t r = 0;
        if (!png_next(bytes, count, at, &c, p))
            return false;
        while (r < ROWS && !png_is(&c, row[r].type))
            r++;
        if (!seen.header && r != 0)
            return dt_picture_bad(p, "the PNG begins with chunk %.4s, not with IHDR",
                                  (const char *)c.type);
        if (!(r < ROWS ? row[r].take : png_other)(&c, &seen, p))
            return false;
    }
    return true;
}
